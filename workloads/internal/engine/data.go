// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"math/rand/v2"

	"joulerig/workloads/internal/filelayout"
	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/wml"
)

const (
	pageBytes       = 4096     // alignment of what is written: enough for O_DIRECT
	variedBytes     = 1 << 20  // successive writes begin at any page of these
	mostDataBytes   = 64 << 20 // a larger write is made in pieces
	meansOfDrawSize = 8        // of a drawn size, what is larger is written in pieces
)

// Streams of random numbers, apart from those of the sets of files (from 0 on).
const (
	threadStream = 1 << 32
	dataStream   = 1 << 33
)

// makeData returns the memory that all writes are taken from: random, so that no drive or file
// system can compress or deduplicate it away.
func makeData(program *wml.Program, seed uint64) ([]byte, error) {
	largest := 0.0
	eachFlowop(program, func(f *wml.Flowop) {
		if counted[f.Kind].Kind != measure.Write {
			return
		}
		size := f.Size.Mean()
		if !f.Size.IsFixed() {
			size *= meansOfDrawSize
		}
		largest = max(largest, size)
	})
	pages := int(min(largest, mostDataBytes))/pageBytes + 1
	return filelayout.Piece(pages*pageBytes+variedBytes, rand.New(rand.NewPCG(seed, dataStream)))
}

func eachFlowop(program *wml.Program, do func(*wml.Flowop)) {
	var all func([]*wml.Flowop)
	all = func(flowops []*wml.Flowop) {
		for _, f := range flowops {
			do(f)
			all(f.Inner)
		}
	}
	for _, process := range program.Processes {
		for _, thread := range process.Threads {
			all(thread.Flowops)
		}
	}
}
