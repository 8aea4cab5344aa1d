// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"fmt"
	"maps"
	"slices"
)

// Bounds of what a definition may state.
const (
	maxNumber    = 1 << 62
	maxEntries   = 1_000_000_000
	maxInstances = 65536
)

// resolver makes a Program of what was parsed, when all variables have their last values.
type resolver struct {
	parsed   *parser
	filesets map[string]*Fileset
	flowops  int   // written out so far
	threads  int64 // in all instances so far
}

func variableNames(variables map[string]value) []string {
	var names []string
	for name := range variables {
		names = append(names, "$"+name)
	}
	return names
}

func (r *resolver) program(file string) (*Program, error) {
	p := r.parsed
	out := &Program{File: file, Variables: map[string]string{}, Seconds: p.seconds, Quit: p.quit, Echo: p.said}
	for name, v := range p.variables {
		out.Variables[name] = v.String()
	}
	if p.rate != nil {
		f := r.fields(p.rate, nil)
		out.Rate = f.number("rate", 0)
		if f.err != nil {
			return nil, f.err
		}
	}
	for _, n := range p.filesets {
		f, err := r.fileset(n)
		if err != nil {
			return nil, err
		}
		out.Filesets = append(out.Filesets, f)
	}
	names := map[string]bool{}
	for _, n := range p.processes {
		process, err := r.process(n, names)
		if err != nil {
			return nil, err
		}
		out.Processes = append(out.Processes, process)
	}
	if out.Processes == nil {
		return nil, failure(p.peek().line, "no process is defined")
	}
	return out, checkTargets(out)
}

func (r *resolver) fileset(n *node) (*Fileset, error) {
	f := r.fields(n, nil)
	s := &Fileset{
		Single: n.what == "file", Line: n.line,
		Name: f.word("name"), Path: f.text("path"), Size: f.number("size", 1024),
		Parallel: f.boolean("paralloc"), Reuse: f.boolean("reuse"), TrustTree: f.boolean("trusttree"),
		ReadOnly: f.boolean("readonly"), WriteOnly: f.boolean("writeonly"),
		PreallocPercent: f.percent("prealloc"),
	}
	f.boolean("cached")
	if s.Single {
		s.Entries, s.DirWidth = 1, Fixed(10)
	} else {
		f.need("dirwidth")
		s.Entries = f.integer("entries", 0, 0, maxEntries)
		s.LeafDirectories = f.integer("leafdirs", 0, 0, maxEntries)
		s.DirWidth = f.number("dirwidth", 0)
		s.DirGamma = float64(f.integer("dirgamma", 1500, 0, 1_000_000)) / 1000
		s.DirDepth = f.optional("dirdepthrv")
	}
	if v, has := f.get("dirwidth"); has && s.DirWidth.Mean() < 2 {
		f.wrong("dirwidth", v, "at least 2, in the mean")
	}
	if f.err == nil && r.filesets[s.Name] != nil {
		f.err = failure(n.line, "%s: defined twice", f.label())
	}
	r.filesets[s.Name] = s
	return s, f.err
}

func (r *resolver) process(n *node, names map[string]bool) (*Process, error) {
	f := r.fields(n, nil)
	p := &Process{
		Name: f.word("name"), Line: n.line,
		Instances: f.integer("instances", 1, 1, maxInstances), Nice: f.integer("nice", 0, -20, 19),
	}
	if err := f.once(names, p.Name); err != nil {
		return nil, err
	}
	threads := map[string]bool{}
	for _, inner := range n.inner {
		t, err := r.thread(inner, threads)
		if err != nil {
			return nil, err
		}
		if r.threads += p.Instances * t.Instances; r.threads > maxInstances {
			return nil, failure(inner.line, "more than %d threads in all", maxInstances)
		}
		p.Threads = append(p.Threads, t)
	}
	return p, nil
}

func (r *resolver) thread(n *node, names map[string]bool) (*Thread, error) {
	f := r.fields(n, nil)
	t := &Thread{
		Name: f.word("name"), Line: n.line,
		Instances:   f.integer("instances", 1, 1, maxInstances),
		MemoryBytes: f.integer("memsize", 0, 0, maxNumber), IOPriority: f.integer("ioprio", 8, 0, 8),
	}
	f.boolean("useism")
	if err := f.once(names, t.Name); err != nil {
		return nil, err
	}
	var err error
	t.Flowops, err = r.loop(n.inner, nil, 0)
	return t, err
}

