// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// shaped is a distribution with what a file may say besides: draws are rounded to the nearest
// multiple of round, then kept within low and high. Mean and CDF are those before that.
type shaped struct {
	Distribution
	round, low, high float64
}

func (s shaped) Draw(r *rand.Rand) float64 {
	v := s.Distribution.Draw(r)
	if s.round > 0 {
		v = math.Round(v/s.round) * s.round
	}
	return min(max(v, s.low), s.high)
}

// gamma is Filebench's: shape and scale (mean / shape), from low on.
type gamma struct {
	distuv.Gamma
	low float64
}

// Gamma is the distribution of that shape and mean; both above 0.
func Gamma(shape, mean float64) Distribution { return gammaFrom(shape, mean, 0) }

func gammaFrom(shape, mean, low float64) gamma {
	return gamma{distuv.Gamma{Alpha: shape, Beta: shape / (mean - low)}, low}
}

func (g gamma) Draw(r *rand.Rand) float64 {
	g.Src = r
	return g.low + g.Rand()
}

func (g gamma) Mean() float64         { return g.low + g.Gamma.Mean() }
func (g gamma) CDF(x float64) float64 { return g.Gamma.CDF(x - g.low) }

// inverted draws by the inverse of the CDF, for those where it is cheap.
type inverted struct {
	quantiled
}

type quantiled interface {
	Quantile(p float64) float64
	Mean() float64
	CDF(x float64) float64
}

func (i inverted) Draw(r *rand.Rand) float64 { return i.Quantile(r.Float64()) }

// tabular draws a row by its percent, then evenly between its ends.
type tabular struct {
	rows []row
}

type row struct {
	upTo     float64 // percent of draws that are of this row or of one before
	from, to float64
}

func (t tabular) Draw(r *rand.Rand) float64 {
	percent := 100 * r.Float64()
	at := slices.IndexFunc(t.rows, func(w row) bool { return percent < w.upTo })
	w := t.rows[at]
	return w.from + (w.to-w.from)*r.Float64()
}

func (t tabular) Mean() float64 {
	return t.sum(func(w row) float64 { return (w.from + w.to) / 2 })
}

func (t tabular) CDF(x float64) float64 {
	return t.sum(func(w row) float64 {
		if x >= w.to {
			return 1
		}
		return max(0, (x-w.from)/(w.to-w.from))
	})
}

// sum adds up what f gives of the rows, weighted by their share.
func (t tabular) sum(f func(row) float64) float64 {
	total, before := 0.0, 0.0
	for _, w := range t.rows {
		if w.upTo > before {
			total += f(w) * (w.upTo - before) / 100
		}
		before = w.upTo
	}
	return total
}
