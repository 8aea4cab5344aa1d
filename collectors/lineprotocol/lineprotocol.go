// SPDX-License-Identifier: GPL-3.0-or-later

// Package lineprotocol builds and checks lines of InfluxDB's line protocol: what collectors write
// and what workloads send to the host agent's socket.
package lineprotocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Encoder builds line-protocol lines in one buffer that it keeps between batches: a collector at a
// high rate must not feed the garbage collector.
//
//	e.Begin("power").Tag("rail", "12v")
//	e.Float("watts", 3.2)
//	e.Int("samples", 1000)
//	e.End(realtimeNanoseconds)
//	w.Write(e.Bytes()); e.Reset()
//
// Field types are the schema's contract: a field is Int or Float forever.
type Encoder struct {
	buf    []byte
	start  int // of the line under way
	fields int
}

// Reset forgets the lines; the buffer stays.
func (e *Encoder) Reset() { e.buf = e.buf[:0] }

// Bytes is the lines ended since Reset; valid until the next call of Reset or Begin.
func (e *Encoder) Bytes() []byte { return e.buf }

// Begin starts a line.
func (e *Encoder) Begin(measurement string) *Encoder {
	e.start, e.fields = len(e.buf), 0
	e.buf = appendName(e.buf, measurement, false)
	return e
}

// BeginKey starts a line with a measurement and tags that AppendKey made once.
func (e *Encoder) BeginKey(key []byte) *Encoder {
	e.start, e.fields = len(e.buf), 0
	e.buf = append(e.buf, key...)
	return e
}

// AppendKey appends measurement and tags (key, value, key, value ...) as BeginKey takes them. Tags
// with an empty value are left out, as in Tag.
func AppendKey(dst []byte, measurement string, tags ...string) []byte {
	dst = appendName(dst, measurement, false)
	for i := 0; i+1 < len(tags); i += 2 {
		dst = appendTag(dst, tags[i], tags[i+1])
	}
	return dst
}

// Tag adds a tag; all tags come before the first field. An empty value is left out: the line
// protocol has no empty tags.
func (e *Encoder) Tag(key, value string) *Encoder {
	e.buf = appendTag(e.buf, key, value)
	return e
}

// Int adds an integer field.
func (e *Encoder) Int(key string, v int64) {
	e.field(key)
	e.buf = append(strconv.AppendInt(e.buf, v, 10), 'i')
}

// Float adds a float field. NaN and the infinities do not exist in the line protocol: such a field
// is left out and false returned.
func (e *Encoder) Float(key string, v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	e.field(key)
	e.buf = strconv.AppendFloat(e.buf, v, 'g', -1, 64)
	return true
}

// String adds a string field. Line ends become spaces: a line of the spool is a point.
func (e *Encoder) String(key, v string) {
	e.field(key)
	e.buf = append(e.buf, '"')
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"' || c == '\\':
			e.buf = append(e.buf, '\\', c)
		case c < ' ' || c == 0x7f:
			e.buf = append(e.buf, ' ')
		default:
			e.buf = append(e.buf, c)
		}
	}
	e.buf = append(e.buf, '"')
}

// End ends the line with its time in nanoseconds since 1970, UTC. A line on which no field was left
// is taken back, and false returned.
func (e *Encoder) End(realtimeNs int64) bool {
	if e.fields == 0 {
		e.buf = e.buf[:e.start]
		return false
	}
	e.buf = append(e.buf, ' ')
	e.buf = append(strconv.AppendInt(e.buf, realtimeNs, 10), '\n')
	return true
}

func (e *Encoder) field(key string) {
	if e.fields == 0 {
		e.buf = append(e.buf, ' ')
	} else {
		e.buf = append(e.buf, ',')
	}
	e.fields++
	e.buf = append(appendName(e.buf, key, true), '=')
}

func appendTag(dst []byte, key, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(appendName(append(dst, ','), key, true), '=')
	return appendName(dst, value, true)
}

// appendName escapes a measurement, tag key, tag value or field key. What the line protocol cannot
// carry there (control characters; a backslash in front of something that it would escape, the end
// included) becomes '_'.
func appendName(dst []byte, s string, escapeEquals bool) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ',' || c == ' ' || (c == '=' && escapeEquals):
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '_')
		case c == '\\' && (i+1 == len(s) || s[i+1] == ',' || s[i+1] == ' ' || s[i+1] == '=' || s[i+1] == '\\'):
			dst = append(dst, '_')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// MaxLineBytes is the length from which a line is refused, its line end not counted.
const MaxLineBytes = 64 << 10

// CheckLines looks at lines that come from another program: whole lines, each with a measurement,
// fields and a time. A line without a time is refused because it would get the time of its arrival,
// which the spool delays, and because sending it twice would make two points. A time before 2001 is
// refused because it is one in another unit than nanoseconds. What the fields hold is left to the
// server.
func CheckLines(lines []byte) error {
	if len(lines) == 0 {
		return errors.New("no line: expected line protocol")
	}
	if lines[len(lines)-1] != '\n' {
		return errors.New("the last line is not ended by a line end")
	}
	for n := 1; len(lines) > 0; n++ {
		end := bytes.IndexByte(lines, '\n')
		if err := checkLine(lines[:end]); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		lines = lines[end+1:]
	}
	return nil
}

func checkLine(line []byte) error {
	if len(line) >= MaxLineBytes {
		return fmt.Errorf("%d bytes: expected fewer than %d", len(line), MaxLineBytes)
	}
	for _, c := range line {
		if c < ' ' || c == 0x7f {
			return fmt.Errorf("control character 0x%02x", c)
		}
	}
	key := scan(line, false)
	switch {
	case len(key) == 0 || line[0] == ',' || line[0] == '#':
		return errors.New("no measurement")
	case len(key) == len(line):
		return errors.New("no fields")
	}
	rest := line[len(key)+1:]
	fields := scan(rest, true)
	if eq := bytes.IndexByte(fields, '='); eq <= 0 || eq == len(fields)-1 {
		return errors.New("no fields: expected key=value")
	}
	if len(fields) == len(rest) {
		return errors.New("no time: expected nanoseconds since 1970 at the end")
	}
	stamp := rest[len(fields)+1:]
	ns, err := strconv.ParseInt(string(stamp), 10, 64)
	if err != nil || ns < 1e18 {
		return fmt.Errorf("time %q: expected nanoseconds since 1970", Truncate(string(stamp), 40))
	}
	return nil
}

// scan returns what stands before the first space that is neither escaped nor, among fields,
// quoted.
func scan(b []byte, fields bool) []byte {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			quoted = fields && !quoted
		case ' ':
			if !quoted {
				return b[:i]
			}
		}
	}
	return b
}

// Truncate returns the first n bytes of s, with "..." where there were more: for messages.
func Truncate(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}
