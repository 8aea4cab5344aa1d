// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"maps"
	"slices"
	"strings"
)

// maxRun is the longest time that a file may state: a year.
const maxRun = 365 * 24 * 3600

// statements are the commands of the language.
var statements map[string]func(*parser, token) error

func init() {
	statements = map[string]func(*parser, token) error{
		"create": (*parser).create, "debug": (*parser).debug, "define": (*parser).define, "echo": (*parser).echo,
		"enable": (*parser).enable, "eventgen": (*parser).eventgen, "list": (*parser).list, "psrun": (*parser).psrun,
		"quit": (*parser).quitFile, "run": (*parser).run, "set": (*parser).set, "sleep": (*parser).sleep,
		"stats": (*parser).stats, "usage": (*parser).usage, "version": (*parser).version,
	}
}

// statement reads one command.
func (p *parser) statement() error {
	t := p.take()
	if t.kind != wordToken {
		return failure(t.line, "%v: a command is expected", t)
	}
	if reason, is := refused[t.text]; is {
		return failure(t.line, "command %q: refused: %s", t.text, reason)
	}
	do, known := statements[t.text]
	if !known {
		return unknownWord(t.line, "command", t.text, slices.Collect(maps.Keys(statements)))
	}
	if p.hasRun && slices.Contains([]string{"create", "define", "eventgen", "psrun", "run", "set"}, t.text) {
		return failure(t.line, "command %q: comes after the run, and nothing would run it", t.text)
	}
	return do(p, t)
}

func (p *parser) define(token) error {
	what := p.take()
	switch what.text {
	case "file":
		return p.defineFileset(what, fileAttributes)
	case "fileset", "filesets":
		return p.defineFileset(what, filesetAttributes)
	case "process", "processes":
		return p.defineProcess(what)
	case "flowop":
		return p.defineComposite(what)
	case "randvar":
		return p.defineRandvar()
	}
	return unknownWord(what.line, "define", what.text, []string{"file", "fileset", "process", "flowop", "randvar"})
}

func (p *parser) defineFileset(what token, known vocabulary) error {
	n := &node{what: strings.TrimSuffix(what.text, "s"), line: what.line}
	p.filesets = append(p.filesets, n)
	return p.attributes(n, known)
}

func (p *parser) defineProcess(what token) error {
	n := &node{what: "process", line: what.line}
	p.processes = append(p.processes, n)
	if err := p.attributes(n, processAttributes); err != nil {
		return err
	}
	return p.block(n, "thread", p.thread)
}

func (p *parser) thread(n *node) error {
	if err := p.attributes(n, threadAttributes); err != nil {
		return err
	}
	return p.block(n, "flowop", p.flowop)
}

func (p *parser) flowop(n *node) error {
	kind := p.take()
	n.kind = Kind(kind.text)
	if n.composite = p.composites[kind.text]; n.composite != nil {
		return p.attributes(n, useAttributes)
	}
	if _, is := flowops[n.kind]; !is || kind.kind != wordToken {
		return unknownWord(kind.line, "flowop", kind.text, p.flowopWords())
	}
	return p.attributes(n, flowopAttributes)
}

func (p *parser) flowopWords() []string {
	words := slices.Collect(maps.Keys(p.composites))
	for kind := range flowops {
		words = append(words, string(kind))
	}
	return words
}

// defineComposite reads a `define flowop`. It is known from its end on, so none can hold itself.
func (p *parser) defineComposite(what token) error {
	n := &node{what: "flowop", line: what.line}
	if err := p.attributes(n, useAttributes); err != nil {
		return err
	}
	name := n.literalName()
	if name == "" {
		return failure(n.line, "define flowop: name is missing, or is no word")
	}
	if _, taken := flowops[Kind(name)]; taken || p.composites[name] != nil {
		return failure(n.line, "flowop %q: defined twice", name)
	}
	if err := p.block(n, "flowop", p.flowop); err != nil {
		return err
	}
	p.composites[name] = n
	return nil
}

// defineRandvar reads 1.4's `define randvar name=$x, ...`.
func (p *parser) defineRandvar() error {
	n := &node{what: "randvar", line: p.peek().line}
	if err := p.attributes(n, merged(randvarAttributes, attributeNames("name"))); err != nil {
		return err
	}
	name := n.attributes["name"]
	if name.kind != variableValue {
		return failure(n.line, "define randvar: name is missing, or is no variable")
	}
	return p.assign(name.text, value{kind: randomValue, random: n, line: n.line})
}

