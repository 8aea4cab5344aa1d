// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"joulerig/workloads/internal/filesys"
)

const maxLineBytes = 1 << 16

// Parse reads a trace. An error names the file by name, and the line.
func Parse(r io.Reader, name string) (*Trace, error) {
	p := parser{trace: &Trace{Name: name}, paths: map[string]int32{}, threads: map[int64]int32{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		p.line++
		if err := p.parse(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, p.line+1, err)
	}
	if len(p.trace.Operations) == 0 {
		return nil, fmt.Errorf("%s: no operation in it", name)
	}
	return p.trace, nil
}

type parser struct {
	trace   *Trace
	paths   map[string]int32
	threads map[int64]int32
	line    int32
	lastNS  int64
}

func (p *parser) parse(line string) error {
	fields, err := split(line)
	switch {
	case err != nil:
		return err
	case len(fields) == 0:
		return nil
	case fields[0] == "file":
		return p.declare(fields[1:])
	case len(fields) < 4:
		return fmt.Errorf("%d fields: expected SECONDS THREAD CALL PATH ..., or file PATH BYTES", len(fields))
	}
	operation := Operation{Line: p.line}
	if operation.TimeNS, err = p.time(fields[0]); err != nil {
		return err
	}
	if operation.Thread, err = p.thread(fields[1]); err != nil {
		return err
	}
	if operation.Call, err = callNamed(fields[2]); err != nil {
		return err
	}
	if operation.Path, err = p.path(fields[3]); err != nil {
		return err
	}
	if err := p.rest(&operation, fields[4:]); err != nil {
		return err
	}
	p.trace.Operations = append(p.trace.Operations, operation)
	return nil
}

// split returns a line's fields: separated by blanks, a quoted one with its quotes resolved; "#"
// begins a comment.
func split(line string) (fields []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' {
			return fields, nil
		}
		field := line
		if line[0] == '"' {
			if field, err = strconv.QuotedPrefix(line); err != nil {
				return nil, fmt.Errorf("%.40s: expected the quote's end", line)
			}
		} else if end := strings.IndexAny(line, " \t\r"); end >= 0 {
			field = line[:end]
		}
		line = line[len(field):]
		if field[0] == '"' {
			field, _ = strconv.Unquote(field) // QuotedPrefix has seen to it
		}
		fields = append(fields, field)
	}
}

func (p *parser) declare(fields []string) error {
	if len(fields) != 2 {
		return errors.New("file: expected PATH BYTES after it")
	}
	path, err := p.path(fields[0])
	if err != nil {
		return err
	}
	p.trace.Paths[path].Declared, err = number("size", fields[1], math.MaxInt64)
	return err
}

func (p *parser) time(field string) (int64, error) {
	seconds, err := strconv.ParseFloat(field, 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64/1e9) {
		return 0, fmt.Errorf("time %q: expected seconds, 0 or more", field)
	}
	ns := int64(math.Round(seconds * 1e9))
	if ns < p.lastNS {
		return 0, fmt.Errorf("time %s: expected at least that of the line before", field)
	}
	p.lastNS = ns
	return ns, nil
}

func (p *parser) thread(field string) (int32, error) {
	id, err := number("thread", field, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	index, known := p.threads[id]
	if !known {
		if len(p.threads) == maxThreads {
			return 0, fmt.Errorf("thread %d: expected at most %d different ones", id, maxThreads)
		}
		index = int32(len(p.threads))
		p.threads[id] = index
		p.trace.Threads = append(p.trace.Threads, id)
	}
	return index, nil
}

func (p *parser) path(field string) (int32, error) {
	name, folder := strings.CutSuffix(field, "/")
	if name == "" {
		return 0, fmt.Errorf("path %q: expected a path below the directory, such as a/b", field)
	}
	if _, err := filesys.NewName(name); err != nil {
		return 0, err
	}
	index, known := p.paths[name]
	if !known {
		index = int32(len(p.paths))
		p.paths[name] = index
		p.trace.Paths = append(p.trace.Paths, Path{Name: name, Declared: -1})
	}
	p.trace.Paths[index].Folder = p.trace.Paths[index].Folder || folder
	return index, nil
}

// rest takes the fields after the path.
func (p *parser) rest(operation *Operation, fields []string) (err error) {
	names := strings.Fields(traits[operation.Call].fields)
	if len(fields) != len(names) {
		return fmt.Errorf("%s: %d fields after the path: expected %d: %s", operation.Call, len(fields), len(names), strings.Join(names, " "))
	}
	for i, name := range names {
		switch {
		case name == "OFFSET":
			operation.Offset, err = number("offset", fields[i], math.MaxInt64-MaxBytes)
		case name == "NEW-PATH":
			operation.To, err = p.path(fields[i])
		case operation.Call == Truncate:
			operation.Bytes, err = number("bytes", fields[i], math.MaxInt64)
		default:
			operation.Bytes, err = number("bytes", fields[i], MaxBytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func number(what, field string, most int64) (int64, error) {
	n, err := strconv.ParseInt(field, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s %q: expected 0 to %d", what, field, most)
	}
	return n, nil
}
