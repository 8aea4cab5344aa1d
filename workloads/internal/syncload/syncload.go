// SPDX-License-Identifier: GPL-3.0-or-later

// Package syncload writes blocks and makes each durable: the loop of studies of fsync. Between the
// first write and the last, it makes no call on a file but the write and the sync: since Linux 6.13
// a stat between two writes makes the second's time stamp finer, and the sync after it dearer.
package syncload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filelayout"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// Settings of a load.
type Settings struct {
	Mode      string  // Overwrite or Append
	Call      string  // Fsync, Fdatasync or None
	Block     int64   // bytes of a write
	FileBytes int64   // of each thread's own file; an append that would go beyond starts over
	Ops       int64   // writes of all threads together; 0: until the time is up
	Pace      float64 // seconds from one write of a thread to its next, at least; 0: none
	Rate      float64 // writes a second of all threads, in an open loop; 0: closed loop
	Direct    bool
	Threads   int
	Seed      uint64
}

// Modes and calls.
const (
	Overwrite = "overwrite" // of a block at random
	Append    = "append"
	Fsync     = "fsync"
	Fdatasync = "fdatasync"
	None      = "none"
)

const directAlignment = 512

// Check names the option that cannot be used.
func (s *Settings) Check() error {
	switch {
	case s.Mode != Overwrite && s.Mode != Append:
		return fmt.Errorf("--mode: %q: expected %s or %s", s.Mode, Overwrite, Append)
	case s.Call != Fsync && s.Call != Fdatasync && s.Call != None:
		return fmt.Errorf("--call: %q: expected %s, %s or %s", s.Call, Fsync, Fdatasync, None)
	case s.Block < 1 || s.Block > 1<<30:
		return fmt.Errorf("--block: %d: expected 1 to 1073741824 bytes", s.Block)
	case s.Direct && s.Block%directAlignment != 0:
		return fmt.Errorf("--block: %d: expected a multiple of %d with --direct", s.Block, directAlignment)
	case s.FileBytes < s.Block:
		return fmt.Errorf("--file-bytes: %d: expected at least the %d of a block", s.FileBytes, s.Block)
	case s.Ops < 0:
		return fmt.Errorf("--ops: %d: expected 0 or more", s.Ops)
	case s.Threads < 1 || s.Threads > 4096:
		return fmt.Errorf("--threads: %d: expected 1 to 4096", s.Threads)
	case s.Pace < 0 || s.Rate < 0:
		return errors.New("--pace-seconds, --rate: expected 0 or more")
	case s.Pace > 0 && s.Rate > 0:
		return errors.New("--pace-seconds, --rate: expected one of them at most")
	}
	return nil
}

// Classes of operations, by number; the sync's is the last.
const (
	classWrite    = iota
	classTruncate // of appends
)

// Classes are those of the load's operations.
func (s *Settings) Classes() []measure.Class {
	classes := []measure.Class{{Name: "write", Kind: measure.Write}}
	if s.Mode == Append {
		classes = []measure.Class{{Name: "append", Kind: measure.Write}, {Name: "truncate", Kind: measure.Other}}
	}
	if s.Call != None {
		classes = append(classes, measure.Class{Name: s.Call, Kind: measure.Sync})
	}
	return classes
}

// Load is a load with its files open.
type Load struct {
	settings  Settings
	system    filesys.FS
	threads   []*thread
	syncClass int
	written   atomic.Int64 // writes begun, where they are counted
	newTick   atomic.Int64 // writes with another stamp than their thread's last one
	newSecond atomic.Int64
}

// New prepares a load.
func New(settings Settings, system filesys.FS) *Load {
	return &Load{settings: settings, system: system, syncClass: len(settings.Classes()) - 1}
}

// Layout writes each thread's file, or, if keep, takes what is there; then it opens them. It gives
// how many there are and the bytes that it wrote.
func (l *Load) Layout(ctx context.Context, keep bool) (files, bytes int64, err error) {
	if !keep {
		if bytes, err = l.write(ctx); err != nil {
			return 0, bytes, err
		}
	}
	for number := range l.settings.Threads {
		t, err := l.open(number)
		if err != nil {
			return files, bytes, err
		}
		l.threads = append(l.threads, t)
		files++
	}
	return files, bytes, nil
}

func fileName(number int) string { return fmt.Sprintf("sync-%04d", number) }

func (l *Load) write(ctx context.Context) (int64, error) {
	writer, err := filelayout.NewWriter(l.system, rand.New(rand.NewPCG(l.settings.Seed, 0)))
	if err != nil {
		return 0, err
	}
	size := l.settings.FileBytes
	if l.settings.Mode == Append {
		size = 0
	}
	for number := range l.settings.Threads {
		if err := writer.File(ctx, fileName(number), size); err != nil {
			return writer.Written, err
		}
	}
	return writer.Written, writer.Sync()
}