func (p *parser) set(t token) error {
	if p.accept("mode") {
		return p.mode(t)
	}
	name := p.take()
	if name.kind != variableToken {
		return failure(name.line, "set: %v is no variable", name)
	}
	if err := p.expect("="); err != nil {
		return err
	}
	v, err := p.expression()
	if err != nil {
		return err
	}
	return p.assign(name.text, v)
}

func (p *parser) assign(name string, v value) error {
	if text, is := p.overrides[name]; is {
		p.overridden[name] = true
		var err error
		if v, err = overriding(text, v.line); err != nil {
			return failure(v.line, "override of $%s: %v", name, err.(*problem).text)
		}
	}
	p.variables[name] = v
	return nil
}

func (p *parser) mode(t token) error {
	word := p.take()
	if word.text == "nousestats" {
		return nil
	}
	if word.text != "quit" {
		return unknownWord(word.line, "set mode", word.text, []string{"quit", "nousestats"})
	}
	how := p.take()
	p.quit = Quit(how.text)
	if p.quit != QuitTimeout && p.quit != QuitFirstDone && p.quit != QuitAllDone {
		return unknownWord(t.line, "set mode quit", how.text, []string{"timeout", "firstdone", "alldone"})
	}
	return nil
}

func (p *parser) create(token) error {
	what := p.take()
	words := []string{"files", "fileset", "filesets", "process", "processes"}
	if !slices.Contains(words, what.text) {
		return unknownWord(what.line, "create", what.text, words)
	}
	p.created = p.created || strings.HasPrefix(what.text, "process")
	return nil
}

func (p *parser) run(token) error {
	p.hasRun = true
	return p.runTime()
}

// psrun reads `psrun [-]PERIOD [SECONDS]`; the period is that of a print-out.
func (p *parser) psrun(token) error {
	p.hasRun = true
	if t := p.peek(); t.kind == numberToken || t.kind == variableToken {
		p.take()
	}
	return p.runTime()
}

// sleep is how a run took its time before there was `run`.
func (p *parser) sleep(t token) error {
	if k := p.peek().kind; k != numberToken && k != variableToken {
		return failure(t.line, "sleep: how many seconds is missing")
	}
	if p.hasRun || !p.created {
		p.take()
		return nil
	}
	p.hasRun = true
	return p.runTime()
}

// runTime reads the seconds of a run, which may be missing.
func (p *parser) runTime() error {
	t := p.peek()
	if t.kind != numberToken && t.kind != variableToken {
		return nil
	}
	v, err := p.valueNow()
	if err != nil {
		return err
	}
	if v.kind != numberValue || v.number < 0 || v.number > maxRun {
		return failure(t.line, "run: %v; must be seconds from 0 to %d", v, maxRun)
	}
	p.seconds = v.number
	return nil
}

func (p *parser) eventgen(t token) error {
	n := &node{what: "eventgen", line: t.line}
	if err := p.attributes(n, rateAttributes); err != nil {
		return err
	}
	p.rate = n
	return nil
}

func (p *parser) echo(token) error {
	t, err := p.quoted("echo")
	if err != nil {
		return err
	}
	said := p.expand(t.text)
	if p.saidBytes += len(said); p.saidBytes > maxEcho {
		return failure(t.line, "echo: more than %d bytes in all", maxEcho)
	}
	p.said = append(p.said, said)
	return nil
}

func (p *parser) usage(token) error {
	_, err := p.quoted("usage")
	return err
}

func (p *parser) quoted(command string) (token, error) {
	t := p.take()
	if t.kind != quotedToken {
		return t, failure(t.line, "%s: %v is no text in quotes", command, t)
	}
	return t, nil
}

func (p *parser) debug(t token) error {
	if level := p.take(); level.kind != numberToken {
		return failure(t.line, "debug: %v is no level", level)
	}
	return nil
}

func (p *parser) enable(token) error {
	what := p.take()
	if what.text == "multi" {
		return failure(what.line, "enable multi: refused: a workload runs on one host")
	}
	return p.only(what, "enable", "lathist")
}

func (p *parser) list(token) error { return p.only(p.take(), "list", "fileset", "filesets", "flowop") }

func (p *parser) stats(token) error { return p.only(p.take(), "stats", "clear", "snap") }

func (p *parser) version(token) error { return nil }

func (p *parser) quitFile(token) error {
	p.at = len(p.tokens) - 1
	return nil
}

func (p *parser) only(t token, command string, allowed ...string) error {
	if !slices.Contains(allowed, t.text) {
		return unknownWord(t.line, command, t.text, allowed)
	}
	return nil
}
