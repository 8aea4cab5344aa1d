// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// straceCall is one system call of an strace.
type straceCall struct {
	task      int64 // the kernel's number of the thread; 0 where strace followed none
	timeNS    int64
	name      string
	arguments []string
	result    int64 // below 0: it failed, or did not return
	tookNS    int64
}

// argument returns an argument, empty where there are fewer.
func (c *straceCall) argument(n int) string {
	if n < 0 || n >= len(c.arguments) {
		return ""
	}
	return c.arguments[n]
}

// number returns an argument that is a whole number; a descriptor may have its path behind it
// ("3</a>").
func (c *straceCall) number(n int) (int64, bool) {
	text, _, _ := strings.Cut(c.argument(n), "<")
	value, err := strconv.ParseInt(text, 0, 64)
	return value, err == nil
}

// path returns an argument that is a path.
func (c *straceCall) path(n int) (string, bool) { return unquote(c.argument(n)) }

func (c *straceCall) has(flag string) bool {
	for _, argument := range c.arguments {
		if !strings.HasPrefix(argument, `"`) && strings.Contains(argument, flag) {
			return true
		}
	}
	return false
}

var (
	straceHead    = regexp.MustCompile(`^(?:\[pid +(\d+)\] |(\d+) +)?(\d+)\.(\d{1,9}) (.*)$`)
	straceBegin   = regexp.MustCompile(`^(\w+)\((.*)$`)
	straceResumed = regexp.MustCompile(`^<\.\.\. (\w+) resumed>(.*)$`)
	straceResult  = regexp.MustCompile(`^\) *= (-?\d+|0x[0-9a-f]+|\?)(?:[ <].*)?$`)
	straceTook    = regexp.MustCompile(`<(\d+\.\d+)>$`)
)

const straceUnfinished = "<unfinished ...>"

var errNoStrace = errors.New("not a line of strace -f -ttt -T")

// splitHead takes thread and time off a line.
func splitHead(line string) (task, timeNS int64, rest string, err error) {
	head := straceHead.FindStringSubmatch(line)
	if head == nil {
		return 0, 0, "", errNoStrace
	}
	task, _ = strconv.ParseInt(head[1]+head[2], 10, 64)
	seconds, err := strconv.ParseInt(head[3], 10, 64)
	if err != nil || seconds >= math.MaxInt64/1_000_000_000 {
		return 0, 0, "", errNoStrace
	}
	fraction, _ := strconv.ParseInt((head[4] + "00000000")[:9], 10, 64)
	return task, seconds*1e9 + fraction, head[5], nil
}

// parseCall reads a whole call: name(arguments) = result <time>.
func parseCall(text string) (*straceCall, error) {
	begin := straceBegin.FindStringSubmatch(text)
	if begin == nil {
		return nil, errNoStrace
	}
	arguments, rest, ok := splitArguments(begin[2])
	result := straceResult.FindStringSubmatch(rest)
	if !ok || result == nil {
		return nil, errNoStrace
	}
	call := &straceCall{name: begin[1], arguments: arguments, result: -1}
	if value, err := strconv.ParseInt(result[1], 0, 64); err == nil {
		call.result = value
	}
	if took := straceTook.FindStringSubmatch(rest); took != nil {
		seconds, _ := strconv.ParseFloat(took[1], 64)
		call.tookNS = int64(seconds * 1e9)
	}
	return call, nil
}

// splitArguments splits at the commas that are in no quotes and no brackets; rest begins with the
// call's closing bracket.
func splitArguments(text string) (arguments []string, rest string, ok bool) {
	depth, begin := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = quoteEnd(text, i); i < 0 {
				return nil, "", false
			}
		case '(', '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				arguments, begin = append(arguments, strings.TrimSpace(text[begin:i])), i+1
			}
		case ')':
			if depth > 0 {
				depth--
				continue
			}
			if last := strings.TrimSpace(text[begin:i]); last != "" || len(arguments) > 0 {
				arguments = append(arguments, last)
			}
			return arguments, text[i:], true
		}
	}
	return nil, "", false
}

// quoteEnd gives where a quoted string ends, -1 where it does not.
func quoteEnd(text string, begin int) int {
	for i := begin + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

var straceEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'v': '\v', 'f': '\f', '"': '"', '\\': '\\'}

// unquote resolves the escapes of C that strace writes. A string that it cut short ("abc"...) is
// none.
func unquote(text string) (string, bool) {
	if len(text) < 2 || text[0] != '"' || quoteEnd(text, 0) != len(text)-1 {
		return "", false
	}
	text = text[1 : len(text)-1]
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			plain.WriteByte(text[i])
			continue
		}
		i++
		if escaped, known := straceEscapes[text[i]]; known {
			plain.WriteByte(escaped)
			continue
		}
		end := i
		for end < len(text) && end < i+3 && text[end] >= '0' && text[end] <= '7' {
			end++
		}
		octal, err := strconv.ParseUint(text[i:end], 8, 8)
		if err != nil {
			return "", false
		}
		plain.WriteByte(byte(octal))
		i = end - 1
	}
	return plain.String(), true
}