// loop resolves the flowops of a thread, or those inside another one, whose variables are locals.
func (r *resolver) loop(nodes []*node, locals map[string]value, depth int) ([]*Flowop, error) {
	var all []*Flowop
	for _, n := range nodes {
		if r.flowops++; r.flowops > maxFlowops {
			return nil, failure(n.line, "more than %d flowops, when those of a `define flowop` are written out", maxFlowops)
		}
		one := r.flowop
		if n.composite != nil {
			one = r.compose
		}
		o, err := one(n, locals, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func (r *resolver) flowop(n *node, locals map[string]value, _ int) (*Flowop, error) {
	f := r.fields(n, locals)
	o := &Flowop{
		Kind: n.kind, Line: n.line, Name: f.word("name"), Target: f.optionalWord("target"),
		FD: int(f.integer("fd", 0, 0, MaxFD)), HasFD: f.has("fd"),
		SourceFD: int(f.integer("srcfd", 0, 0, MaxFD)), HasSourceFD: f.has("srcfd"),
		RotateFD: f.boolean("opennext"), Random: f.boolean("random"), Sync: f.boolean("dsync"),
		Direct: f.boolean("directio"), NoReadAhead: f.boolean("noreadahead"), Blocking: f.boolean("blocking"),
		Size: f.number("iosize", 0), WorkingSet: f.integer("workingset", 0, 0, maxNumber),
		Iterations: f.number("iters", 1), Value: f.number("value", 0),
		HighWater: f.integer("highwater", 1, 1, maxNumber), Index: f.optional("indexed"),
	}
	f.needs(flowops[n.kind])
	if f.has("filesetname") {
		o.Fileset = r.named(f)
	}
	return o, f.err
}

// named is the fileset that a flowop works on.
func (r *resolver) named(f *fields) *Fileset {
	name := f.word("filesetname")
	s := r.filesets[name]
	if f.err == nil && s == nil {
		f.err = unknownWord(f.node.attributes["filesetname"].line, f.label()+": fileset", name,
			slices.Collect(maps.Keys(r.filesets)))
	}
	return s
}

// compose writes out the use of a flowop of one's own making.
func (r *resolver) compose(n *node, outer map[string]value, depth int) (*Flowop, error) {
	f := r.fields(n, outer)
	o := &Flowop{Kind: Composite, Line: n.line, Name: f.word("name"), Iterations: f.number("iters", 1)}
	if !f.has("iters") {
		o.Iterations = r.fields(n.composite, outer).number("iters", 1)
	}
	if f.err != nil {
		return nil, f.err
	}
	if depth >= maxNested {
		return nil, failure(n.line, "%s: flowops in flowops deeper than %d", f.label(), maxNested)
	}
	locals, err := f.given()
	if err != nil {
		return nil, err
	}
	o.Inner, err = r.loop(n.composite.inner, locals, depth+1)
	return o, err
}

// checkTargets refuses a target that is no flowop, or not one of the kind that the flowop works on.
// A limit's is in its own thread.
func checkTargets(p *Program) error {
	everywhere := map[Kind]map[string]bool{}
	var threads [][]*Flowop
	for _, process := range p.Processes {
		for _, thread := range process.Threads {
			all := flattened(thread.Flowops)
			threads = append(threads, all)
			for _, o := range all {
				if everywhere[o.Kind] == nil {
					everywhere[o.Kind] = map[string]bool{}
				}
				everywhere[o.Kind][o.Name] = true
			}
		}
	}
	for _, all := range threads {
		own := map[string]bool{}
		for _, o := range all {
			own[o.Name] = true
		}
		for _, o := range all {
			known := own
			if o.Kind == Wakeup {
				known = everywhere[Block]
			} else if o.Kind == SemPost {
				known = everywhere[SemBlock]
			}
			if o.Target != "" && !known[o.Target] {
				return unknownWord(o.Line, fmt.Sprintf("flowop %q: target", o.Name), o.Target, slices.Collect(maps.Keys(known)))
			}
		}
	}
	return nil
}

func flattened(loop []*Flowop) []*Flowop {
	var all []*Flowop
	for _, o := range loop {
		all = append(append(all, o), flattened(o.Inner)...)
	}
	return all
}
