// SPDX-License-Identifier: GPL-3.0-or-later

// Package trace reads, makes, imports and replays traces of system calls, in the text format that
// docs/reference/workloads.md describes.
package trace

import (
	"fmt"
	"slices"

	"joulerig/workloads/internal/measure"
)

// Call is a system call that a trace can have.
type Call uint8

// Calls.
const (
	Read Call = iota
	Write
	Append // a write at the end of the file, wherever that is
	Fsync
	Fdatasync
	Open
	Create // an open that makes the file, or empties it
	Close
	Stat
	Truncate
	Rename
	Unlink
)

// callTraits say how a call is written in a trace, and replayed.
type callTraits struct {
	name   string
	fields string // after the path
	kind   measure.Kind
	alone  bool // changes which file the path is, or how long: nothing else is done to the path at the same time
}

var traits = [...]callTraits{
	Read:      {"read", "OFFSET BYTES", measure.Read, false},
	Write:     {"write", "OFFSET BYTES", measure.Write, false},
	Append:    {"append", "BYTES", measure.Write, false},
	Fsync:     {"fsync", "", measure.Sync, false},
	Fdatasync: {"fdatasync", "", measure.Sync, false},
	Open:      {"open", "", measure.Other, true},
	Create:    {"create", "", measure.Other, true},
	Close:     {"close", "", measure.Other, true},
	Stat:      {"stat", "", measure.Other, false},
	Truncate:  {"truncate", "BYTES", measure.Other, true},
	Rename:    {"rename", "NEW-PATH", measure.Other, true},
	Unlink:    {"unlink", "", measure.Other, true},
}

func (c Call) String() string { return traits[c].name }

func callNamed(name string) (Call, error) {
	index := slices.IndexFunc(traits[:], func(t callTraits) bool { return t.name == name })
	if index < 0 {
		names := make([]string, len(traits))
		for call := range traits {
			names[call] = traits[call].name
		}
		return 0, fmt.Errorf("call %q: expected one of %q", name, names)
	}
	return Call(index), nil
}

// MaxBytes is the most that one operation reads or writes.
const MaxBytes = 1 << 30

// maxThreads: each is a thread of the replay too.
const maxThreads = 4096

// Operation is a line of a trace.
type Operation struct {
	TimeNS        int64 // since the trace's own zero
	Thread        int32 // index in Trace.Threads
	Path, To      int32 // indices in Trace.Paths; To is Rename's
	Call          Call
	Line          int32
	Offset, Bytes int64 // Truncate's size is Bytes
}

// Trace is a whole trace.
type Trace struct {
	Name       string // of its file, for messages
	Paths      []Path
	Threads    []int64 // as the trace numbers them, by first appearance
	Operations []Operation
}

// Path is a name that occurs in a trace.
type Path struct {
	Name     string
	Folder   bool
	Declared int64 // size of the file that is there before, -1 where the trace does not say
}
