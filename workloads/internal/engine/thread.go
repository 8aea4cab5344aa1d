// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/fileset"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/wml"
)

// thread does its flowops in a loop. Its random numbers are its own, so that what it draws does not
// depend on the other threads.
type thread struct {
	engine   *Engine
	system   filesys.FS
	random   *rand.Rand
	recorder *measure.Recorder
	pace     *measure.OpenLoop // nil: the next operation begins when the last one has ended
	due      int64             // when the operation under way was due; 0: now
	ops      []*op
	slots    [wml.MaxFD + 1]slot
	rotor    int                   // the slot that `opennext` took last
	rotors   map[*fileset.Set]*int // `opennext` goes through a set by itself
	memory   []byte                // what is read
	writes   asyncWrites
	total    progress
	hogged   byte
	nice     int64
	priority int64
}

// slot is one of the thread's descriptors. The file stays when it is closed: a delete may name the
// slot.
type slot struct {
	descriptor int
	isOpen     bool
	set        *fileset.Set
	file       *fileset.File
}

// op is a flowop of one thread.
type op struct {
	*wml.Flowop
	do        func(*thread, *op) error
	set       *fileset.Set
	class     int  // of its operations; -1: it is none
	openClass int  // of its opening a file
	flags     int  // for opening
	rotor     *int // of `opennext`; nil: the set's
	inner     []*op
	done      progress
	limit     limit
	semaphore *semaphore   // of semblock and block
	targets   []*semaphore // of sempost and wakeup
}

// progress counts what has been done.
type progress struct{ ops, transfers, bytes int64 }

func (p *progress) add(kind measure.Kind, bytes int64) {
	p.ops++
	if kind == measure.Read || kind == measure.Write {
		p.transfers++
		p.bytes += bytes
	}
}

// run is the thread's life.
func (t *thread) run() {
	measure.LockThread()
	t.setPriorities()
	t.engine.ended(t.loop())
	if err := t.reapAll(); err != nil {
		t.engine.ended(err)
	}
	t.closeAll()
	_ = filesys.Free(t.memory)
}

// settle sets the thread's CPU and I/O priorities that the workload asks for, where it is allowed
// to.
func (t *thread) setPriorities() {
	if t.nice != 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, int(t.nice))
	}
	const bestEffort, ofProcess = 2 << 13, 1
	if t.priority >= 0 && t.priority < 8 {
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, 0, uintptr(bestEffort|t.priority))
	}
}

func (t *thread) loop() error {
	for !t.engine.stopping.Load() {
		if err := t.each(t.ops); err != nil {
			return err
		}
	}
	return errStopped
}

// each does flowops in turn, each as often as it says. Any error ends the thread.
func (t *thread) each(ops []*op) error {
	for _, o := range ops {
		for n := o.Iterations.Int(t.random); n > 0; n-- {
			if t.engine.stopping.Load() {
				return errStopped
			}
			if t.pace != nil && o.class >= 0 {
				due, ok := t.pace.Next(t.engine.ctx)
				if !ok {
					return errStopped
				}
				t.due = due
			}
			if err := o.do(t, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// composite does the flowops of a `define flowop`.
func composite(t *thread, o *op) error { return t.each(o.inner) }

// begin gives when an operation begins: where the thread is paced, when it was due.
func (t *thread) begin() int64 {
	if t.due == 0 {
		return measure.Now()
	}
	due := t.due
	t.due = 0
	return due
}

// end counts an operation of a flowop that has just ended.
func (t *thread) end(o *op, begin, bytes int64) { t.endAs(o, o.class, begin, measure.Now(), bytes) }

func (t *thread) endAs(o *op, class int, begin, end, bytes int64) {
	t.recorder.Done(class, begin, end, bytes)
	kind := t.engine.classes.list[class].Kind
	o.done.add(kind, bytes)
	t.total.add(kind, bytes)
	if t.engine.countsAll {
		t.engine.all.ops.Add(1)
		t.engine.all.bytes.Add(bytes)
	}
}

// closeAll closes what the thread leaves open; it counts as nothing.
func (t *thread) closeAll() {
	for i := range t.slots {
		if s := &t.slots[i]; s.isOpen {
			_ = t.system.Close(s.descriptor)
			s.closed()
		}
	}
}

// name is that of the slot's file; none where the thread has deleted it.
func (s *slot) name() (name filesys.Name) {
	if s.file != nil {
		name = s.file.Name
	}
	return name
}

func (s *slot) closed() {
	s.isOpen = false
	if s.file != nil {
		s.set.Files.Closed(s.file)
	}
}

// fail says which flowop could not go on, and where the workload has it.
func (t *thread) fail(o *op, err error) error {
	if err == nil {
		return nil
	}
	if t.engine.kept && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (--keep: expected the files of a layout with the same settings and seed)", err)
	}
	return fmt.Errorf("%s:%d: flowop %q: %w", t.engine.options.Program.File, o.Line, o.Name, err)
}
