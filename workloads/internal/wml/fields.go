// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"fmt"
	"maps"
	"slices"
)

// fields reads a node's attributes. The first error stays, and all reads after it give nothing of
// use.
type fields struct {
	node    *node
	globals map[string]value
	locals  map[string]value
	err     error
}

func (r *resolver) fields(n *node, locals map[string]value) *fields {
	return &fields{node: n, globals: r.parsed.variables, locals: locals}
}

// label is the node's name for errors, its variables looked up.
func (f *fields) label() string {
	if v, has, err := f.find("name"); has && err == nil && v.kind == textValue {
		return fmt.Sprintf("%s %q", f.node.what, v.text)
	}
	return f.node.what
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) has(name string) bool {
	_, has := f.node.attributes[name]
	return has
}

func (f *fields) need(name string) {
	if !f.has(name) {
		f.fail(failure(f.node.line, "%s: %s is missing", f.label(), name))
	}
}

// needs refuses a flowop that lacks what its kind cannot be without.
func (f *fields) needs(n needs) {
	if n.fileset || n.filesetOrFD && !f.has("fd") {
		f.need("filesetname")
	}
	for _, name := range n.attributes {
		f.need(name)
	}
}

// resolve looks a variable up.
func (f *fields) resolve(v value) (value, error) {
	if v.kind != variableValue {
		return v, nil
	}
	known, is := f.locals[v.text]
	if !is {
		known, is = f.globals[v.text]
	}
	if !is {
		names := append(variableNames(f.globals), variableNames(f.locals)...)
		return v, unknownWord(v.line, "variable", "$"+v.text, names)
	}
	if known.kind == noValue {
		return v, failure(v.line, "variable %q: not given a value", "$"+v.text)
	}
	known.line = v.line
	return known, nil
}

func (f *fields) find(name string) (value, bool, error) {
	v, has := f.node.attributes[name]
	if !has {
		return v, false, nil
	}
	v, err := f.resolve(v)
	return v, true, err
}

// get is find, with its error kept.
func (f *fields) get(name string) (value, bool) {
	v, has, err := f.find(name)
	if err != nil {
		f.fail(err)
		return v, false
	}
	return v, has
}

// wrong refuses a value; it names the value's variable.
func (f *fields) wrong(name string, v value, allowed string) {
	of := ""
	if stated := f.node.attributes[name]; stated.kind == variableValue {
		of = " ($" + stated.text + ")"
	}
	f.fail(failure(v.line, "%s: %s is %q%s; must be %s", f.label(), name, v.String(), of, allowed))
}

// text is an attribute that must be there.
func (f *fields) text(name string) string {
	f.need(name)
	v, has := f.get(name)
	if has && v.kind != textValue {
		f.wrong(name, v, "a text")
	}
	return v.text
}

// word is a text that can be a file's name.
func (f *fields) word(name string) string {
	text := f.text(name)
	if f.err == nil && !isFileName(text) {
		f.wrong(name, value{kind: textValue, text: text, line: f.node.attributes[name].line}, "a word without / or blanks")
	}
	return text
}

func (f *fields) optionalWord(name string) string {
	if !f.has(name) {
		return ""
	}
	return f.word(name)
}

func isFileName(text string) bool {
	for i := range len(text) {
		if !isWord(text[i]) || text[i] == '/' {
			return false
		}
	}
	return text != "" && text != "." && text != ".." && len(text) <= maxWord
}

func (f *fields) boolean(name string) bool {
	v, has := f.get(name)
	if has && v.kind != booleanValue && v.kind != numberValue {
		f.wrong(name, v, "true, false, 1 or 0")
	}
	return has && v.number != 0
}

func (f *fields) integer(name string, fallback, low, high int64) int64 {
	v, has := f.get(name)
	if !has {
		return fallback
	}
	if v.kind != numberValue || v.number < low || v.number > high {
		f.wrong(name, v, fmt.Sprintf("a whole number from %d to %d", low, high))
	}
	return v.number
}

// percent is a number, or a boolean that stands for 100.
func (f *fields) percent(name string) int64 {
	if v, has := f.get(name); has && v.kind == booleanValue {
		return 100 * v.number
	}
	return f.integer(name, 0, 0, 100)
}

func (f *fields) number(name string, fallback int64) Number {
	v, has := f.get(name)
	if !has {
		return Fixed(float64(fallback))
	}
	if v.kind == randomValue {
		return f.drawn(v.random)
	}
	if v.kind != numberValue || v.number < 0 || v.number > maxNumber {
		f.wrong(name, v, "a whole number of at least 0, or a random variable")
	}
	return Fixed(float64(v.number))
}

func (f *fields) optional(name string) *Number {
	if !f.has(name) {
		return nil
	}
	n := f.number(name, 0)
	return &n
}

// once refuses a second thing of a name.
func (f *fields) once(names map[string]bool, name string) error {
	if f.err == nil && names[name] {
		return failure(f.node.line, "%s: defined twice", f.label())
	}
	names[name] = true
	return f.err
}

// given are the variables of a flowop of one's own making, as this use of it has them.
func (f *fields) given() (map[string]value, error) {
	definition := f.node.composite
	locals := map[string]value{}
	for _, name := range slices.Sorted(maps.Keys(definition.locals)) {
		resolved, err := (&fields{globals: f.globals}).resolve(definition.locals[name])
		if err != nil {
			return nil, err
		}
		locals[name] = resolved
	}
	for _, name := range slices.Sorted(maps.Keys(f.node.locals)) {
		v := f.node.locals[name]
		if _, is := locals[name]; !is {
			return nil, unknownWord(v.line, f.label()+": variable", "$"+name, variableNames(definition.locals))
		}
		resolved, err := f.resolve(v)
		if err != nil {
			return nil, err
		}
		locals[name] = resolved
	}
	return locals, nil
}
