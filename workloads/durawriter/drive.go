// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math/rand/v2"
	"sync"

	"joulerig/workloads/internal/sectortag"
)

// drive is what a block device can be asked for, by whatever way it is reached.
type drive interface {
	ReadAt(data []byte, offset int64) error
	WriteAt(data []byte, offset int64, durable bool) error
	Flush() error
	Size() int64
	BlockBytes() int // the least that it reads or writes: 512, or 4096
	Calls() calls
}

// calls are the names, for the ledger, of what a drive is really asked with.
type calls struct{ write, durableWrite, flush string }

// driveLoad is the load on a bare drive: rounds of up to Depth writes at once into random slots of
// its region, now and then one with FUA, and after most rounds a flush.
type driveLoad struct {
	slots            int
	slotBlocks       int
	blockSectors     int // a drive of 4096-byte blocks is written eight sectors at a time
	depth            int
	durableShare     float64 // of the writes
	flushShare       float64 // of the rounds
	random           *rand.Rand
	writer           *writer
	drive            drive
	slotsOfThisRound map[int]bool
}

func newDriveLoad(w *writer, d drive, regionBytes int64, slotSectors, depth int, random *rand.Rand) *driveLoad {
	blockSectors := d.BlockBytes() / sectortag.SectorBytes
	return &driveLoad{
		slots: int(regionBytes) / (slotSectors * sectortag.SectorBytes), slotBlocks: slotSectors / blockSectors,
		blockSectors: blockSectors, depth: depth, durableShare: 0.1, flushShare: 0.7, random: random, writer: w, drive: d,
	}
}

// round does one round; all its writes are acknowledged, and reported, before its flush is issued.
func (l *driveLoad) round() error {
	l.slotsOfThisRound = map[int]bool{}
	var group sync.WaitGroup
	writes := 1 + l.random.IntN(l.depth)
	failures := make(chan error, writes)
	planned := make([]func() error, writes)
	for i := range planned {
		planned[i] = l.plan()
	}
	for _, write := range planned {
		group.Add(1)
		go func() {
			defer group.Done()
			failures <- write()
		}()
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	if l.random.Float64() >= l.flushShare {
		return nil
	}
	flush := operation{Sequence: l.writer.next(), Operation: opFlush, Call: l.drive.Calls().flush}
	return l.writer.do(flush, l.drive.Flush)
}

// plan chooses one write: no two of a round share a sector, so which of them is the newer one is
// never in doubt.
func (l *driveLoad) plan() func() error {
	slot := l.random.IntN(l.slots)
	for l.slotsOfThisRound[slot] {
		slot = (slot + 1) % l.slots
	}
	l.slotsOfThisRound[slot] = true
	blocks := 1 + l.random.IntN(l.slotBlocks)
	first := l.random.IntN(l.slotBlocks - blocks + 1)
	blockBytes := l.blockSectors * sectortag.SectorBytes
	offset := int64(slot*l.slotBlocks+first) * int64(blockBytes)
	data := alignedBuffer(blocks * blockBytes)
	what := operation{
		Sequence: l.writer.next(), Operation: opWrite, Call: l.drive.Calls().write,
		Offset: uint64(offset), Bytes: uint64(len(data)),
	}
	durable := l.random.Float64() < l.durableShare
	if durable {
		what.Operation, what.Call = opDurableWrite, l.drive.Calls().durableWrite
	}
	l.writer.fill(data, what.Sequence, "", what.Offset)
	return func() error {
		return l.writer.do(what, func() error { return l.drive.WriteAt(data, offset, durable) })
	}
}
