// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"fmt"
	"maps"
	"slices"
)

// Parse reads a workload. file is what errors call it; overrides replace what the file sets for the
// variables named, in the words of a `set` ("5000", "16k", "true", "cvar(...)"). An error is one
// line: file, line, what is wrong, and the nearest known word where one is unknown.
func Parse(file string, source []byte, overrides map[string]string) (*Program, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%s: larger than %d bytes", file, maxSource)
	}
	program, err := parse(file, string(source), overrides)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", file, err)
	}
	return program, nil
}

func parse(file, source string, overrides map[string]string) (*Program, error) {
	all, err := tokens(source)
	if err != nil {
		return nil, err
	}
	p := &parser{
		tokens: all, overrides: overrides, overridden: map[string]bool{}, quit: QuitTimeout,
		variables: map[string]value{}, composites: map[string]*node{},
	}
	for p.peek().kind != endToken {
		if err := p.statement(); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if !p.overridden[name] {
			return nil, unknownWord(0, "variable to set", "$"+name, variableNames(p.variables))
		}
	}
	r := &resolver{parsed: p, filesets: map[string]*Fileset{}}
	return r.program(file)
}
