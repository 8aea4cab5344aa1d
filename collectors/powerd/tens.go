// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math"

	"joulerig/collectors/internal/energy"
)

// tensNS is the time of which power_10s has one point for each rail: a view of months would else
// read a hundred points a second.
const tensNS = 10_000_000_000

// tens adds up the points of a rail whose times lie in the same ten seconds, counted from 1970.
type tens struct {
	key             []byte
	number          int64 // which ten seconds
	endUTC          int64 // of the last point; 0: there is none
	joules, seconds float64
	least, most     float64
}

func (t *tens) add(p *energy.Point, utc, elapsedNS int64) {
	if t.endUTC == 0 {
		t.number, t.least, t.most = utc/tensNS, p.Min, p.Max
	}
	seconds := float64(elapsedNS) / 1e9
	t.joules += p.Watts * seconds
	t.seconds += seconds
	t.least, t.most = math.Min(t.least, p.Min), math.Max(t.most, p.Max)
	t.endUTC = utc
}

func (t *tens) isOver(utc int64) bool { return t.endUTC != 0 && utc/tensNS != t.number }

// writeTens writes what a rail's ten seconds came to so far, if to anything. It has the time of its
// last point, so that two streams within the ten seconds have a point each.
func (m *Meter) writeTens(r *rail, gapSeconds float64) {
	t := &r.tens
	if t.endUTC == 0 {
		return
	}
	m.lines.BeginKey(t.key)
	m.lines.Float("measured_joules", t.joules)
	m.lines.Float("measured_seconds", t.seconds)
	m.lines.Float("watts_min", t.least)
	m.lines.Float("watts_max", t.most)
	m.lines.Float("gap_seconds", gapSeconds)
	m.lines.End(t.endUTC)
	r.tens = tens{key: t.key}
}
