// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"fmt"
	"strconv"
	"strings"
)

type valueKind uint8

const (
	noValue valueKind = iota // a composite's variable that has no value
	numberValue
	booleanValue
	textValue
	variableValue // text names a variable, looked up when the whole file is read
	randomValue
)

type value struct {
	kind   valueKind
	number int64 // a boolean is 0 or 1
	text   string
	random *node
	line   int
}

// String is the value as a file would have it.
func (v value) String() string {
	switch v.kind {
	case numberValue:
		return strconv.FormatInt(v.number, 10)
	case booleanValue:
		return strconv.FormatBool(v.number != 0)
	case variableValue:
		return "$" + v.text
	case randomValue:
		return v.random.describe()
	}
	return v.text
}

// node is what a definition states, before its variables are looked up.
type node struct {
	what       string // "fileset", "thread", ...
	kind       Kind   // of a flowop
	composite  *node  // what a flowop of one's own making is made of
	line       int
	attributes map[string]value // "randtable" is in table
	order      []string         // names of the attributes as they come
	locals     map[string]value
	table      [][3]value // `randtable`: percent, from, to
	inner      []*node
}

func (n *node) literalName() string {
	if v := n.attributes["name"]; v.kind == textValue {
		return v.text
	}
	return ""
}

// label is how errors call the node.
func (n *node) label() string {
	if name := n.literalName(); name != "" {
		return fmt.Sprintf("%s %q", n.what, name)
	}
	return n.what
}

// describe shows a random variable.
func (n *node) describe() string {
	var parts []string
	for _, name := range n.order {
		parts = append(parts, name+"="+n.attributes[name].String())
	}
	return n.what + "(" + strings.Join(parts, ",") + ")"
}

type parser struct {
	tokens     []token
	at         int
	overrides  map[string]string
	overridden map[string]bool
	variables  map[string]value // their values so far; never a variableValue
	filesets   []*node
	processes  []*node
	composites map[string]*node
	rate       *node
	quit       Quit
	said       []string
	saidBytes  int
	seconds    int64
	created    bool // by `create processes`
	hasRun     bool
}

func (p *parser) peek() token { return p.tokens[p.at] }

// take returns the next token; at the end, the end again and again.
func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != endToken {
		p.at++
	}
	return t
}

// accept takes the next token if it is this word or sign.
func (p *parser) accept(text string) bool {
	t := p.peek()
	if t.text != text || t.kind != wordToken && t.kind != signToken {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(sign string) error {
	if !p.accept(sign) {
		return failure(p.peek().line, "%v: %q is expected", p.peek(), sign)
	}
	return nil
}

// block reads { WORD ... WORD ... }, each of which inner reads on from its word.
func (p *parser) block(n *node, word string, inner func(*node) error) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for !p.accept("}") {
		if !p.accept(word) {
			return unknownWord(p.peek().line, n.label()+": word", p.peek().text, []string{word, "}"})
		}
		child := &node{what: word, line: p.tokens[p.at-1].line}
		n.inner = append(n.inner, child)
		if err := inner(child); err != nil {
			return err
		}
	}
	if n.inner == nil {
		return failure(n.line, "%s: has no %s", n.label(), word)
	}
	return nil
}

// attributes reads NAME[=VALUE], ... and, of flowops of one's own making, $NAME[=VALUE].
func (p *parser) attributes(n *node, known vocabulary) error {
	n.attributes = map[string]value{}
	if !p.attributesFollow(known) {
		return nil
	}
	for {
		if err := p.attribute(n, known); err != nil {
			return err
		}
		if !p.accept(",") {
			return nil
		}
	}
}

// attributesFollow distinguishes a list of attributes from the word of what comes next.
func (p *parser) attributesFollow(known vocabulary) bool {
	t := p.peek()
	if t.kind == endToken || t.kind == signToken {
		return false
	}
	after := p.tokens[p.at+1]
	return known[t.text] != "" || t.kind == variableToken || after.kind == signToken && (after.text == "=" || after.text == ",")
}

func (p *parser) attribute(n *node, known vocabulary) error {
	t := p.take()
	if t.kind == variableToken {
		return p.local(n, t)
	}
	name := known[t.text]
	if name == "" || t.kind != wordToken {
		return unknownWord(t.line, n.label()+": attribute", t.text, known.words())
	}
	if _, twice := n.attributes[name]; twice {
		return failure(t.line, "%s: %s is stated twice", n.label(), t.text)
	}
	n.order = append(n.order, name)
	v := value{kind: booleanValue, number: 1, line: t.line}
	var err error
	if p.accept("=") {
		if name == "randtable" {
			n.attributes[name] = v
			return p.table(n)
		}
		v, err = p.value()
	}
	n.attributes[name] = v
	return err
}

// local reads a variable of a flowop of one's own making, or what a use gives it.
func (p *parser) local(n *node, t token) error {
	if n.what != "flowop" || n.kind != "" && n.composite == nil {
		return failure(t.line, "%s: %v: only a flowop of a `define flowop` takes variables", n.label(), t)
	}
	if _, twice := n.locals[t.text]; twice {
		return failure(t.line, "%s: %v is stated twice", n.label(), t)
	}
	v := value{line: t.line}
	if p.accept("=") {
		var err error
		if v, err = p.value(); err != nil {
			return err
		}
	}
	if n.locals == nil {
		n.locals = map[string]value{}
	}
	if n.locals[t.text] = v; len(n.locals) > maxLocals {
		return failure(t.line, "%s: more than %d variables", n.label(), maxLocals)
	}
	return nil
}

// table reads {{PERCENT, FROM, TO}, ...}.
func (p *parser) table(n *node) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for {
		var row [3]value
		for i, sign := range []string{"{", ",", ","} {
			if err := p.expect(sign); err != nil {
				return err
			}
			var err error
			if row[i], err = p.value(); err != nil {
				return err
			}
		}
		if err := p.expect("}"); err != nil {
			return err
		}
		if n.table = append(n.table, row); len(n.table) > maxRows {
			return failure(n.line, "randtable: more than %d rows", maxRows)
		}
		if !p.accept(",") {
			return p.expect("}")
		}
	}
}

