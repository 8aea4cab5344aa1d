// SPDX-License-Identifier: GPL-3.0-or-later

// Package measure counts and times the operations of a load: by class of operation, by interval and
// over all, with HDR histograms that are merged and never averaged.
//
// A thread reports every operation to its Recorder. The samples go into a small ring that only this
// thread writes; the collector empties the rings into one histogram a class. So the memory is the
// same at one thread and at a hundred, does not grow with time, and a thread takes a lock only when
// its ring is full.
package measure

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Kind is what the bytes of a class count as.
type Kind uint8

// Kinds.
const (
	Other Kind = iota
	Read
	Write
	Sync // makes written data durable: fsync, fdatasync
)

var kindNames = [...]string{Other: "other", Read: "read", Write: "write", Sync: "sync"}

func (k Kind) String() string { return kindNames[k] }

// MarshalText returns the kind's name, as reports have it.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes what MarshalText gave.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind, name := range kindNames {
		if name == string(text) {
			*k = Kind(kind)
			return nil
		}
	}
	return fmt.Errorf("%q: expected one of %q", text, kindNames)
}

// Class is a class of operations. Its name is part of field names of the database: letters, digits
// and underscores.
type Class struct {
	Name string
	Kind Kind
}

// Options of a Collector.
type Options struct {
	Classes  []Class
	Threads  int
	Interval time.Duration  // of the series; 1 s where it is 0
	Emit     func(Interval) // takes each interval's figures, in the collector's goroutine; may be nil
}

// Collector gathers what the recorders receive.
type Collector struct {
	options   Options
	recorders []*Recorder

	lock    sync.Mutex // guards current and the recorders' tails
	current []tally    // of the interval under way, by class

	spare    []tally // empty between two rotations
	total    []tally // of the intervals before
	beginNS  int64
	lastNS   int64 // end of the last interval
	beginCPU cpuTime
	stop     chan struct{}
	stopped  chan struct{}
}

// New makes a collector; it measures from Begin on.
func New(options Options) *Collector {
	if options.Interval <= 0 {
		options.Interval = time.Second
	}
	c := &Collector{
		options: options,
		current: newTallies(options.Classes),
		spare:   newTallies(options.Classes),
		total:   newTallies(options.Classes),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	for range options.Threads {
		c.recorders = append(c.recorders, &Recorder{collector: c})
	}
	return c
}

// Recorder returns the recorder of a thread, from 0 on. No two threads may use one at the same
// time.
func (c *Collector) Recorder(thread int) *Recorder { return c.recorders[thread] }

// Begin starts the measurement. Operations that end before must not be reported.
func (c *Collector) Begin(monotonicNS int64) {
	c.beginNS, c.lastNS = monotonicNS, monotonicNS
	c.beginCPU = usedCPU()
	go c.rotateEveryInterval()
}

// End ends the measurement, emits the last, partial interval and gives the result. Call it once,
// after Begin; what is reported afterwards is not counted.
func (c *Collector) End(monotonicNS int64) Result {
	used := usedCPU().since(c.beginCPU)
	close(c.stop)
	<-c.stopped
	c.rotate(max(monotonicNS, c.lastNS+1), math.MaxInt64) // no interval is empty
	return c.result(used)
}

func (c *Collector) rotateEveryInterval() {
	defer close(c.stopped)
	interval := c.options.Interval.Nanoseconds()
	for {
		// The next boundary that is to come: one that was slept through makes the interval longer.
		passed := (Now() - c.beginNS) / interval
		timer := time.NewTimer(time.Duration(c.beginNS + (passed+1)*interval - Now()))
		select {
		case <-c.stop:
			timer.Stop()
			return
		case <-timer.C:
		}
		now := Now()
		c.rotate(now, now)
	}
}

// rotate ends the interval at a time: operations that ended before another time, mostly the same
// one, are in it.
func (c *Collector) rotate(endNS, before int64) {
	c.lock.Lock()
	for _, r := range c.recorders {
		r.drain(before)
	}
	c.current, c.spare = c.spare, c.current
	c.lock.Unlock()
	beginNS := c.lastNS
	c.lastNS = endNS
	if c.options.Emit != nil {
		c.options.Emit(c.interval(beginNS, endNS))
	}
	for class := range c.spare {
		c.total[class].merge(&c.spare[class])
		c.spare[class].reset()
	}
}

// Now is CLOCK_MONOTONIC in nanoseconds, without a system call where the machine's clock has none.
func Now() int64 { return monotonicBase + int64(time.Since(processStart)) }
