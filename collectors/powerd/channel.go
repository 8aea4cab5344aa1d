// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"slices"
)

// channel holds the samples of one channel that wait for their partners, as pieces of consecutive
// indices. They lie where the frames left them until keep.
type channel struct {
	name   string
	pieces []piece
	// keep copies into one while the other may be what is copied from.
	kept [2][]float32
	turn int
}

type piece struct {
	first   uint64
	samples []float32
}

func (p *piece) end() uint64 { return p.first + uint64(len(p.samples)) }

// append takes samples that are good until keep.
func (c *channel) append(first uint64, samples []float32) error {
	if n := len(c.pieces); n > 0 && first < c.pieces[n-1].end() {
		return fmt.Errorf("channel %s: sample %d comes again", c.name, first)
	}
	c.pieces = append(c.pieces, piece{first, samples})
	return nil
}

// waiting is the number of samples held.
func (c *channel) waiting() int {
	n := 0
	for i := range c.pieces {
		n += len(c.pieces[i].samples)
	}
	return n
}

// discard drops samples before index.
func (c *channel) discard(index uint64) {
	n := 0
	for n < len(c.pieces) && c.pieces[n].end() <= index {
		n++
	}
	c.pieces = append(c.pieces[:0], c.pieces[n:]...)
	if len(c.pieces) > 0 && c.pieces[0].first < index {
		p := &c.pieces[0]
		p.samples = p.samples[index-p.first:]
		p.first = index
	}
}

// keep makes the samples that still wait the channel's own.
func (c *channel) keep() {
	if len(c.pieces) == 0 {
		return
	}
	c.turn = 1 - c.turn
	own := c.kept[c.turn][:0]
	if n := c.waiting(); cap(own) < n {
		own = make([]float32, 0, 2*n)
	}
	for i := range c.pieces {
		from := len(own)
		own = append(own, c.pieces[i].samples...)
		c.pieces[i].samples = own[from:]
	}
	c.kept[c.turn] = own
}

func (c *channel) reset() { c.pieces = c.pieces[:0] }

// together is the first stretch, from index `from` on, that both channels hold: its first index and
// both's samples; no samples where there is none. Without a second channel, its samples are ones.
func together(volts, amps *channel, from uint64) (uint64, []float32, []float32) {
	for i := range volts.pieces {
		v := &volts.pieces[i]
		if v.end() <= from {
			continue
		}
		if amps == nil {
			lo := max(v.first, from)
			n := min(int(v.end()-lo), len(ones))
			return lo, v.samples[lo-v.first:][:n], ones[:n]
		}
		for k := range amps.pieces {
			a := &amps.pieces[k]
			lo, hi := max(v.first, a.first, from), min(v.end(), a.end())
			if lo < hi {
				return lo, v.samples[lo-v.first : hi-v.first], a.samples[lo-a.first : hi-a.first]
			}
		}
	}
	return 0, nil, nil
}

var ones = func() (all [4096]float32) {
	for i := range all {
		all[i] = 1
	}
	return
}()

const (
	// Of a block of samples, as many of each channel are compared with the block before.
	fingerprintSamples = 16
	// Blocks of fewer samples are too easily alike.
	leastBlock = 8
)

// appendMarks appends the samples that identify a block, volts and amps in turn, to dst: what
// srcap puts into a rail's frame.
func appendMarks(dst, volts, amps []float32) []float32 {
	step := max(1, len(volts)/fingerprintSamples)
	for k := 0; k < len(volts) && len(dst) < 2*fingerprintSamples; k += step {
		dst = append(dst, volts[k], amps[k])
	}
	return dst
}

// fingerprint is what a rail's last block of samples looked like.
type fingerprint struct {
	n     int
	same  bool // as the one before it
	marks []float32
}

func (p *fingerprint) reset() { p.n, p.same = 0, false }

// repeats says whether a block of n samples repeats the one before. Two windows of a real signal
// are never alike in both volts and amps, unless nothing at all moves in them; that is not taken
// for a repetition. Nor is a third one alike: that is a signal which repeats itself, as only a
// simulated one can.
func (p *fingerprint) repeats(n int, marks []float32) bool {
	moves := false
	for k := 2; k+1 < len(marks); k += 2 {
		moves = moves || marks[k] != marks[0] || marks[k+1] != marks[1]
	}
	same := n == p.n && n >= leastBlock && slices.Equal(marks, p.marks)
	repeated := same && moves && !p.same
	p.n, p.same = n, same
	p.marks = append(p.marks[:0], marks...)
	return repeated
}