func (l *Load) open(number int) (*thread, error) {
	s := l.settings
	name, err := filesys.NewName(fileName(number))
	if err != nil {
		return nil, err
	}
	size, err := l.system.Stat(name)
	if err != nil {
		return nil, filesys.Error("stat", name, err)
	}
	if s.Mode == Overwrite && size < s.FileBytes {
		return nil, fmt.Errorf("%s: %d bytes: expected %d; lay it out again, without --keep", name, size, s.FileBytes)
	}
	flags := unix.O_WRONLY
	if s.Direct {
		flags |= unix.O_DIRECT
		size -= size % directAlignment
	}
	random := rand.New(rand.NewPCG(s.Seed, uint64(number)+1))
	data, err := filelayout.Piece(int(s.Block), random)
	if err != nil {
		return nil, err
	}
	descriptor, err := l.system.Open(name, flags, 0)
	if err != nil {
		return nil, filesys.Error("open", name, err)
	}
	return &thread{load: l, number: number, name: name, descriptor: descriptor, end: size, data: data, random: random}, nil
}

// Run loads until ctx is done, the writes are made, or one fails.
func (l *Load) Run(ctx context.Context, collector *measure.Collector) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := measure.Now()
	var all sync.WaitGroup
	for _, t := range l.threads {
		all.Go(func() {
			if err := t.run(ctx, begin, collector.Recorder(t.number)); err != nil {
				cancel(err) // the first failure is the cause
			}
		})
	}
	all.Wait()
	for _, t := range l.threads {
		l.system.Close(t.descriptor)
	}
	return context.Cause(ctx)
}

// Stamps of the writes so far; each thread's first is new.
func (l *Load) Stamps() measure.Stamps {
	return measure.Stamps{NewTick: l.newTick.Load(), NewSecond: l.newSecond.Load()}
}

// stamped counts a write of a thread at this time; it gives that of the write before for the next
// one.
func (l *Load) stamped(before, now int64) int64 {
	if now != before {
		l.newTick.Add(1)
	}
	if now/int64(time.Second) != before/int64(time.Second) {
		l.newSecond.Add(1)
	}
	return now
}

// another says whether a thread may make one more write.
func (l *Load) another() bool {
	return l.settings.Ops == 0 || l.written.Add(1) <= l.settings.Ops
}

type thread struct {
	load       *Load
	number     int
	name       filesys.Name
	descriptor int
	end        int64 // of the file, in Append
	writes     uint64
	stamp      int64 // of the last write
	data       []byte
	random     *rand.Rand
}

func (t *thread) run(ctx context.Context, begin int64, recorder *measure.Recorder) error {
	measure.LockThread()
	due := t.load.pacing(t.number, begin)
	for ctx.Err() == nil && t.load.another() {
		start, ok := due(ctx)
		if !ok {
			return nil
		}
		if err := t.operation(start, recorder); err != nil {
			return err
		}
	}
	return nil
}

// pacing returns what waits for a thread's next operation, and when that begins, or should have
// begun.
func (l *Load) pacing(number int, begin int64) func(context.Context) (int64, bool) {
	if l.settings.Rate > 0 {
		return measure.NewOpenLoop(begin, l.settings.Rate, number, l.settings.Threads).Next
	}
	pause, next := int64(l.settings.Pace*float64(time.Second)), begin
	return func(ctx context.Context) (int64, bool) {
		if !measure.SleepUntil(ctx, next) {
			return 0, false
		}
		now := measure.Now()
		next = now + pause
		return now, true
	}
}

// operation is one write, and what makes it durable. In an open loop both count from when the write
// was due.
func (t *thread) operation(start int64, recorder *measure.Recorder) error {
	s := &t.load.settings
	if s.Mode == Append && t.end+s.Block > s.FileBytes {
		if err := t.startOver(recorder); err != nil {
			return err
		}
	}
	offset := t.end
	if s.Mode == Overwrite {
		offset = t.random.Int64N(s.FileBytes/s.Block) * s.Block
	}
	t.writes++
	t.mark()
	t.stamp = t.load.stamped(t.stamp, measure.Stamp())
	written, err := t.load.system.Pwrite(t.descriptor, t.data, offset)
	if err == nil && written < len(t.data) {
		err = unix.ENOSPC // what a short write of a regular file means
	}
	end := measure.Now()
	if err != nil {
		return filesys.Error("write", t.name, err)
	}
	recorder.Done(classWrite, start, end, s.Block)
	t.end = max(t.end, offset+s.Block)
	if s.Rate == 0 {
		start = end
	}
	return t.sync(start, recorder)
}

// mark makes the block differ from those before: a drive may not take it for one it has.
func (t *thread) mark() {
	if len(t.data) >= 8 {
		binary.LittleEndian.PutUint64(t.data, t.writes)
	}
}

func (t *thread) sync(start int64, recorder *measure.Recorder) error {
	call := t.load.system.Fsync
	switch t.load.settings.Call {
	case None:
		return nil
	case Fdatasync:
		call = t.load.system.Fdatasync
	}
	if err := call(t.descriptor); err != nil {
		return filesys.Error(t.load.settings.Call, t.name, err)
	}
	recorder.Done(t.load.syncClass, start, measure.Now(), 0)
	return nil
}

func (t *thread) startOver(recorder *measure.Recorder) error {
	start := measure.Now()
	if err := t.load.system.Truncate(t.descriptor, 0); err != nil {
		return filesys.Error("truncate", t.name, err)
	}
	recorder.Done(classTruncate, start, measure.Now(), 0)
	t.end = 0
	return nil
}
