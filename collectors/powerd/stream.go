// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"

	"joulerig/collectors/internal/srframe"
)

// channel holds the samples of one channel that wait for their partners.
type channel struct {
	name     string
	quantity uint32
	first    uint64 // index of samples[0]
	samples  []float32
}

func (c *channel) end() uint64 { return c.first + uint64(len(c.samples)) }

// append takes a frame's samples. Where the frame does not follow on, what was waiting has no partner any more and goes.
func (c *channel) append(f *srframe.Frame) error {
	if f.Quantity != c.quantity {
		return fmt.Errorf("channel %s is not %s, as the configuration says (libsigrok's quantity %d)", c.name, quantityName(c.quantity), f.Quantity)
	}
	if f.First < c.end() && len(c.samples) > 0 {
		return fmt.Errorf("channel %s: sample %d comes again", c.name, f.First)
	}
	if f.First != c.end() || len(c.samples) == 0 {
		c.samples = c.samples[:0]
		c.first = f.First
	}
	c.samples = f.AppendSamples(c.samples)
	return nil
}

// discard drops samples before index.
func (c *channel) discard(index uint64) {
	if index <= c.first {
		return
	}
	n := min(index-c.first, uint64(len(c.samples)))
	if n == 0 {
		return
	}
	kept := copy(c.samples, c.samples[n:])
	c.samples = c.samples[:kept]
	c.first += n
}

func (c *channel) reset() {
	c.first, c.samples = 0, c.samples[:0]
}

func quantityName(q uint32) string {
	if q == srframe.Voltage {
		return "volts"
	}
	return "amps"
}

// common is the range of indices that both channels hold, from `from` on.
func common(volts, amps *channel, from uint64) (lo, hi uint64) {
	return max(volts.first, amps.first, from), min(volts.end(), amps.end())
}