// value reads a number, true, false, a variable, a word or a quoted text.
func (p *parser) value() (value, error) {
	t := p.take()
	switch t.kind {
	case numberToken:
		return value{kind: numberValue, number: t.number, line: t.line}, nil
	case variableToken:
		return value{kind: variableValue, text: t.text, line: t.line}, nil
	case wordToken:
		return wordValue(t.text, t.line), nil
	case quotedToken:
		if strings.Contains(t.text, "$") {
			return value{}, failure(t.line, "%v: a variable in quotes is read in echo only", t)
		}
		return value{kind: textValue, text: t.text, line: t.line}, nil
	}
	return value{}, failure(t.line, "%v: a value is expected", t)
}

func wordValue(text string, line int) value {
	switch text {
	case "true":
		return value{kind: booleanValue, number: 1, line: line}
	case "false":
		return value{kind: booleanValue, line: line}
	}
	return value{kind: textValue, text: text, line: line}
}

// valueNow reads a value; a variable's is what it is at this line.
func (p *parser) valueNow() (value, error) {
	v, err := p.value()
	if err != nil || v.kind != variableValue {
		return v, err
	}
	known, is := p.variables[v.text]
	if !is {
		return v, unknownWord(v.line, "variable", "$"+v.text, variableNames(p.variables))
	}
	known.line = v.line
	return known, nil
}

// expression reads what a `set` sets: a value, a random variable, or two numbers with + - * or /
// between them, which is worked out at once.
func (p *parser) expression() (value, error) {
	if p.accept("randvar") {
		return p.random("randvar", randvarAttributes)
	}
	if p.accept("cvar") {
		return p.random("cvar", cvarAttributes)
	}
	left, err := p.valueNow()
	if err != nil {
		return left, err
	}
	for _, operator := range []string{"+", "-", "*", "/"} {
		if p.accept(operator) {
			right, err := p.valueNow()
			if err != nil {
				return right, err
			}
			return calculate(left, operator, right)
		}
	}
	return left, nil
}

func calculate(a value, operator string, b value) (value, error) {
	if a.kind != numberValue || b.kind != numberValue {
		return a, failure(a.line, "%v %s %v: both must be numbers", a, operator, b)
	}
	result, ok := checked(a.number, operator, b.number)
	if !ok {
		return a, failure(a.line, "%v %s %v: not a number from 0 to 2^62", a, operator, b)
	}
	return value{kind: numberValue, number: result, line: a.line}, nil
}

// random reads what stands after randvar or cvar.
func (p *parser) random(word string, known vocabulary) (value, error) {
	n := &node{what: word, line: p.peek().line}
	if err := p.expect("("); err != nil {
		return value{}, err
	}
	if err := p.attributes(n, known); err != nil {
		return value{}, err
	}
	return value{kind: randomValue, random: n, line: n.line}, p.expect(")")
}

// overriding reads a value that comes from outside the file.
func overriding(text string, line int) (value, error) {
	if strings.HasPrefix(text, "cvar(") || strings.HasPrefix(text, "randvar(") {
		all, err := tokens(text)
		if err != nil {
			return value{line: line}, err
		}
		p := parser{tokens: all}
		v, err := p.expression()
		if err == nil && p.peek().kind != endToken {
			err = failure(line, "%v: too much", p.peek())
		}
		v.line = line
		return v, err
	}
	if number, err := parseInteger(text); err == nil {
		return value{kind: numberValue, number: number, line: line}, nil
	}
	return wordValue(text, line), nil
}

// expand puts the variables' values into a text; a name that is none stays.
func (p *parser) expand(text string) string {
	var out strings.Builder
	for l := (lexer{rest: text}); l.rest != ""; {
		if l.rest[0] == '\\' && len(l.rest) > 1 {
			l.take(1)
			out.WriteString(escaped(l.take(1)))
			continue
		}
		if l.rest[0] != '$' {
			out.WriteString(l.take(1))
			continue
		}
		before := l.rest
		t, err := l.variable()
		v, is := p.variables[t.text]
		if err != nil || !is {
			out.WriteString(before[:len(before)-len(l.rest)])
			continue
		}
		out.WriteString(v.String())
		if out.Len() > maxEcho {
			break
		}
	}
	return out.String()
}

func escaped(letter string) string {
	if letter == "n" {
		return "\n"
	}
	return letter
}

// checked works out a calculation whose result is a number from 0 to maxNumber.
func checked(a int64, operator string, b int64) (int64, bool) {
	result, about := int64(0), 0.0
	switch operator {
	case "+":
		result, about = a+b, float64(a)+float64(b)
	case "-":
		result, about = a-b, float64(a)-float64(b)
	case "*":
		result, about = a*b, float64(a)*float64(b)
	case "/":
		if b == 0 {
			return 0, false
		}
		result, about = a/b, float64(a)/float64(b)
	}
	return result, about >= 0 && about <= maxNumber
}
