// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What a file may be, so that reading one ends soon and in little memory.
const (
	maxSource  = 256 << 10 // bytes
	maxWord    = 255
	maxQuoted  = 4096
	maxEcho    = 64 << 10 // bytes, of all of a file
	maxLocals  = 64       // variables of a flowop
	maxRows    = 200      // of a `randtable`
	maxFlowops = 10000    // when those of one's own making are written out
	maxNested  = 32       // flowops in flowops
)

type tokenKind uint8

const (
	endToken      tokenKind = iota
	wordToken               // a word, or a string without quotes
	numberToken             // digits with k, m or g
	variableToken           // text is the name, without $, ( ) and { }
	quotedToken             // text is what stands between the quotes
	signToken               // one of { } ( ) = , + * /
)

type token struct {
	kind   tokenKind
	text   string
	number int64
	line   int
}

// String is how an error shows the token.
func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end of the file"
	case variableToken:
		return strconv.Quote("$" + t.text)
	}
	return strconv.Quote(t.text)
}

// problem is an error at a line, 0 if at none; Parse puts the file's name before it.
type problem struct {
	line int
	text string
}

func (p *problem) Error() string {
	if p.line == 0 {
		return " " + p.text
	}
	return fmt.Sprintf("%d: %s", p.line, p.text)
}

func failure(line int, format string, arguments ...any) error {
	return &problem{line, fmt.Sprintf(format, arguments...)}
}

type lexer struct {
	rest string
	line int
}

// tokens splits a whole source.
func tokens(source string) ([]token, error) {
	l := lexer{rest: source, line: 1}
	var all []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		all = append(all, t)
		if t.kind == endToken {
			return all, nil
		}
	}
}

func (l *lexer) next() (token, error) {
	l.skip()
	if l.rest == "" {
		return token{kind: endToken, line: l.line}, nil
	}
	switch c := l.rest[0]; {
	case c == '"':
		return l.quoted()
	case c == '$':
		return l.variable()
	case c == '/' && l.standsAlone(), strings.IndexByte("{}()=,+*", c) >= 0:
		return token{kind: signToken, text: l.take(1), line: l.line}, nil
	case isDigit(c), c == '-' && len(l.rest) > 1 && isDigit(l.rest[1]):
		return l.numeral()
	case isWord(c):
		return l.word()
	}
	character := []rune(l.rest[:min(len(l.rest), 4)])[0]
	return token{}, failure(l.line, "%q: not a character of the language", string(character))
}

// skip passes blanks and comments.
func (l *lexer) skip() {
	for l.rest != "" {
		switch c := l.rest[0]; {
		case c == '\n':
			l.line++
			l.take(1)
		case c == ' ' || c == '\t' || c == '\r':
			l.take(1)
		case c == '#':
			l.takeWhile(func(c byte) bool { return c != '\n' })
		default:
			return
		}
	}
}

func (l *lexer) take(n int) string {
	taken := l.rest[:n]
	l.rest = l.rest[n:]
	return taken
}

func (l *lexer) takeWhile(fits func(byte) bool) string {
	n := 0
	for n < len(l.rest) && fits(l.rest[n]) {
		n++
	}
	return l.take(n)
}

func (l *lexer) word() (token, error) {
	t := token{kind: wordToken, text: l.takeWhile(isWord), line: l.line}
	if len(t.text) > maxWord {
		return t, failure(l.line, "%q...: longer than %d letters", t.text[:20], maxWord)
	}
	return t, nil
}

// standsAlone distinguishes a division from the beginning of a path.
func (l *lexer) standsAlone() bool {
	return len(l.rest) > 1 && strings.IndexByte(" \t$", l.rest[1]) >= 0
}

func (l *lexer) quoted() (token, error) {
	t := token{kind: quotedToken, line: l.line}
	for n := 1; n < len(l.rest); n++ {
		switch l.rest[n] {
		case '\\':
			n++
		case '\n':
			l.line++
		case '"':
			t.text = l.take(n + 1)[1:n]
			if len(t.text) > maxQuoted {
				return t, failure(t.line, "quote: longer than %d letters", maxQuoted)
			}
			return t, nil
		}
	}
	return token{}, failure(t.line, "quote: not closed")
}

// variable reads $name, $(name) and ${name}.
func (l *lexer) variable() (token, error) {
	start := l.rest
	l.take(1)
	closing := ""
	if l.rest != "" && (l.rest[0] == '(' || l.rest[0] == '{') {
		closing = map[string]string{"(": ")", "{": "}"}[l.take(1)]
	}
	name := l.takeWhile(isName)
	if name == "" || isDigit(name[0]) || !strings.HasPrefix(l.rest, closing) {
		return token{}, failure(l.line, "%q: not a variable's name", start[:min(len(start), 20)])
	}
	l.take(len(closing))
	return token{kind: variableToken, text: name, line: l.line}, nil
}

func (l *lexer) numeral() (token, error) {
	text := l.takeWhile(isWord)
	number, err := parseInteger(text)
	if err != nil {
		return token{}, failure(l.line, "%q: %v", text, err)
	}
	return token{kind: numberToken, text: text, number: number, line: l.line}, nil
}

var suffixes = map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}

// parseInteger reads digits with a k, m or g (powers of 1024) after them.
func parseInteger(text string) (int64, error) {
	digits, unit := text, int64(1)
	if text != "" && suffixes[text[len(text)-1]] > 0 {
		digits, unit = text[:len(text)-1], suffixes[text[len(text)-1]]
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil && strings.Trim(digits, "-0123456789") != "" || digits == "" {
		return 0, fmt.Errorf("not a whole number with k, m or g")
	}
	if err != nil || number > math.MaxInt64/unit || number < math.MinInt64/unit {
		return 0, fmt.Errorf("too large a number")
	}
	return number * unit, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isName(c byte) bool {
	return isDigit(c) || c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func isWord(c byte) bool { return isName(c) || strings.IndexByte("/.:;-", c) >= 0 }
