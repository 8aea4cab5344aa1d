// SPDX-License-Identifier: GPL-3.0-or-later

package energy

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTheFastSumIsTheSampleBySampleSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	scale := Scale{1.0007, -0.003, 0.9991, 0.0002}
	for range 300 {
		n := random.IntN(3000)
		shift := random.IntN(4) // samples lie as they come, not on vectors' boundaries
		volts, amps := make([]float32, n+shift)[shift:], make([]float32, n+shift)[shift:]
		for k := range volts {
			volts[k], amps[k] = 12+random.Float32(), 4*random.Float32()-1
		}
		fast, plain := sum(volts, amps, &scale), sumPlain(volts, amps, &scale)
		for _, pair := range [][2]float64{{fast.volts, plain.volts}, {fast.amps, plain.amps}, {fast.watts, plain.watts}} {
			if math.Abs(pair[0]-pair[1]) > 1e-12*float64(n)*13*4 {
				t.Fatalf("%d samples: %+v, want %+v", n, fast, plain)
			}
		}
		// A processor that multiplies and adds in one step rounds once less.
		if n > 0 && (math.Abs(fast.min-plain.min) > 1e-13*50 || math.Abs(fast.max-plain.max) > 1e-13*50) {
			t.Fatalf("%d samples: extremes %+v, want %+v", n, fast, plain)
		}
		if n > 0 {
			at := random.IntN(n)
			amps[at] = float32(math.NaN())
			if s := sum(volts, amps, &scale); !math.IsNaN(s.watts) {
				t.Fatalf("no number at %d of %d is not seen: %+v", at, n, s)
			}
		}
	}
}

func TestFullScaleIsReachedWhereverItIs(t *testing.T) {
	const limit = 10
	for n := range 150 {
		samples := make([]float32, n)
		for at := range samples {
			samples[at] = 9.999 * float32(1-2*(at%2))
		}
		if reaches(samples, limit) || reachesPlain(samples, limit) {
			t.Fatalf("%d samples below the limit reach it", n)
		}
		for at, below := range samples {
			for _, full := range []float32{limit, -limit, float32(math.Inf(-1))} {
				samples[at] = full
				if !reaches(samples, limit) || !reachesPlain(samples, limit) {
					t.Fatalf("%g at %d of %d is not seen", full, at, n)
				}
			}
			samples[at] = below
		}
	}
}

func BenchmarkSum(b *testing.B) {
	volts, amps := make([]float32, 10000), make([]float32, 10000)
	for k := range volts {
		volts[k], amps[k] = 12, float32(k%97)*0.01
	}
	b.SetBytes(80000)
	for b.Loop() {
		sum(volts, amps, &NoScale)
	}
}
