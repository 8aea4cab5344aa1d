// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"joulerig/workloads/internal/measure"
)

// events come at the rate of `eventgen`. Those that no thread takes are kept, as in Filebench, for
// five seconds.
type events struct {
	nsPerEvent float64
	lock       sync.Mutex
	next       int64 // when the next one comes (CLOCK_MONOTONIC, ns)
}

const keptNS = 5_000_000_000

// take waits for n events; false if the run ends before.
func (e *events) take(ctx context.Context, n int64) bool {
	if n == 0 {
		return true
	}
	e.lock.Lock()
	e.next = max(e.next, measure.Now()-keptNS) + int64(float64(n)*e.nsPerEvent)
	due := e.next
	e.lock.Unlock()
	return measure.SleepUntil(ctx, due)
}

// limit is what a limit has seen of the operations that it counts: those of its target, or of the
// whole thread.
type limit struct {
	of   *progress
	seen int64
	end  int64 // of finishoncount and finishonbytes
}

// await waits for an event for each of what the thread has done since it was here last.
func (t *thread) await(o *op, done, perEvent int64) error {
	events := (done - o.limit.seen) / perEvent
	o.limit.seen += events * perEvent
	return t.take(events)
}

func (t *thread) take(events int64) error {
	if t.engine.events != nil && !t.engine.events.take(t.engine.ctx, events) {
		return errStopped
	}
	return nil
}

func eventLimit(t *thread, _ *op) error { return t.take(1) }

func opsLimit(t *thread, o *op) error { return t.await(o, o.limit.of.ops, 1) }

func iopsLimit(t *thread, o *op) error { return t.await(o, o.limit.of.transfers, 1) }

// bwLimit takes an event for each MiB.
func bwLimit(t *thread, o *op) error { return t.await(o, o.limit.of.bytes, 1<<20) }

// finishOnCount ends the thread when its target, or all threads together, have done so many
// operations.
func finishOnCount(t *thread, o *op) error {
	return finished(t.reached(o, o.limit.of.ops, &t.engine.all.ops) >= o.limit.end)
}

// finishOnBytes ends the thread when more than so many bytes were moved.
func finishOnBytes(t *thread, o *op) error {
	return finished(t.reached(o, o.limit.of.bytes, &t.engine.all.bytes) > o.limit.end)
}

// reached is what a finish looks at: its target's progress, or without a target that of all
// threads.
func (t *thread) reached(o *op, target int64, all *atomic.Int64) int64 {
	if o.Target == "" {
		return all.Load()
	}
	return target
}

func finished(yes bool) error {
	if yes {
		return errFinished
	}
	return nil
}
