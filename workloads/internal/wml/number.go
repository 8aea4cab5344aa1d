// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import "math/rand/v2"

// Number is a number of a workload: constant, or drawn each time.
type Number struct {
	fixed float64
	drawn Distribution
}

// Distribution is what a random variable is drawn from.
type Distribution interface {
	Draw(*rand.Rand) float64
	Mean() float64
	CDF(x float64) float64 // probability of a draw of at most x
}

// Fixed is the number that is always v.
func Fixed(v float64) Number { return Number{fixed: v} }

// Drawn is a number drawn from d.
func Drawn(d Distribution) Number { return Number{drawn: d} }

// IsFixed reports whether the number is constant.
func (n Number) IsFixed() bool { return n.drawn == nil }

// Distribution is what the number is drawn from; nil where IsFixed.
func (n Number) Distribution() Distribution { return n.drawn }

// Mean is the number, or the mean of its distribution.
func (n Number) Mean() float64 {
	if n.drawn == nil {
		return n.fixed
	}
	return n.drawn.Mean()
}

// Int draws a whole number of at least 0; r may be nil where IsFixed.
func (n Number) Int(r *rand.Rand) int64 { return int64(n.Float(r)) }

// Float draws a number of at least 0; r may be nil where IsFixed.
func (n Number) Float(r *rand.Rand) float64 {
	if n.drawn == nil {
		return n.fixed
	}
	return max(0, n.drawn.Draw(r))
}
