// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/fileset"
	"joulerig/workloads/internal/wml"
)

// actions do the flowops.
var actions = map[wml.Kind]func(*thread, *op) error{
	wml.OpenFile:       openFile,
	wml.CreateFile:     createFile,
	wml.CloseFile:      closeFile,
	wml.DeleteFile:     deleteFile,
	wml.StatFile:       statFile,
	wml.Read:           read,
	wml.ReadWholeFile:  readWholeFile,
	wml.Write:          writeOnce,
	wml.WriteWholeFile: writeWholeFile,
	wml.AppendFile:     appendFile,
	wml.AppendFileRand: appendFileRand,
	wml.AioWrite:       aioWrite,
	wml.AioWait:        aioWait,
	wml.Fsync:          fsync,
	wml.FsyncSet:       fsyncSet,
	wml.MakeDir:        makeDir,
	wml.RemoveDir:      removeDir,
	wml.ListDir:        listDir,
	wml.Hog:            hog,
	wml.Delay:          delay,
	wml.Block:          block,
	wml.Wakeup:         wakeup,
	wml.SemBlock:       semBlock,
	wml.SemPost:        semPost,
	wml.EventLimit:     eventLimit,
	wml.OpsLimit:       opsLimit,
	wml.IopsLimit:      iopsLimit,
	wml.BwLimit:        bwLimit,
	wml.FinishOnCount:  finishOnCount,
	wml.FinishOnBytes:  finishOnBytes,
	wml.Composite:      composite,
}

// makeThreads makes every instance of every thread, and ties their flowops to sets and to each
// other.
func (e *Engine) makeThreads(sets map[*wml.Fileset]*fileset.Set) error {
	for _, process := range e.options.Program.Processes {
		for range process.Instances {
			for _, define := range process.Threads {
				for range define.Instances {
					e.threads = append(e.threads, e.newThread(process, define, sets))
				}
			}
		}
	}
	if len(e.threads) == 0 {
		return fmt.Errorf("%s: no thread: expected a process with a thread that has flowops", e.options.Program.File)
	}
	waiting := map[string][]*semaphore{}
	e.eachOp(func(_ *thread, o *op) {
		if o.Kind == wml.SemBlock || o.Kind == wml.Block {
			o.semaphore = newSemaphore(e, o.HighWater)
			waiting[o.Name] = append(waiting[o.Name], o.semaphore)
		}
	})
	e.eachOp(func(t *thread, o *op) {
		o.targets = waiting[o.Target]
		o.limit = t.limitOf(o)
	})
	return nil
}

func (e *Engine) newThread(process *wml.Process, define *wml.Thread, sets map[*wml.Fileset]*fileset.Set) *thread {
	number := uint64(len(e.threads))
	t := &thread{
		engine: e, system: e.options.System,
		random: rand.New(rand.NewPCG(e.options.Seed, threadStream+number)),
		nice:   process.Nice, priority: define.IOPriority, rotors: map[*fileset.Set]*int{},
	}
	t.ops = t.compile(define.Flowops, sets)
	return t
}

// compile makes the thread's own instances of flowops.
func (t *thread) compile(flowops []*wml.Flowop, sets map[*wml.Fileset]*fileset.Set) []*op {
	ops := make([]*op, len(flowops))
	for i, f := range flowops {
		o := &op{Flowop: f, do: actions[f.Kind], set: sets[f.Fileset], class: -1, inner: t.compile(f.Inner, sets)}
		if class, ok := counted[f.Kind]; ok {
			o.class = t.engine.classes.number[class.Name]
		}
		o.openClass = t.engine.classes.number[openClass.Name]
		o.flags = flagsOf(o)
		if f.RotateFD && o.set != nil {
			o.rotor = t.rotorOf(o.set)
		}
		if f.Kind == wml.AioWrite && t.engine.aio == nil {
			t.engine.aio = &aio{system: t.system}
		}
		ops[i] = o
	}
	return ops
}

func (t *thread) rotorOf(set *fileset.Set) *int {
	if t.rotors[set] == nil {
		t.rotors[set] = new(int)
	}
	return t.rotors[set]
}

func flagsOf(o *op) int {
	flags := unix.O_RDWR
	switch {
	case o.set != nil && o.set.ReadOnly:
		flags = unix.O_RDONLY
	case o.set != nil && o.set.WriteOnly:
		flags = unix.O_WRONLY
	}
	if o.Sync {
		flags |= unix.O_SYNC
	}
	if o.Direct {
		flags |= unix.O_DIRECT
	}
	return flags
}

// limitOf ties a limit to the flowop of the same thread that it names.
func (t *thread) limitOf(o *op) limit {
	l := limit{of: &t.total}
	t.eachOp(t.ops, func(other *op) {
		if o.Target != "" && other.Name == o.Target {
			l.of = &other.done
		}
	})
	if o.Kind == wml.FinishOnCount || o.Kind == wml.FinishOnBytes {
		l.end = o.Value.Int(t.random)
		t.engine.countsAll = t.engine.countsAll || o.Target == ""
	}
	return l
}

func (e *Engine) eachOp(do func(*thread, *op)) {
	for _, t := range e.threads {
		t.eachOp(t.ops, func(o *op) { do(t, o) })
	}
}

func (t *thread) eachOp(ops []*op, do func(*op)) {
	for _, o := range ops {
		do(o)
		t.eachOp(o.inner, do)
	}
}
