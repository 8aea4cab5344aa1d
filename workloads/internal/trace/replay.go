// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filelayout"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// Replay makes a trace's calls again: those of a thread in their order, those on a path in their
// order too as far as one of them changes what file the path is.
type Replay struct {
	plan    *plan
	system  filesys.FS
	speed   float64 // of the trace's own time; 0: as fast as possible
	files   []*file // by path
	classes []measure.Class
	classOf [len(traits)]int
	hidden  atomic.Int64 // descriptors open that the trace does not open
	most    int64        // of them
	stopped *atomic.Bool
	beginNS int64
}

// NewReplay prepares the replay of a trace, at a speed: 1 is the trace's own, 0 as fast as
// possible.
func NewReplay(t *Trace, system filesys.FS, speed float64) (*Replay, error) {
	plan, err := newPlan(t)
	if err != nil {
		return nil, err
	}
	r := &Replay{plan: plan, system: system, speed: speed, most: hiddenDescriptors()}
	for i := range t.Paths {
		f := &file{path: &t.Paths[i], hidden: -1, end: max(plan.sizes[i], 0)}
		f.done.L = &f.lock
		if f.name, err = filesys.NewName(f.path.Name); err != nil {
			return nil, err
		}
		r.files = append(r.files, f)
	}
	r.findClasses()
	return r, nil
}

// hiddenDescriptors leaves half of what the process may open to the trace.
func hiddenDescriptors() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 256
	}
	return int64(min(limit.Cur, 1<<20) / 2)
}

func (r *Replay) findClasses() {
	var occurs [len(traits)]bool
	for i := range r.plan.trace.Operations {
		occurs[r.plan.trace.Operations[i].Call] = true
	}
	for call, t := range traits {
		if occurs[call] {
			r.classOf[call] = len(r.classes)
			r.classes = append(r.classes, measure.Class{Name: t.name, Kind: t.kind})
		}
	}
}

// Classes are those of the trace's operations.
func (r *Replay) Classes() []measure.Class { return r.classes }

// Threads of the replay.
func (r *Replay) Threads() int { return len(r.plan.steps) }

// Layout makes what the trace needs to be there before, and removes what it makes itself; if keep,
// nothing. It gives how many files there are and the bytes that it wrote.
func (r *Replay) Layout(ctx context.Context, keep bool) (files, bytes int64, err error) {
	for _, size := range r.plan.sizes {
		if size >= 0 {
			files++
		}
	}
	if keep {
		return files, 0, nil
	}
	writer, err := filelayout.NewWriter(r.system, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		return 0, 0, err
	}
	for i, f := range r.files {
		if err := r.layOut(ctx, writer, f, r.plan.sizes[i]); err != nil {
			return writer.Files, writer.Written, err
		}
	}
	return writer.Files, writer.Written, writer.Sync()
}

func (r *Replay) layOut(ctx context.Context, writer *filelayout.Writer, f *file, size int64) error {
	switch {
	case f.path.Folder:
		return writer.Directory(f.path.Name)
	case size >= 0:
		return writer.File(ctx, f.path.Name, size)
	}
	if err := writer.ParentDirectory(f.path.Name); err != nil {
		return err
	}
	if err := r.system.Unlink(f.name); err != unix.ENOENT {
		return filesys.Error("unlink", f.name, err)
	}
	return nil
}

// Run replays until the trace's end, or ctx is done, or a call fails.
func (r *Replay) Run(ctx context.Context, collector *measure.Collector) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.stopped = &atomic.Bool{}
	defer context.AfterFunc(ctx, r.stop)()
	r.beginNS = measure.Now()
	var all sync.WaitGroup
	for number, steps := range r.plan.steps {
		all.Go(func() {
			if err := r.thread(ctx, steps, collector.Recorder(number)); err != nil {
				cancel(err) // the first failure is the cause
			}
		})
	}
	all.Wait()
	for _, f := range r.files {
		f.closeAll(r.system)
	}
	return context.Cause(ctx)
}

// stop wakes the threads that wait for others.
func (r *Replay) stop() {
	r.stopped.Store(true)
	for _, f := range r.files {
		f.lock.Lock()
		f.done.Broadcast()
		f.lock.Unlock()
	}
}

// worker is a thread of the replay.
type worker struct {
	*Replay
	data     []byte
	recorder *measure.Recorder
}

func (r *Replay) thread(ctx context.Context, steps []step, recorder *measure.Recorder) error {
	if r.speed > 0 {
		measure.LockThread()
	}
	w := worker{Replay: r, recorder: recorder}
	most := int64(0)
	for i := range steps {
		if steps[i].Call != Truncate {
			most = max(most, steps[i].Bytes)
		}
	}
	var err error
	if w.data, err = filelayout.Piece(int(most), rand.New(rand.NewPCG(2, uint64(steps[0].Thread)))); err != nil {
		return err
	}
	for i := range steps {
		if going, err := w.step(ctx, &steps[i]); !going {
			return err
		}
	}
	return nil
}

