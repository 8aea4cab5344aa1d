// SPDX-License-Identifier: GPL-3.0-or-later

package main

import "math"

const (
	// What the rail drew at the last so many points is compared with what it drew where samples
	// were lost.
	followerPoints = 64
	// So many gaps are judged together, from so many on.
	leastGaps, mostGaps = 10, 64
	// How likely it is that losses which do not follow the load are taken for ones that do.
	followsByChance = 0.005
)

// follower judges whether losses follow the load: whether the power next to gaps differs from the
// power at other times. Each gap is compared with the sample at the end of a point before it, in
// turn a nearer and a further one. Where losses have nothing to do with the load, either is as
// likely to be the greater, however the power is distributed (the sign test).
type follower struct {
	points       [followerPoints]float64
	n            uint64 // points so far
	gaps         uint64
	above, below int
	losses       bool // follow the load
}

// point takes the power of the last sample of a point.
func (f *follower) point(watts float64) {
	f.points[f.n%followerPoints] = watts
	f.n++
}

// gap takes the power of the sample before a gap.
func (f *follower) gap(watts float64) {
	if f.n < followerPoints {
		return
	}
	f.gaps++
	// 37 and 64 have no common factor: it goes through all of the points.
	switch other := f.points[f.gaps*37%followerPoints]; {
	case watts > other:
		f.above++
	case watts < other:
		f.below++
	}
	if n := f.above + f.below; n >= leastGaps {
		f.losses = signTest(f.above, f.below) < followsByChance
		if n >= mostGaps {
			f.above, f.below = 0, 0
		}
	}
}

// signTest is how likely signs are so unequal where both are equally likely, two-sided.
func signTest(above, below int) float64 {
	n := above + below
	sum, term := 0.0, math.Exp2(-float64(n))
	for k := 0; k <= min(above, below); k++ {
		sum += term
		term *= float64(n-k) / float64(k+1)
	}
	return math.Min(1, 2*sum)
}
