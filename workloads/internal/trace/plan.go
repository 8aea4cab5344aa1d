// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"errors"
	"fmt"
	"path"
)

var errNotOpen = errors.New("it is not open")

// step is an operation of a replay, with what must be done before it on its paths: all operations
// before where it must be alone, else those that were alone.
type step struct {
	Operation
	alone          bool
	after, afterTo int32
}

// plan is what a replay of a trace does.
type plan struct {
	trace *Trace
	steps [][]step // by thread
	sizes []int64  // by path, of the file that must be there before; -1: none
}

// existence of a path while the trace is read.
type existence uint8

const (
	unknown existence = iota
	present
	absent
)

const madeByTrace = -1

// pathState is what is known of a path at some line of the trace.
type pathState struct {
	existence existence
	origin    int32 // path at which the file was before the replay, or madeByTrace
	written   int64 // the trace has written the file from 0 up to here
	opened    int32
	all       int32 // operations so far
	alone     int32
}

// newPlan finds out which files a trace needs, and which operation must wait for which.
func newPlan(t *Trace) (*plan, error) {
	markFolders(t)
	p := &planner{
		plan:   plan{trace: t, steps: make([][]step, len(t.Threads)), sizes: make([]int64, len(t.Paths))},
		states: make([]pathState, len(t.Paths)),
	}
	for i := range t.Paths {
		p.sizes[i] = t.Paths[i].Declared
		p.states[i].origin = int32(i)
		if t.Paths[i].Folder {
			p.states[i].existence = present
		}
	}
	for i := range t.Operations {
		operation := &t.Operations[i]
		if err := p.take(operation); err != nil {
			return nil, fmt.Errorf("%s:%d: %s %s: %w", t.Name, operation.Line, operation.Call, t.Paths[operation.Path].Name, err)
		}
	}
	return &p.plan, nil
}

// markFolders finds the paths that other paths lie below.
func markFolders(t *Trace) {
	folders := map[string]bool{}
	for i := range t.Paths {
		for name := path.Dir(t.Paths[i].Name); name != "." && !folders[name]; name = path.Dir(name) {
			folders[name] = true
		}
	}
	for i := range t.Paths {
		t.Paths[i].Folder = t.Paths[i].Folder || folders[t.Paths[i].Name]
	}
}

type planner struct {
	plan
	states []pathState
}

func (p *planner) take(o *Operation) error {
	s := step{Operation: *o, alone: traits[o.Call].alone || p.makes(o)}
	if err := p.follow(o); err != nil {
		return err
	}
	s.after = p.order(o.Path, s.alone)
	if o.Call == Rename {
		s.afterTo = p.order(o.To, s.alone)
	}
	p.steps[o.Thread] = append(p.steps[o.Thread], s)
	return nil
}

// makes says whether a write may make its file, which those after it find.
func (p *planner) makes(o *Operation) bool {
	state := &p.states[o.Path]
	return (o.Call == Write || o.Call == Append) && state.existence != present && state.opened == 0
}

// order counts an operation on a path, and gives how many before it must be done.
func (p *planner) order(path int32, alone bool) (after int32) {
	state := &p.states[path]
	after = state.alone
	if alone {
		after = state.all
		state.alone++
	}
	state.all++
	return after
}

// follow keeps up what is known of the path, and with it what must be there before the replay.
func (p *planner) follow(o *Operation) error {
	state := &p.states[o.Path]
	if p.trace.Paths[o.Path].Folder {
		return followFolder(o, state)
	}
	switch o.Call {
	case Create:
		state.existence, state.origin, state.written = present, madeByTrace, 0
		state.opened++
		return nil
	case Close:
		if state.opened == 0 {
			return errNotOpen
		}
		state.opened--
		return nil
	case Write, Append:
		return p.followWrite(o, state)
	}
	if err := p.mustExist(o, state); err != nil {
		return err
	}
	switch o.Call {
	case Open:
		state.opened++
	case Read:
		if end := o.Offset + o.Bytes; end > state.written {
			p.mustHold(state, end)
		}
	case Truncate:
		if o.Bytes == 0 {
			state.origin, state.written = madeByTrace, 0
		}
	case Unlink:
		state.existence, state.origin, state.written = absent, madeByTrace, 0
	case Rename:
		return p.followRename(o, state)
	}
	return nil
}

func followFolder(o *Operation, state *pathState) error {
	switch o.Call {
	case Open:
		state.opened++
	case Close:
		if state.opened == 0 {
			return errNotOpen
		}
		state.opened--
	case Fsync, Fdatasync, Stat:
	default:
		return errors.New("it is a folder: expected open, close, fsync, fdatasync or stat")
	}
	return nil
}

// followWrite: a write makes a file that is not there, and one beyond the known end shows that the
// file was that long.
func (p *planner) followWrite(o *Operation, state *pathState) error {
	if p.makes(o) {
		state.existence = present
	}
	switch {
	case o.Call == Append:
	case o.Offset > state.written:
		p.mustHold(state, o.Offset)
	default:
		state.written = max(state.written, o.Offset+o.Bytes)
	}
	return nil
}

func (p *planner) followRename(o *Operation, state *pathState) error {
	if p.trace.Paths[o.To].Folder {
		return fmt.Errorf("to %s: it is a folder", p.trace.Paths[o.To].Name)
	}
	if o.To == o.Path {
		return errors.New("to itself: expected another path")
	}
	to := &p.states[o.To]
	to.existence, to.origin, to.written = present, state.origin, state.written
	to.opened += state.opened
	state.existence, state.origin, state.written, state.opened = absent, madeByTrace, 0, 0
	return nil
}

// mustExist is said of a path that is used before the trace made it.
func (p *planner) mustExist(o *Operation, state *pathState) error {
	byName := o.Call == Open || o.Call == Stat || o.Call == Unlink || o.Call == Rename
	switch {
	case state.existence == unknown:
		state.existence = present
		p.mustHold(state, 0)
	case state.existence == absent && (byName || state.opened == 0):
		return errors.New("the trace has removed it before")
	}
	return nil
}

func (p *planner) mustHold(state *pathState, bytes int64) {
	if state.origin != madeByTrace {
		p.sizes[state.origin] = max(p.sizes[state.origin], bytes)
	}
}
