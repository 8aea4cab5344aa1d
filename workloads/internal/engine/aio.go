// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"sync"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

const (
	aioWorkers = 32   // writes that are at the kernel at once, of all threads
	aioPending = 4096 // writes that a thread may have under way
)

// aio does asynchronous writes, with its own threads.
type aio struct {
	system filesys.FS
	queue  chan *asyncWrite
}

// asyncWrite is a write under way; it is its thread's again when it comes back through finished.
type asyncWrite struct {
	op         *op
	file       filesys.Name
	descriptor int
	offset     int64
	data       []byte
	begin, end int64
	err        error
	finished   chan<- *asyncWrite
}

// asyncWrites are those of one thread.
type asyncWrites struct {
	pending  int
	finished chan *asyncWrite
	spare    []*asyncWrite
}

// start starts the workers and gives what ends them, when no thread has a write under way any more.
func (a *aio) start() (end func()) {
	a.queue = make(chan *asyncWrite, aioPending)
	var group sync.WaitGroup
	for range aioWorkers {
		group.Go(a.work)
	}
	return func() { close(a.queue); group.Wait() }
}

func (a *aio) work() {
	for w := range a.queue {
		w.err = filesys.PwriteAll(a.system, w.descriptor, w.data, w.offset)
		w.end = measure.Now()
		w.finished <- w
	}
}

// aioWrite has a write done; it counts when it is done, with the time from here to then.
func aioWrite(t *thread, o *op) error {
	s, err := t.opened(o)
	if err != nil {
		return err
	}
	bytes := t.size(o)
	offset, err := t.offset(o, s, bytes)
	if err != nil {
		return err
	}
	if t.writes.pending == aioPending {
		if err := t.reap(1); err != nil {
			return err
		}
	}
	w := t.writes.take()
	*w = asyncWrite{
		op: o, file: s.name(), descriptor: s.descriptor, offset: offset, data: t.content(bytes),
		begin: t.begin(), finished: t.writes.finished,
	}
	t.writes.pending++
	t.engine.aio.queue <- w
	return nil
}

func (w *asyncWrites) take() *asyncWrite {
	if w.finished == nil {
		w.finished = make(chan *asyncWrite, aioPending)
	}
	if n := len(w.spare); n > 0 {
		last := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return last
	}
	return &asyncWrite{}
}

// aioWait waits until half of the thread's writes are done; it is an operation itself.
func aioWait(t *thread, o *op) error {
	begin := t.begin()
	if err := t.reap((t.writes.pending + 1) / 2); err != nil {
		return err
	}
	t.end(o, begin, 0)
	return nil
}

// reap takes back at least n writes, and whatever else is done.
func (t *thread) reap(n int) error {
	for ; t.writes.pending > 0; n-- {
		var w *asyncWrite
		if n > 0 {
			w = <-t.writes.finished
		} else {
			select {
			case w = <-t.writes.finished:
			default:
				return nil
			}
		}
		t.writes.pending--
		if w.err != nil {
			return t.fail(w.op, filesys.Error("write", w.file, w.err))
		}
		t.endAs(w.op, w.op.class, w.begin, w.end, int64(len(w.data)))
		t.writes.spare = append(t.writes.spare, w)
	}
	return nil
}

// reapAll takes back all writes; the first error among them counts.
func (t *thread) reapAll() (first error) {
	for t.writes.pending > 0 {
		if err := t.reap(t.writes.pending); err != nil && first == nil {
			first = err
		}
	}
	return first
}
