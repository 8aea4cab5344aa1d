// SPDX-License-Identifier: GPL-3.0-or-later

// Package ledger keeps account of a rail's samples: what should have come, by the controller's clock, against what came.
//
//	expected = samples + lost - repeated
//
// The left side is independent of the right: expected is the time since the first sample times the declared rate. The two differ
// by the device's clock error (Drift limits in package clockfit), by what is under way, and by nothing else.
package ledger

import "math"

// Ledger is the account of one rail. All counts are since the first sample.
type Ledger struct {
	Samples    int64   // integrated
	Lost       int64   // should have come and did not
	Repeated   int64   // of Samples, those too many for the time that passed
	GapSeconds float64 // the time that Lost stands for

	rate     float64
	started  bool
	first    int64 // monotonic ns of the first sample's beginning
	expected int64
}

// New returns an empty ledger of a device that declares rateHz.
func New(rateHz float64) *Ledger { return &Ledger{rate: rateHz} }

// Start says when a stream's first sample began; endNS is when the stream before ended, if there was one: the time between is a
// gap. It returns the gap's length in seconds.
func (l *Ledger) Start(beginNS, endNS int64) float64 {
	if !l.started {
		l.started, l.first = true, beginNS
		return 0
	}
	// The two ends come from two fits; where they overlap by their errors there is no gap.
	gap := math.Max(0, float64(beginNS-endNS)/1e9)
	l.Lost += int64(math.Round(gap * l.rate))
	l.GapSeconds += gap
	return gap
}

// Missing books n samples that are missing from a stream; negative: n too many.
func (l *Ledger) Missing(n int64) {
	if n < 0 {
		l.Repeated -= n
		return
	}
	l.Lost += n
	l.GapSeconds += float64(n) / l.rate
}

// Expected is how many samples there should have been by the monotonic time ns. It never falls.
func (l *Ledger) Expected(ns int64) int64 {
	if l.started {
		l.expected = max(l.expected, int64(math.Round(float64(ns-l.first)/1e9*l.rate)))
	}
	return l.expected
}

// Started says whether there has been a sample.
func (l *Ledger) Started() bool { return l.started }
