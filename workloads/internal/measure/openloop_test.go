// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"context"
	"testing"
	"time"
)

func TestThreadsOfAnOpenLoopTakeTurns(t *testing.T) {
	const begin, rate, threads = 1_000_000, 100.0, 4
	for thread := range threads {
		loop := NewOpenLoop(begin, rate, thread, threads)
		for n := range int64(3) {
			want := begin + (n*threads+int64(thread))*10_000_000
			if got := loop.Due(n); got != want {
				t.Errorf("thread %d, operation %d: due at %d, want %d", thread, n, got, want)
			}
		}
	}
}

func TestNextWaitsUntilDueAndNotWhereLate(t *testing.T) {
	begin := Now()
	loop := NewOpenLoop(begin, 1000, 0, 1)
	for n := range int64(5) {
		due, ok := loop.Next(t.Context())
		if !ok || due != loop.Due(n) || Now() < due {
			t.Fatalf("operation %d: due at +%d, reported +%d, %v", n, loop.Due(n)-begin, due-begin, ok)
		}
	}
	late := NewOpenLoop(begin-int64(time.Hour), 1000, 0, 1)
	if due, ok := late.Next(t.Context()); !ok || due != begin-int64(time.Hour) {
		t.Errorf("an operation that is an hour late: %d, %v", due-begin, ok)
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, ok := NewOpenLoop(Now()+int64(time.Hour), 1, 0, 1).Next(ctx); ok {
		t.Error("an operation is to begin after the end")
	}
}

// A target that answers at once but for one stall, in simulated time: what 1000 operations a second
// see of a stall of 100 ms.
func TestAStallDelaysAllThatWereDueInAnOpenLoop(t *testing.T) {
	const ops, rate, service, stall = 1000, 1000.0, int64(1000), int64(100 * time.Millisecond)
	load := func(due func(n, freeAt int64) int64) ClassResult {
		return classOf(t, measured(func(r *Recorder) {
			freeAt := int64(0)
			for n := range int64(ops) {
				start := due(n, freeAt)
				freeAt = max(start, freeAt) + service
				if n == ops/2 {
					freeAt += stall
				}
				r.Done(fsync, start, freeAt, 0)
			}
		}), "fsync")
	}
	loop := NewOpenLoop(0, rate, 0, 1)
	open := load(func(n, _ int64) int64 { return loop.Due(n) })
	closed := load(func(_, freeAt int64) int64 { return freeAt })

	if delayed := slower(open, int64(time.Millisecond)); delayed < 98 || delayed > 101 {
		t.Errorf("open loop: %d operations were delayed by the stall, want about 100", delayed)
	}
	expectNear(t, "open loop, p95", open.P95, 0.05, 0.05)
	expectNear(t, "open loop, max", open.Max, 0.1, 0.01)
	if delayed := slower(closed, int64(time.Millisecond)); delayed != 1 {
		t.Errorf("closed loop: %d operations were delayed, want 1", delayed)
	}
	expectNear(t, "closed loop, p99", closed.P99, 1e-6, 1e-3)
}

func slower(class ClassResult, ns int64) (n int64) {
	for bound, count := range class.Histogram {
		if bound > ns {
			n += count
		}
	}
	return n
}
