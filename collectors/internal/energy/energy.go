// SPDX-License-Identifier: GPL-3.0-or-later

// Package energy integrates the power of a rail on the device's own time.
//
// Power is the product of volts and amps of the same sample, never of means over many: mean(V) x
// mean(I) differs from mean(V x I) by the covariance of both, which for a supply with source
// resistance R is R var(I). That bias remains within one sample of an instrument that averages over
// its conversion window; keep windows short.
//
// Rail is for instruments that sample volts and amps together at a steady rate, Readings for those
// that are asked again and again.
package energy

import (
	"fmt"
	"math"

	"joulerig/collectors/internal/srframe"
)

// Sampling says what a sample is.
type Sampling int

const (
	// WindowMean samples are means over their period: energy is their sum times the period.
	WindowMean Sampling = iota
	// PointSamples are values at an instant: energy is the trapezoid between neighbours.
	PointSamples
)

// ParseSampling reads the word of a configuration.
func ParseSampling(s string) (Sampling, error) {
	switch s {
	case "window-mean":
		return WindowMean, nil
	case "point":
		return PointSamples, nil
	}
	return 0, fmt.Errorf("%q (allowed: window-mean, point)", s)
}

// Point is what a stretch of samples comes to.
type Point struct {
	End     uint64  // index after its last sample
	Samples int64   // in this point
	Volts   float64 // means over the point's samples
	Amps    float64
	Watts   float64
	Min     float64 // of the samples' watts
	Max     float64
	Joules  float64 // of this point, in the device's seconds
}

// Rail integrates one rail. Joules keep their sign: a rail that feeds back counts down.
type Rail struct {
	sampling Sampling
	period   float64
	perPoint uint64
	scale    Scale
	limits   Range
	emit     func(Point)

	// The point under way.
	n           int64
	sums        sums
	trapezoids  float64 // W, sum of the means of neighbours
	next        uint64
	previous    float64 // watts of the sample before
	hasPrevious bool
	began       bool // a sample was measured, of whatever stream
	partly      bool
}

// NewRail returns a rail whose device makes rateHz samples a second; emit gets a Point for each
// perPoint samples, on indices that are multiples of perPoint, and for what a gap leaves
// unfinished. Samples that reach limits are over range, or impossible.
func NewRail(sampling Sampling, rateHz float64, perPoint int, scale Scale, limits Range, emit func(Point)) *Rail {
	return &Rail{sampling: sampling, period: 1 / rateHz, perPoint: uint64(perPoint), scale: scale, limits: limits, emit: emit, sums: noSums}
}

// Gap takes a stretch of samples, from index first on, that were not measured: no numbers, over
// range, or impossible.
type Gap func(first uint64, n int64, kind Kind)

var noSums = sums{min: math.Inf(1), max: math.Inf(-1)}

// Add integrates samples of consecutive indices from first on. volts and amps are of the same
// length. An index beyond the last one's successor is a gap: nothing is put in its place. So is a
// sample that is no number, over range or impossible; gap, which may be nil, is called for each
// stretch of those, in their place between the points.
func (r *Rail) Add(first uint64, volts, amps []float32, gap Gap) {
	r.begin(first)
	amps = amps[:len(volts)]
	for len(volts) > 0 {
		room := int(min(uint64(len(volts)), r.perPoint-r.next%r.perPoint))
		r.stretch(volts[:room], amps[:room], gap)
		r.advance(uint64(room))
		volts, amps = volts[room:], amps[room:]
	}
}

// AddSums integrates a stretch of samples, all of them numbers, whose sums the caller has taken. It
// must not reach over an index that is a multiple of perPoint. A stretch with an impossible sample
// is one for gap: sums cannot be divided.
func (r *Rail) AddSums(first uint64, s *srframe.Stretch, gap Gap) error {
	if s.N <= 0 || first%r.perPoint+uint64(s.N) > r.perPoint {
		return fmt.Errorf("sums of %d samples from sample %d on, points are of %d", s.N, first, r.perPoint)
	}
	r.begin(first)
	if r.limits.exceeded(s.Min, s.Max) {
		r.hasPrevious = false
		gap(first, s.N, Impossible)
		r.advance(uint64(s.N))
		return nil
	}
	r.add(s.N, sums{s.Volts, s.Amps, s.Watts, s.Min, s.Max}, s.First, s.Last)
	r.advance(uint64(s.N))
	return nil
}

