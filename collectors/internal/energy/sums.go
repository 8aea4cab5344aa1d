// SPDX-License-Identifier: GPL-3.0-or-later

package energy

import "math"

// Scale corrects readings by their channels' calibration: corrected = gain x reading + offset, in
// SI units.
type Scale struct {
	VoltsGain, VoltsOffset, AmpsGain, AmpsOffset float64
}

// NoScale leaves readings unchanged.
var NoScale = Scale{VoltsGain: 1, AmpsGain: 1}

func (s *Scale) product(volts, amps float32) (v, a, w float64) {
	v = s.VoltsGain*float64(volts) + s.VoltsOffset
	a = s.AmpsGain*float64(amps) + s.AmpsOffset
	return v, a, v * a
}

// Range holds the magnitudes of a rail's readings, before calibration, from which on they are over
// range (infinite where that is not known), and the power beyond which a sample is impossible (0
// where that is not known).
type Range struct {
	Volts, Amps float32
	Watts       float64
}

// NoRange is that of an instrument whose range is not known: it reports infinities, or nothing.
var NoRange = Range{float32(math.Inf(1)), float32(math.Inf(1)), 0}

const (
	// No reading and no sum of readings comes near it; what an instrument says in place of a number
	// does.
	noReading = 1e30
	// What SCPI has for no number (SCPI-99, volume 1, 7.2.1.5); its infinities are 9.9E37.
	scpiNoNumber = 9.91e37
	scpiStep     = 0.005e37
)

// OverRange says whether a reading, before calibration, is beyond what its instrument measures
// there: at `limit` or more, or what an instrument says for infinite.
func OverRange(reading, limit float32) bool {
	magnitude := math.Abs(float64(reading))
	return magnitude >= math.Min(float64(limit), noReading) && !noNumber(reading)
}

// noNumber says whether a reading is what an instrument says for none.
func noNumber(reading float32) bool {
	return reading != reading || math.Abs(math.Abs(float64(reading))-scpiNoNumber) < scpiStep
}

// IsNumber says whether a reading is one that an instrument made.
func IsNumber(reading float32) bool { return math.Abs(float64(reading)) < noReading }

// reached says whether a sample of the stretch is over range.
func (r *Range) reached(volts, amps []float32) bool {
	return reaches(volts, r.Volts) || reaches(amps, r.Amps)
}

// exceeded says whether a sample of the stretch, or one of a stretch with such extremes, is
// impossible.
func (r *Range) exceeded(least, most float64) bool {
	return r.Watts > 0 && math.Max(most, -least) > r.Watts
}

func reachesPlain(samples []float32, limit float32) bool {
	for _, x := range samples {
		if x >= limit || -x >= limit {
			return true
		}
	}
	return false
}

// sums of a stretch of samples. The extremes are those of the products.
type sums struct{ volts, amps, watts, min, max float64 }

// areOfNumbers says whether all samples in the sums were numbers.
func (s *sums) areOfNumbers() bool {
	return math.Abs(s.volts) < noReading && math.Abs(s.amps) < noReading && s.watts-s.watts == 0
}

// sumPlain is what sum does, sample by sample: for stretches that are short, for builds without C,
// and the reference of the tests.
func sumPlain(volts, amps []float32, scale *Scale) sums {
	s := sums{min: math.Inf(1), max: math.Inf(-1)}
	amps = amps[:len(volts)]
	for k, fv := range volts {
		v, a, w := scale.product(fv, amps[k])
		s.volts += v
		s.amps += a
		s.watts += w
		if w < s.min {
			s.min = w
		}
		if w > s.max {
			s.max = w
		}
	}
	return s
}
