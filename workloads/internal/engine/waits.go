// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"sync"
	"time"
)

// semaphore is what semblock or block waits at: a pair of counters, as Filebench has them. Posts
// raise low; with `blocking` they wait for room in high, which starts at `highwater` and is raised
// by who waits.
type semaphore struct {
	engine    *Engine
	lock      sync.Mutex
	changed   sync.Cond
	low, high int64
	wakeups   int
}

func newSemaphore(e *Engine, high int64) *semaphore {
	s := &semaphore{engine: e, high: high}
	s.changed.L = &s.lock
	e.waits = append(e.waits, s)
	return s
}

// wake has all who wait look whether they still have to.
func (s *semaphore) wake() {
	s.lock.Lock()
	s.changed.Broadcast()
	s.lock.Unlock()
}

// until waits for a condition; false if the run ends before. Under the lock.
func (s *semaphore) until(condition func() bool) bool {
	for !condition() {
		if s.engine.ctx.Err() != nil {
			return false
		}
		s.changed.Wait()
	}
	return true
}

func semBlock(t *thread, o *op) error {
	s, n := o.semaphore, o.Value.Int(t.random)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.high += n
	s.changed.Broadcast()
	if !s.until(func() bool { return s.low >= n }) {
		return errStopped
	}
	s.low -= n
	return nil
}

func semPost(t *thread, o *op) error {
	n := o.Value.Int(t.random)
	for _, s := range o.targets {
		if !s.post(n, o.Blocking) {
			return errStopped
		}
	}
	return nil
}

func (s *semaphore) post(n int64, blocking bool) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if blocking {
		if !s.until(func() bool { return s.high >= n }) {
			return false
		}
		s.high -= n
	}
	s.low += n
	s.changed.Broadcast()
	return true
}

// block waits for the next wakeup.
func block(_ *thread, o *op) error {
	s := o.semaphore
	s.lock.Lock()
	defer s.lock.Unlock()
	before := s.wakeups
	if !s.until(func() bool { return s.wakeups != before }) {
		return errStopped
	}
	return nil
}

func wakeup(_ *thread, o *op) error {
	for _, s := range o.targets {
		s.lock.Lock()
		s.wakeups++
		s.changed.Broadcast()
		s.lock.Unlock()
	}
	return nil
}

const longestDelay = 1 << 32 // seconds; a Duration holds no more than twice that

// delay sleeps for whole seconds.
func delay(t *thread, o *op) error {
	timer := time.NewTimer(time.Duration(min(o.Value.Int(t.random), longestDelay)) * time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.engine.ctx.Done():
		return errStopped
	}
}

// hog keeps the CPU and its cache busy: so many stores to memory.
func hog(t *thread, o *op) error {
	const untilStopped = 1 << 16 // stores, after which it looks whether the run has ended
	for n := o.Value.Int(t.random); n > 0; n-- {
		t.hogged++
		if n%untilStopped == 0 && t.engine.stopping.Load() {
			return errStopped
		}
	}
	return nil
}
