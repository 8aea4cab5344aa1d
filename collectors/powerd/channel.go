// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// channel holds the samples of one channel that wait for their partners, as pieces of consecutive
// indices. They lie where the frames left them until keep.
type channel struct {
	name   string
	pieces []piece
	kept   []float32 // what keep has copied
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
	// What was kept before only moves towards the front: it may be copied within its own memory.
	own := c.kept[:0]
	if n := c.waiting(); cap(own) < n {
		own = make([]float32, 0, 2*n)
	}
	for i := range c.pieces {
		from := len(own)
		own = append(own, c.pieces[i].samples...)
		c.pieces[i].samples = own[from:]
	}
	c.kept = own
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
	fingerprintSamples = 64
	// Blocks of fewer samples are too easily alike.
	leastBlock = 8
	// How far back a block that came twice is looked for, and the samples that are kept for it.
	mostLag     = 64
	pastSamples = 1024
	compared    = mostLag * fingerprintSamples // stretches that can be compared with a block
	leastPast   = pastSamples / 2
	// Blocks of a quiet rail are alike by chance. At fifty blocks a second, this is once in two days.
	mostChance = 1e-7
	// A rail of which so large a part of the samples is one value rests there, and what lies between
	// are bursts of work.
	restFrequency = 0.25
	leastRest     = 4
	// That a burst is like another one is no less likely: its samples follow from one another.
	leastAlike = 0.001
	// What may be a doubled block or a drive that did the same again is a doubled block where the
	// same distance comes so often within so many samples: an instrument's blocks are of one length.
	suspectsEnough = 3
	suspectSamples = 10_000
	// A stretch that chance has twice among the samples that are kept less often than this shows
	// that the signal repeats itself. To be wrong there costs one block that is counted twice.
	recurrenceChance = 1e-3
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

// fingerprint is what a rail's last blocks of samples looked like.
type fingerprint struct {
	n     int
	same  bool // as the one before it
	marks []float32
	// The marks of the last samples where no sample is left out, by index; the newest is of end-1.
	past  [pastSamples]mark
	begin uint64 // index of the first one that counts
	end   uint64
	found []float32 // what holdsEarlier works on
	// Stretches that may be doubled blocks, of the last suspectSamples.
	suspects []suspect
}

// suspect is a stretch that is like an earlier one: how far that lies back, and where it was seen.
type suspect struct{ lag, at uint64 }

// mark is a sample of both channels; known is false where a block's marks left it out.
type mark struct {
	volts, amps float32
	known       bool
}

func (m mark) equals(other mark) bool {
	return m.known && other.known && m.volts == other.volts && m.amps == other.amps
}

func (p *fingerprint) reset() {
	p.n, p.same, p.begin, p.end, p.suspects = 0, false, 0, 0, p.suspects[:0]
}

// repeats says whether a block of n samples from index `first` on repeats what came before. Two
// windows of a real signal are never alike in both volts and amps, unless little moves in them:
// what chance would make alike is not taken for a repetition. Nor is a third one alike, nor one of
// a rail that recurs: that is a signal which repeats itself, as of a drive that does one thing
// again and again, read without noise or in coarse steps.
func (p *fingerprint) repeats(first uint64, n int, marks []float32) bool {
	same := n == p.n && n >= leastBlock && slices.Equal(marks, p.marks)
	repeated := same && !p.same && chance(marks) < mostChance
	p.n, p.same = n, same
	p.marks = append(p.marks[:0], marks...)
	if n >= 2*fingerprintSamples {
		p.end = 0 // marks are of samples that are apart
		return repeated
	}
	p.remember(first, n, marks)
	lag, isSure := uint64(n), repeated && p.burstsChance(marks, first) < mostChance
	if !repeated && !same {
		lag, isSure = p.holdsEarlier(first)
		repeated = lag > 0
	}
	if !repeated || p.recurs() {
		return false
	}
	return p.suspectedOften(lag, first) || isSure
}

// remember keeps the marks of a block.
func (p *fingerprint) remember(first uint64, n int, marks []float32) {
	if first < p.end || first-p.end >= pastSamples {
		p.begin, p.end = first, first
	}
	for ; p.end < first; p.end++ {
		p.past[p.end%pastSamples] = mark{} // lost
	}
	for k := range n {
		m := mark{}
		if 2*k < len(marks) {
			m = mark{marks[2*k], marks[2*k+1], true}
		}
		p.past[(first+uint64(k))%pastSamples] = m
	}
	p.end = first + uint64(n)
}

func (p *fingerprint) markAt(index uint64) mark {
	if index < p.begin || index >= p.end || p.end-index > pastSamples {
		return mark{}
	}
	return p.past[index%pastSamples]
}

// suspectedOften notes that a stretch is like the one so far before it, and says whether there were
// enough at that distance. What goes on in the next block is one stretch.
func (p *fingerprint) suspectedOften(lag, at uint64) bool {
	p.suspects = slices.DeleteFunc(p.suspects, func(one suspect) bool {
		return at-one.at > suspectSamples || (one.lag == lag && at-one.at <= 2*mostLag)
	})
	p.suspects = append(p.suspects, suspect{lag, at})
	alike := 0
	for _, one := range p.suspects {
		if one.lag == lag {
			alike++
		}
	}
	return alike >= suspectsEnough
}

// holdsEarlier says how far back the samples lie with which the block from index `first` on ends or
// goes on, one after the other, and whether that is sure (burstsChance); 0 where they are not those
// of an earlier time. A block that came twice need not lie as the blocks do in which samples come.
// Samples that are not known neither belong to it nor end it.
func (p *fingerprint) holdsEarlier(first uint64) (back uint64, isSure bool) {
	from := max(p.begin, first-min(first, mostLag))
	for lag := uint64(leastBlock); lag <= mostLag; lag++ {
		marks := p.found[:0]
		known, periodic := 0, 0 // of those two lags before
		for at := from; at <= p.end; at++ {
			m, before := p.markAt(at), p.markAt(at-min(at, lag))
			if at < p.end && !(m.known && before.known && at >= lag) {
				continue
			}
			if at < p.end && m.equals(before) {
				marks = append(marks, m.volts, m.amps)
				if twice := p.markAt(at - min(at, 2*lag)); twice.known && at >= 2*lag {
					known++
					if twice.equals(m) {
						periodic++
					}
				}
				continue
			}
			if at > first && known > 0 && periodic < known && p.isNoChance(marks) {
				begin := at - min(at, uint64(len(marks)/2))
				if compared*p.burstsChance(marks, begin) < mostChance {
					return lag, true
				}
				back = lag
			}
			marks, known, periodic = marks[:0], 0, 0
		}
		p.found = marks
	}
	return back, false
}

// isNoChance says whether samples, volts and amps in turn, are alike to earlier ones by more than
// chance: each sample is as likely as it is frequent among those that are kept, of which there are
// as many as can be compared. Samples that change less than three times show nothing.
func (p *fingerprint) isNoChance(marks []float32) bool {
	changes := 0
	for k := 2; k < len(marks); k += 2 {
		if marks[k] != marks[k-2] || marks[k+1] != marks[k-1] {
			changes++
		}
	}
	if changes < 3 {
		return false
	}
	likely := float64(compared)
	for k := 0; k < len(marks) && likely >= mostChance; k += 2 {
		likely *= p.frequency(mark{marks[k], marks[k+1], true})
	}
	return likely < mostChance
}

// burstsChance is how likely it is that the bursts among samples, volts and amps in turn, which
// begin at index `begin`, are those of an earlier time although none came twice: each is as likely
// as two of the bursts kept from before then were alike, and no less than leastAlike. A drive that
// does the same work again draws the same for it, sample by sample, where it is read without noise;
// so the samples of a burst are no evidence each. 0 where the rail does not rest at one value.
func (p *fingerprint) burstsChance(marks []float32, begin uint64) float64 {
	rest, part := p.commonest()
	if part < restFrequency {
		return 0
	}
	var bursts burstCutter
	for k := 0; k < len(marks); k += 2 {
		bursts.take(mark{marks[k], marks[k+1], true}, rest)
	}
	return math.Pow(max(p.alikeBursts(rest, begin), leastAlike), float64(bursts.begun))
}

// commonest is the sample that is most frequent among those that are kept, and their part.
func (p *fingerprint) commonest() (mark, float64) {
	counts, known := map[mark]int{}, 0
	var most mark
	for at := p.oldest(); at < p.end; at++ {
		if m := p.past[at%pastSamples]; m.known {
			known++
			counts[m]++
			if counts[m] > counts[most] {
				most = m
			}
		}
	}
	return most, float64(counts[most]) / float64(max(known, 1))
}

// alikeBursts is how large a part of the pairs of bursts kept from before an index are alike, by
// the rule of succession: one half where there are no pairs.
func (p *fingerprint) alikeBursts(rest mark, before uint64) float64 {
	counts, all := map[string]int{}, 0
	bursts := burstCutter{ended: func(samples []byte) {
		counts[string(samples)]++
		all++
	}}
	for at := p.oldest(); at < before; at++ {
		if m := p.past[at%pastSamples]; m.known {
			bursts.take(m, rest)
		} else {
			bursts.missing()
		}
	}
	alike := 0
	for _, n := range counts {
		alike += n * (n - 1) / 2
	}
	return float64(alike+1) / float64(all*(all-1)/2+2)
}

// burstCutter finds the bursts of a rail that rests at one value: what lies between leastRest
// samples of rest.
type burstCutter struct {
	ended   func(samples []byte) // gets each of which begin and end were seen; may be nil
	begun   int
	resting int
	samples []byte
	isWhole bool // its begin was seen
}

func (c *burstCutter) take(m, rest mark) {
	if m.equals(rest) {
		c.resting++
		if c.resting == leastRest {
			if c.ended != nil && c.isWhole && len(c.samples) > 0 {
				c.ended(c.samples[:len(c.samples)-8*(leastRest-1)])
			}
			c.samples, c.isWhole = c.samples[:0], true
		} else if len(c.samples) > 0 {
			c.append(m)
		}
		return
	}
	if len(c.samples) == 0 {
		c.begun++
	}
	c.resting = 0
	c.append(m)
}

func (c *burstCutter) append(m mark) {
	c.samples = binary.LittleEndian.AppendUint32(c.samples, math.Float32bits(m.volts))
	c.samples = binary.LittleEndian.AppendUint32(c.samples, math.Float32bits(m.amps))
}

// missing says that samples did not come.
func (c *burstCutter) missing() { c.samples, c.resting, c.isWhole = c.samples[:0], 0, false }

// frequency is how large a part a sample is of those that are kept.
func (p *fingerprint) frequency(sample mark) float64 {
	alike, known := 0, 0
	for at := p.oldest(); at < p.end; at++ {
		if m := p.past[at%pastSamples]; m.known {
			known++
			if m.equals(sample) {
				alike++
			}
		}
	}
	return float64(alike) / float64(known)
}

// oldest is the index of the first sample that is kept.
func (p *fingerprint) oldest() uint64 { return p.end - min(p.end-p.begin, pastSamples) }

// recurs says whether the rail holds a stretch of samples that it had before, further back than a
// block that comes twice can lie, and not by chance; also where too few samples are kept to see
// one.
func (p *fingerprint) recurs() bool {
	oldest, kept := p.oldest(), 0.0
	for at := oldest; at < p.end; at++ {
		if p.past[at%pastSamples].known {
			kept++
		}
	}
	if kept < leastPast {
		return true
	}
	frequencies := map[mark]float64{}
	for lag := uint64(mostLag + 1); oldest+lag < p.end; lag++ {
		likely, changes := kept*kept/2, 0
		for at := oldest + lag; at < p.end; at++ {
			m := p.past[at%pastSamples]
			if !m.equals(p.past[(at-lag)%pastSamples]) {
				likely, changes = kept*kept/2, 0
				continue
			}
			frequency, counted := frequencies[m]
			if !counted {
				frequency = p.frequency(m)
				frequencies[m] = frequency
			}
			likely *= frequency
			if m != p.past[(at-1)%pastSamples] {
				changes++
			}
			if changes >= 3 && likely < recurrenceChance {
				return true
			}
		}
	}
	return false
}

// chance is how likely it is that a block has these marks, volts and amps in turn, if each sample
// is one of those that they are, as often as they are.
func chance(marks []float32) float64 {
	likely, n := 1.0, len(marks)/2
	for k := range n {
		alike := 0
		for other := range n {
			if marks[2*k] == marks[2*other] && marks[2*k+1] == marks[2*other+1] {
				alike++
			}
		}
		likely *= float64(alike) / float64(n)
	}
	return likely
}