// begin sets where the samples to be added begin.
func (r *Rail) begin(first uint64) {
	if r.partly && first != r.next {
		r.Break()
	}
	r.next, r.partly = first, true
}

func (r *Rail) advance(n uint64) {
	r.next += n
	if r.next%r.perPoint == 0 {
		r.finish()
	}
}

// stretch adds samples that belong to the same point.
func (r *Rail) stretch(volts, amps []float32, gap Gap) {
	s := sum(volts, amps, &r.scale)
	if s.areOfNumbers() && !r.limits.reached(volts, amps) && !r.limits.exceeded(s.min, s.max) {
		r.addSamples(volts, amps, s)
		return
	}
	for k := 0; k < len(volts); {
		from, is := k, r.kind(volts[k], amps[k])
		for k < len(volts) && r.kind(volts[k], amps[k]) == is {
			k++
		}
		if is == measured {
			r.addSamples(volts[from:k], amps[from:k], sum(volts[from:k], amps[from:k], &r.scale))
			continue
		}
		r.hasPrevious = false
		if gap != nil {
			gap(r.next+uint64(from), int64(k-from), is)
		}
	}
}

// Kind is what a pair of readings is.
type Kind int

// The kinds.
const (
	measured Kind = iota
	Lost
	Over
	Impossible
)

func (r *Rail) kind(volts, amps float32) Kind {
	switch {
	case OverRange(volts, r.limits.Volts) || OverRange(amps, r.limits.Amps):
		return Over
	case !IsNumber(volts) || !IsNumber(amps):
		return Lost
	}
	if _, _, watts := r.scale.product(volts, amps); r.limits.exceeded(watts, watts) {
		return Impossible
	}
	return measured
}

// Previous is the power of the last sample that was measured; false before there is one.
func (r *Rail) Previous() (watts float64, ok bool) { return r.previous, r.began }

func (r *Rail) addSamples(volts, amps []float32, s sums) {
	last := len(volts) - 1
	_, _, first := r.scale.product(volts[0], amps[0])
	_, _, final := r.scale.product(volts[last], amps[last])
	r.add(int64(len(volts)), s, first, final)
}

// add takes over the sums of n samples that are all numbers; first and final are the watts of those
// at both ends.
func (r *Rail) add(n int64, s sums, first, final float64) {
	// The trapezoids between n neighbours are their sum less half of both ends.
	r.trapezoids += s.watts - first/2 - final/2
	if r.hasPrevious {
		r.trapezoids += (r.previous + first) / 2
	}
	r.previous, r.hasPrevious, r.began = final, true, true
	r.n += n
	r.sums.volts += s.volts
	r.sums.amps += s.amps
	r.sums.watts += s.watts
	r.sums.min = math.Min(r.sums.min, s.min)
	r.sums.max = math.Max(r.sums.max, s.max)
}

func (r *Rail) finish() {
	if r.n == 0 {
		return
	}
	n, s := float64(r.n), r.sums
	p := Point{End: r.next, Samples: r.n, Volts: s.volts / n, Amps: s.amps / n, Watts: s.watts / n, Min: s.min, Max: s.max}
	if r.sampling == WindowMean {
		p.Joules = s.watts * r.period
	} else {
		p.Joules = r.trapezoids * r.period
	}
	r.n, r.sums, r.trapezoids = 0, noSums, 0
	r.emit(p)
}

// Break ends the point under way where the samples end: a gap follows, or another stream whose
// indices restart.
func (r *Rail) Break() {
	r.finish()
	r.hasPrevious, r.partly = false, false
}
