// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

const ringSamples = 256 // a power of two; 8 KiB a thread

type sample struct {
	endNS, latencyNS, bytes int64
	class                   int32
}

// Recorder takes the operations of one thread.
type Recorder struct {
	collector *Collector

	_    cpu.CacheLinePad
	head atomic.Uint64 // samples that the thread put in
	_    cpu.CacheLinePad
	tail atomic.Uint64 // samples that were taken out, under the collector's lock
	_    cpu.CacheLinePad
	ring [ringSamples]sample
}

// Done records an operation that has ended. Its latency is endNS - startNS (CLOCK_MONOTONIC): in an
// open loop startNS is when the operation was due, so that a stall counts for all that should have
// begun in it (coordinated omission).
func (r *Recorder) Done(class int, startNS, endNS, bytes int64) {
	head := r.head.Load()
	if head-r.tail.Load() == ringSamples {
		r.empty()
	}
	s := &r.ring[head%ringSamples]
	s.endNS, s.latencyNS, s.bytes, s.class = endNS, max(endNS-startNS, 0), bytes, int32(class)
	r.head.Store(head + 1)
}

func (r *Recorder) empty() {
	r.collector.lock.Lock()
	r.drain(math.MaxInt64)
	r.collector.lock.Unlock()
}

// drain counts the samples of operations that ended before a time. Under the collector's lock.
func (r *Recorder) drain(before int64) {
	tail, head := r.tail.Load(), r.head.Load()
	for ; tail != head; tail++ {
		s := &r.ring[tail%ringSamples]
		if s.endNS >= before {
			break
		}
		r.collector.current[s.class].add(s)
	}
	r.tail.Store(tail)
}
