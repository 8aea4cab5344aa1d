// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// OpenLoop says when the operations of one thread are due, at a rate that does not ask how long the
// operations before took. Give Recorder.Done the due time as the start: a stall then counts for
// each operation that should have begun in it.
type OpenLoop struct {
	beginNS      int64
	thread, step float64
	nsPerOp      float64
	next         int64
}

// NewOpenLoop paces one of several threads that make opsPerSecond (> 0) together, in turn: thread
// 0's first operation is due at beginNS.
func NewOpenLoop(beginNS int64, opsPerSecond float64, thread, threads int) *OpenLoop {
	return &OpenLoop{
		beginNS: beginNS, thread: float64(thread), step: float64(threads), nsPerOp: 1e9 / opsPerSecond,
	}
}

// Due is when the thread's n-th operation is due, from 0 on (CLOCK_MONOTONIC, ns).
func (o *OpenLoop) Due(n int64) int64 {
	return o.beginNS + int64((float64(n)*o.step+o.thread)*o.nsPerOp)
}

// Next waits until the next operation is due and gives that time. It does not wait where the thread
// is late, and gives false once ctx is done.
func (o *OpenLoop) Next(ctx context.Context) (dueNS int64, ok bool) {
	dueNS = o.Due(o.next)
	o.next++
	return dueNS, SleepUntil(ctx, dueNS)
}

// napNS is how long a sleep lasts at most before it asks whether to go on.
const napNS = int64(20 * time.Millisecond)

// SleepUntil sleeps until a time (CLOCK_MONOTONIC, ns). It gives false, soon, once ctx is done.
// Unlike Go's timers it is not late by up to a millisecond.
func SleepUntil(ctx context.Context, monotonicNS int64) bool {
	for ctx.Err() == nil {
		now := Now()
		if now >= monotonicNS {
			return true
		}
		until := unix.NsecToTimespec(min(monotonicNS, now+napNS))
		// Ends early where a signal comes; the loop sees to that.
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil)
	}
	return false
}
