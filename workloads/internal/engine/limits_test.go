// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// oneThread is the thread of a workload that is not run.
func oneThread(t *testing.T, flowops string) *thread {
	t.Helper()
	e, err := New(Options{Program: parse(t, one(flowops)), System: filesys.Null{}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return e.threads[0]
}

// named is a flowop of the thread.
func (t *thread) named(name string) (found *op) {
	t.eachOp(t.ops, func(o *op) {
		if o.Name == name {
			found = o
		}
	})
	return found
}

func TestALimitOfBandwidthKeepsWhatIsLeftOfAMiB(t *testing.T) {
	thread := oneThread(t, "flowop write name=w,filesetname=full,iosize=100\nflowop bwlimit name=limit,target=w")
	o := thread.named("limit")
	for _, c := range []struct{ done, seen int64 }{{1<<20 - 1, 0}, {3 << 19, 1 << 20}, {9 << 18, 2 << 20}, {3 << 20, 3 << 20}} {
		thread.named("w").done.bytes = c.done
		if err := bwLimit(thread, o); err != nil || o.limit.seen != c.seen {
			t.Errorf("of %d bytes %d have had their event, want %d: %v", c.done, o.limit.seen, c.seen, err)
		}
	}
}

func TestReadsAndWritesAreTransfersAndMoveBytes(t *testing.T) {
	var p progress
	for _, kind := range []measure.Kind{measure.Read, measure.Write, measure.Sync, measure.Other} {
		p.add(kind, 100)
	}
	if want := (progress{ops: 4, transfers: 2, bytes: 200}); p != want {
		t.Errorf("%+v, want %+v", p, want)
	}
}

func TestALimitOfTransfersCountsNoOtherOperations(t *testing.T) {
	thread := oneThread(t, "flowop write name=w,filesetname=full,iosize=100\nflowop iopslimit name=limit\nflowop opslimit name=all")
	thread.total = progress{ops: 7, transfers: 4, bytes: 400}
	if err := iopsLimit(thread, thread.named("limit")); err != nil || thread.named("limit").limit.seen != 4 {
		t.Errorf("%d events, %v; want 4", thread.named("limit").limit.seen, err)
	}
	if err := opsLimit(thread, thread.named("all")); err != nil || thread.named("all").limit.seen != 7 {
		t.Errorf("%d events, %v; want 7", thread.named("all").limit.seen, err)
	}
}

// So many operations are enough; of bytes it takes more.
func TestAThreadEndsAtItsCountAndBeyondItsBytes(t *testing.T) {
	thread := oneThread(t, `flowop write name=w,filesetname=full,iosize=100
flowop finishoncount name=count,target=w,value=5
flowop finishonbytes name=bytes,target=w,value=500
flowop finishonbytes name=all,value=500`)
	for _, c := range []struct {
		progress progress
		ends     map[string]bool
	}{
		{progress{ops: 4, transfers: 4, bytes: 500}, map[string]bool{"count": false, "bytes": false}},
		{progress{ops: 5, transfers: 5, bytes: 501}, map[string]bool{"count": true, "bytes": true}},
	} {
		thread.named("w").done = c.progress
		for name, ends := range c.ends {
			if err := thread.named(name).do(thread, thread.named(name)); errors.Is(err, errFinished) != ends {
				t.Errorf("%s after %+v: %v", name, c.progress, err)
			}
		}
	}
	for bytes, ends := range map[int64]bool{500: false, 501: true} {
		thread.engine.all.bytes.Store(bytes)
		if err := thread.named("all").do(thread, thread.named("all")); errors.Is(err, errFinished) != ends {
			t.Errorf("after %d bytes of all threads: %v", bytes, err)
		}
	}
}

// An operation that follows another one in the same flowop, as a set's syncs do, was due by no
// clock.
func TestTheTimeAtWhichAnOperationWasDueIsItsOwn(t *testing.T) {
	thread := &thread{due: 42}
	if begin := thread.begin(); begin != 42 {
		t.Errorf("it begins at %d, it was due at 42", begin)
	}
	before := measure.Now()
	if begin := thread.begin(); begin < before {
		t.Errorf("the next one begins %d ns before now", before-begin)
	}
}

func TestFlowopsThatAreNoOperationsTakeNoTurnOfAnOpenLoop(t *testing.T) {
	thread := oneThread(t, "flowop hog name=busy,value=1\nflowop statfile name=stat,filesetname=full,iters=3")
	e := thread.engine
	if _, _, err := e.LayOut(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	collector := measure.New(measure.Options{Classes: e.classes.list, Threads: 1})
	thread.recorder = collector.Recorder(0)
	thread.pace = measure.NewOpenLoop(1, 1e6, 0, 1)
	e.ctx, e.stopping = t.Context(), &atomic.Bool{}
	if err := thread.each(thread.ops[:2]); err != nil {
		t.Fatal(err)
	}
	if due, _ := thread.pace.Next(t.Context()); due != thread.pace.Due(3) {
		t.Errorf("the next operation is due at %d, want %d: three were done", due, thread.pace.Due(3))
	}
}

func TestEventsThatNothingTakesAreKeptForFiveSeconds(t *testing.T) {
	for _, c := range []struct {
		idle, kept int64 // ns
	}{{2e9, 2e9}, {60e9, keptNS}} {
		now := measure.Now()
		e := &events{nsPerEvent: 1e6, next: now - c.idle}
		if !e.take(t.Context(), 1) || e.next < now-c.kept+1e6 || e.next > measure.Now()-c.kept+1e6 {
			t.Errorf("after %d s the next event is of %d ms ago, want %d", c.idle/1e9, (now-e.next)/1e6, c.kept/1e6-1)
		}
		before := e.next
		if !e.take(t.Context(), 0) || e.next != before {
			t.Error("no event was asked for, and one was taken")
		}
	}
}

// The run has ended, so nothing waits for more posts.
func TestASemaphoreLetsThroughWhereAllThatItWaitsForWasPosted(t *testing.T) {
	thread := oneThread(t, "flowop semblock name=wait,value=5,highwater=10\nflowop sempost name=post,target=wait,value=1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	thread.engine.ctx = ctx
	wait := thread.named("wait")
	wait.semaphore.low = 4
	if err := semBlock(thread, wait); err != errStopped {
		t.Errorf("of 5 posts 4 were made: %v", err)
	}
	if err := semPost(thread, thread.named("post")); err != nil || wait.semaphore.low != 5 {
		t.Errorf("%d were posted, want 5: %v", wait.semaphore.low, err)
	}
	if err := semBlock(thread, wait); err != nil || wait.semaphore.low != 0 {
		t.Errorf("of 5 posts 5 were made: %d are left, %v", wait.semaphore.low, err)
	}
}

// A write of more than there is memory for goes out in pieces, one behind the other.
func TestTheLargestWritesGoOutInPieces(t *testing.T) {
	thread := oneThread(t, "flowop write name=w,filesetname=full,iosize=100,random")
	system := &recording{FS: filesys.Null{}}
	thread.system = system
	thread.engine.data = make([]byte, variedBytes+4096)
	if err := thread.pwrite(&slot{}, 10000, 500); err != nil {
		t.Fatal(err)
	}
	expect(t, "calls", system.calls, []string{"pwrite 4096 at 500", "pwrite 4096 at 4596", "pwrite 1808 at 8692"})
}

func TestDescriptorsAreTakenInTurnFromTheLastToTheFirst(t *testing.T) {
	thread := oneThread(t, "flowop openfile name=a,filesetname=full,opennext")
	for n := range 2 * len(thread.slots) {
		if got, want := thread.slotOf(thread.named("a")), &thread.slots[len(thread.slots)-1-n%len(thread.slots)]; got != want {
			t.Fatalf("the %d-th is another one", n)
		}
	}
}

// finishedWrites is a thread with asynchronous writes of 300 ns, of which some are done, and the
// collector of its operations.
func finishedWrites(t *testing.T, pending, done int) (*thread, *measure.Collector) {
	t.Helper()
	thread := oneThread(t, "flowop aiowrite name=w,filesetname=full,iosize=100\nflowop aiowait name=wait")
	collector := measure.New(measure.Options{Classes: thread.engine.classes.list, Threads: 1})
	thread.recorder = collector.Recorder(0)
	thread.writes = asyncWrites{pending: pending, finished: make(chan *asyncWrite, pending)}
	for range done {
		thread.writes.finished <- &asyncWrite{op: thread.named("w"), data: make([]byte, 100), begin: 1000, end: 1300}
	}
	return thread, collector
}

func TestAnAsynchronousWriteLastsFromWhenItWasAskedForUntilItWasDone(t *testing.T) {
	thread, collector := finishedWrites(t, 2, 2)
	collector.Begin(measure.Now())
	if err := thread.reapAll(); err != nil {
		t.Fatal(err)
	}
	r := collector.End(measure.Now())
	if r.Ops != 2 || r.WriteBytes != 200 || r.Classes[0].Max != 300e-9 || r.Classes[0].Seconds != 600e-9 {
		t.Errorf("%+v", r.Classes)
	}
}

func TestAWaitForAsynchronousWritesIsForHalfOfThem(t *testing.T) {
	thread, collector := finishedWrites(t, 5, 3)
	collector.Begin(measure.Now())
	if err := aioWait(thread, thread.named("wait")); err != nil || thread.writes.pending != 2 {
		t.Errorf("%d writes are under way, %v", thread.writes.pending, err)
	}
	if r := collector.End(measure.Now()); r.Ops != 4 {
		t.Errorf("%d operations: three writes and the wait", r.Ops)
	}
}
