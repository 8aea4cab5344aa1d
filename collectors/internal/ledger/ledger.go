// SPDX-License-Identifier: GPL-3.0-or-later

// Package ledger keeps account of a rail's samples. Every slot of the device's clock, from the
// first sample on, is in one of six books, so that at any time
//
//	expected = samples + lost + duplicate + repeated + over_range + impossible
//
// to the last sample. Where a slot belongs is not taken from what was received: the controller's
// clock decides how many slots have passed (package clockfit), and what did not come in them is
// lost. Surplus is what came beyond the time that passed; it fills no slot, and is thrown away.
package ledger

import "math"

// Ledger is the account of one rail. All counts are since the first sample.
type Ledger struct {
	Samples         int64   `json:"samples"`           // distinct, and in the joules
	Lost            int64   `json:"lost"`              // should have come and did not
	Duplicate       int64   `json:"duplicate"`         // filled by a block that had come before: not in the joules
	Repeated        int64   `json:"repeated"`          // read again before the instrument had taken a new measurement
	OverRange       int64   `json:"over_range"`        // beyond what the instrument can measure: not in the joules
	Impossible      int64   `json:"impossible"`        // far more than the supply delivers: not in the joules
	Surplus         int64   `json:"surplus"`           // too many for the time that passed: in no slot, not in the joules
	GapSeconds      float64 `json:"gap_seconds"`       // the time of which nothing is known
	WorstGapSeconds float64 `json:"worst_gap_seconds"` // the longest single one
}

// Missing books n slots of `period` seconds in which nothing came, one after the other, and returns
// their length in seconds.
func (l *Ledger) Missing(n int64, period float64) float64 {
	l.Lost += n
	return l.gap(float64(n) * period)
}

// Gap books a stretch of time without samples, and returns its length: 0 where the two ends, which
// come from two clock fits, overlap by their errors.
func (l *Ledger) Gap(seconds, period float64) float64 {
	seconds = math.Max(0, seconds)
	l.Lost += int64(math.Round(seconds / period))
	return l.gap(seconds)
}

// Between books a stretch of time between two readings, and the slots of it in which nothing came,
// the instrument was over range, or what it read was impossible.
func (l *Ledger) Between(seconds float64, lost, over, impossible int64) {
	l.Lost += lost
	l.OverRange += over
	l.Impossible += impossible
	l.gap(seconds)
}

// Again books n slots that a block filled which had come before.
func (l *Ledger) Again(n int64, period float64) float64 {
	l.Duplicate += n
	return l.gap(float64(n) * period)
}

// Over books n slots in which the instrument was over range.
func (l *Ledger) Over(n int64, period float64) float64 {
	l.OverRange += n
	return l.gap(float64(n) * period)
}

// Unbelieved books n slots of which the instrument read what cannot be.
func (l *Ledger) Unbelieved(n int64, period float64) float64 {
	l.Impossible += n
	return l.gap(float64(n) * period)
}

func (l *Ledger) gap(seconds float64) float64 {
	l.GapSeconds += seconds
	l.WorstGapSeconds = math.Max(l.WorstGapSeconds, seconds)
	return seconds
}

// Expected is the number of slots that have passed.
func (l *Ledger) Expected() int64 {
	return l.Samples + l.Lost + l.Duplicate + l.Repeated + l.OverRange + l.Impossible
}
