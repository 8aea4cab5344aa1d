// SPDX-License-Identifier: GPL-3.0-or-later

// Package engine runs a workload written in Filebench's language: its threads, each doing its
// flowops in a loop on sets of files, with Filebench's semantics. What an operation is, and what
// differs, is described in docs/reference/workloads.md.
package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"joulerig/workloads/internal/fileset"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/termination"
	"joulerig/workloads/internal/wml"
)

// DefaultSeconds is how long a load runs where neither the workload nor its user says.
const DefaultSeconds = 60

// Options of an Engine.
type Options struct {
	Program *wml.Program
	System  filesys.FS
	Seed    uint64
	Rate    float64 // operations a second of all threads together; 0: as fast as they can
}

// Engine is a workload that can be laid out and run, once.
type Engine struct {
	options Options
	classes *classes
	sets    []*fileset.Set
	threads []*thread
	events  *events // nil: the workload has no event generator
	aio     *aio    // nil: the workload has no asynchronous writes
	waits   []*semaphore
	data    []byte // what is written, random

	kept      bool // the files are of a layout before
	countsAll bool // a limit is on what all threads do
	all       struct{ ops, bytes atomic.Int64 }

	ctx      context.Context // of the run
	stop     context.CancelCauseFunc
	stopping *atomic.Bool
	failed   sync.Once
	failure  error // the first one; to be read when all threads have ended
}

// Why a thread ends, besides failures.
var (
	errStopped  = errors.New("the run ends")
	errFinished = errors.New("finished") // finishoncount, finishonbytes
)

// New draws the workload's sets of files and makes its threads ready.
func New(options Options) (*Engine, error) {
	e := &Engine{options: options, classes: classesOf(options.Program)}
	byDefinition := map[*wml.Fileset]*fileset.Set{}
	for i, define := range options.Program.Filesets {
		set, err := fileset.New(define, options.Seed, i)
		if err != nil {
			return nil, err
		}
		e.sets = append(e.sets, set)
		byDefinition[define] = set
	}
	if rate := options.Program.Rate.Mean(); rate > 0 {
		e.events = &events{nsPerEvent: 1e9 / rate}
	}
	var err error
	if e.data, err = makeData(options.Program, options.Seed); err != nil {
		return nil, err
	}
	return e, e.makeThreads(byDefinition)
}

// Threads is how many threads the workload has.
func (e *Engine) Threads() int { return len(e.threads) }

// Classes are the classes of operations that the workload has.
func (e *Engine) Classes() []measure.Class { return e.classes.list }

// Seconds is how long the workload is to run; 0: until its threads have finished.
func (e *Engine) Seconds() float64 {
	program := e.options.Program
	if program.Seconds == 0 && program.Quit == wml.QuitTimeout {
		return DefaultSeconds
	}
	return float64(program.Seconds)
}

// LayOut replaces what a former layout left by the files that exist at the start, and waits until
// they are on the drive; if keep, it trusts that they are as a layout with the same workload and
// seed left them. It gives how many files exist and the bytes written.
func (e *Engine) LayOut(ctx context.Context, keep bool) (files, bytes int64, err error) {
	e.kept = keep
	for _, set := range e.sets {
		if !keep {
			written, err := set.LayOut(ctx, e.options.System, e.data, e.options.Seed)
			bytes += written
			if err != nil {
				return files, bytes, err
			}
		}
		files += int64(set.Files.Existing())
	}
	if keep {
		return files, 0, nil
	}
	if err := e.options.System.SyncAll(); err != nil {
		return files, bytes, fmt.Errorf("sync of the files laid out: %w", err)
	}
	return files, bytes, nil
}

// Run runs the load until ctx is done, its threads have finished, or one fails. An Engine runs
// once.
func (e *Engine) Run(ctx context.Context, collector *measure.Collector) error {
	e.ctx, e.stop = context.WithCancelCause(ctx)
	defer e.stop(nil)
	e.stopping = termination.Flag(e.ctx)
	defer context.AfterFunc(e.ctx, e.wakeAll)()
	if e.aio != nil {
		defer e.aio.start()()
	}
	begin := measure.Now()
	if e.events != nil {
		e.events.next = begin
	}
	var group sync.WaitGroup
	for i, t := range e.threads {
		t.recorder = collector.Recorder(i)
		if e.options.Rate > 0 {
			t.pace = measure.NewOpenLoop(begin, e.options.Rate, i, len(e.threads))
		}
		group.Go(t.run)
	}
	group.Wait()
	if e.failure != nil {
		return e.failure
	}
	if err := context.Cause(e.ctx); err != errFinished {
		return err
	}
	return nil
}

// wakeAll has who waits look whether the run has ended.
func (e *Engine) wakeAll() {
	for _, s := range e.waits {
		s.wake()
	}
}

// ended sees to what the end of a thread means for the others.
func (e *Engine) ended(reason error) {
	var shortage *noFileError
	quit := e.options.Program.Quit
	switch finished := reason == errFinished; {
	case reason == errStopped:
	case quit == wml.QuitAllDone && (finished || errors.As(reason, &shortage)):
	case quit == wml.QuitFirstDone && errors.As(reason, &shortage):
		e.stop(errFinished)
	case finished:
		e.stop(errFinished)
	default:
		// Kept apart: a failure counts also when the run's time is up already.
		e.failed.Do(func() { e.failure = reason })
		e.stop(reason)
	}
}
