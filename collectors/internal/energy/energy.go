// SPDX-License-Identifier: GPL-3.0-or-later

// Package energy integrates the volts and amps of a rail on the device's own time: its sample indices.
//
// Power is the product of volts and amps of the same sample, never of means over many: mean(V) x mean(I) differs from mean(V x I)
// by the covariance of both, which for a supply with source resistance R is R var(I). That bias remains within one sample of an
// instrument that averages over its conversion window; keep windows short.
package energy

import (
	"fmt"
	"math"
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
	Joules  float64 // of the rail up to End, since New
	Total   int64   // samples since New
}

// Rail integrates one rail. Joules keep their sign: a rail that feeds back counts down.
type Rail struct {
	sampling Sampling
	period   float64
	perPoint uint64
	emit     func(Point)

	joules float64
	total  int64

	// The point under way.
	n                   int64
	volts, amps, watts  float64
	min, max            float64
	trapezoids          float64 // W, sum of the means of neighbours
	next                uint64
	previous            float64 // watts of the sample before
	hasPrevious, partly bool
}

// NewRail returns a rail whose device makes rateHz samples a second; emit gets a Point for each perPoint samples, on indices that
// are multiples of perPoint, and for what a gap leaves unfinished.
func NewRail(sampling Sampling, rateHz float64, perPoint int, emit func(Point)) *Rail {
	return &Rail{sampling: sampling, period: 1 / rateHz, perPoint: uint64(perPoint), emit: emit}
}

// Add integrates samples of consecutive indices from first on. volts and amps are of the same length. An index beyond the last
// one's successor is a gap: nothing is put in its place. It returns how many samples were no numbers; those are gaps too.
func (r *Rail) Add(first uint64, volts, amps []float32) (unusable int64) {
	if r.partly && first != r.next {
		r.Break()
	}
	r.next, r.partly = first, true
	amps = amps[:len(volts)]
	for len(volts) > 0 {
		room := int(min(uint64(len(volts)), r.perPoint-r.next%r.perPoint))
		unusable += r.stretch(volts[:room], amps[:room])
		r.next += uint64(room)
		if r.next%r.perPoint == 0 {
			r.finish()
		}
		volts, amps = volts[room:], amps[room:]
	}
	return unusable
}

// stretch adds samples that belong to the same point.
func (r *Rail) stretch(volts, amps []float32) (unusable int64) {
	if r.n == 0 {
		r.min, r.max = math.Inf(1), math.Inf(-1)
	}
	var sv, si, sp, st float64
	lo, hi := r.min, r.max
	previous, has := r.previous, r.hasPrevious
	for k, fv := range volts {
		v, i := float64(fv), float64(amps[k])
		p := v * i
		if p-p != 0 { // NaN or infinite
			unusable++
			has = false
			continue
		}
		sv += v
		si += i
		sp += p
		if p < lo {
			lo = p
		}
		if p > hi {
			hi = p
		}
		if has {
			st += (previous + p) / 2
		}
		previous, has = p, true
	}
	r.volts += sv
	r.amps += si
	r.watts += sp
	r.trapezoids += st
	r.min, r.max = lo, hi
	r.n += int64(len(volts)) - unusable
	r.previous, r.hasPrevious = previous, has
	return unusable
}

func (r *Rail) finish() {
	if r.n == 0 {
		return
	}
	if r.sampling == WindowMean {
		r.joules += r.watts * r.period
	} else {
		r.joules += r.trapezoids * r.period
	}
	r.total += r.n
	n := float64(r.n)
	p := Point{End: r.next, Samples: r.n, Volts: r.volts / n, Amps: r.amps / n, Watts: r.watts / n, Min: r.min, Max: r.max,
		Joules: r.joules, Total: r.total}
	r.n, r.volts, r.amps, r.watts, r.trapezoids = 0, 0, 0, 0, 0
	r.emit(p)
}

// Break ends the point under way where the samples end: a gap follows, or another stream whose indices start anew.
func (r *Rail) Break() {
	r.finish()
	r.hasPrevious, r.partly = false, false
}

// Joules of all finished points.
func (r *Rail) Joules() float64 { return r.joules }

// Total is the number of samples of all finished points.
func (r *Rail) Total() int64 { return r.total }
