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

// sums of a stretch of samples. The extremes are those of the products.
type sums struct{ volts, amps, watts, min, max float64 }

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