// step makes one operation in its time and turn. going is false at the end.
func (w *worker) step(ctx context.Context, s *step) (going bool, err error) {
	due := int64(0)
	if w.speed > 0 {
		due = w.beginNS + int64(float64(s.TimeNS-w.plan.trace.Operations[0].TimeNS)/w.speed)
		if !measure.SleepUntil(ctx, due) {
			return false, nil
		}
	}
	f, to := w.files[s.Path], w.files[s.To]
	renames := s.Call == Rename
	if !f.wait(s.after, s.alone, w.stopped) || (renames && !to.wait(s.afterTo, s.alone, w.stopped)) {
		return false, nil
	}
	if err := w.operate(s, due); err != nil {
		return false, fmt.Errorf("%s:%d: %w", w.plan.trace.Name, s.Line, filesys.Error(s.Call.String(), f.name, err))
	}
	f.finish(s.alone)
	if renames {
		to.finish(s.alone)
	}
	return true, nil
}

// operate makes the call, and records it. Its latency is from when it was due; as fast as possible,
// that is when its file was open and its turn had come.
func (w *worker) operate(s *step, due int64) error {
	f := w.files[s.Path]
	descriptor, once, err := w.descriptor(f, s.Call)
	if err != nil {
		return err
	}
	start := due
	if w.speed == 0 {
		start = measure.Now()
	}
	bytes, err := w.call(s, f, descriptor)
	end := measure.Now()
	if once {
		w.system.Close(descriptor)
	}
	if err != nil {
		return err
	}
	w.recorder.Done(w.classOf[s.Call], start, end, bytes)
	w.forget(s, f)
	return nil
}

// call makes the system call. It gives the bytes that it read or wrote.
func (w *worker) call(s *step, f *file, descriptor int) (bytes int64, err error) {
	switch s.Call {
	case Read:
		n, err := w.system.Pread(descriptor, w.data[:s.Bytes], s.Offset)
		return int64(n), err
	case Write:
		f.grow(s.Offset + s.Bytes)
		return w.write(descriptor, w.data[:s.Bytes], s.Offset)
	case Append:
		return w.write(descriptor, w.data[:s.Bytes], f.reserve(s.Bytes))
	case Fsync:
		return 0, w.system.Fsync(descriptor)
	case Fdatasync:
		return 0, w.system.Fdatasync(descriptor)
	case Open, Create:
		return 0, w.open(f, s.Call)
	case Close:
		return 0, w.system.Close(f.pop())
	case Stat:
		_, err := w.system.Stat(f.name)
		return 0, err
	case Truncate:
		f.end = s.Bytes
		return 0, w.system.Truncate(descriptor, s.Bytes)
	case Rename:
		return 0, w.system.Rename(f.name, w.files[s.To].name)
	default:
		return 0, w.system.Unlink(f.name)
	}
}

func (w *worker) write(descriptor int, data []byte, offset int64) (int64, error) {
	n, err := w.system.Pwrite(descriptor, data, offset)
	if err == nil && n < len(data) {
		err = unix.ENOSPC // what a short write of a regular file means
	}
	return int64(n), err
}

func (w *worker) open(f *file, call Call) error {
	flags := f.flags()
	if call == Create {
		flags |= unix.O_CREAT | unix.O_TRUNC
		f.end = 0
	}
	descriptor, err := w.system.Open(f.name, flags, 0o644)
	if err == nil {
		f.opened = append(f.opened, descriptor)
	}
	return err
}

// descriptor returns the one to read, write or sync a file with: the newest that the trace opened,
// else a hidden one. It is to be closed after one use where there are too many of these.
func (w *worker) descriptor(f *file, call Call) (descriptor int, once bool, err error) {
	switch call {
	case Open, Create, Close, Stat, Rename, Unlink:
		return -1, false, nil
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if newest := len(f.opened) - 1; newest >= 0 {
		return f.opened[newest], false, nil
	}
	if f.hidden >= 0 {
		return f.hidden, false, nil
	}
	flags := f.flags()
	if call == Write || call == Append {
		flags |= unix.O_CREAT
	}
	if descriptor, err = w.system.Open(f.name, flags, 0o644); err != nil {
		return -1, false, err
	}
	if w.hidden.Load() >= w.most {
		return descriptor, true, nil
	}
	w.hidden.Add(1)
	f.hidden = descriptor
	return descriptor, false, nil
}

// forget is what a path's file leaves behind, once it is gone from the path.
func (w *worker) forget(s *step, f *file) {
	switch s.Call {
	case Rename:
		to := w.files[s.To]
		w.closeHidden(to)
		to.opened = append(to.opened, f.opened...)
		to.hidden, to.end = f.hidden, f.end
		f.opened, f.hidden, f.end = nil, -1, 0
	case Unlink:
		w.closeHidden(f)
		f.end = 0
	case Create:
		w.closeHidden(f)
	}
}

func (w *worker) closeHidden(f *file) {
	if f.hidden >= 0 {
		w.system.Close(f.hidden)
		w.hidden.Add(-1)
		f.hidden = -1
	}
}
