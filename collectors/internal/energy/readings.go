// SPDX-License-Identifier: GPL-3.0-or-later

package energy

// Reading is the power of a rail at an instant, with how it came about.
type Reading struct {
	NS                 int64 // monotonic
	Volts, Amps, Watts float64
	Again              bool // all that it is made of had the same values before
}

// Pairs makes power of volts and amps that an instrument gives one after the other, at different
// instants: the volts are taken at the instant of the amps, on the line between their neighbours.
// It holds an amps reading back until the volts after it are there.
type Pairs struct {
	limitNS     int64
	emit        func(Reading)
	volts, amps instant
	waiting     bool
}

type instant struct {
	ns    int64
	value float64
	has   bool
	again bool
}

// NewPairs returns pairs of which no two neighbouring volts may be further apart than limitNS.
func NewPairs(limitNS int64, emit func(Reading)) *Pairs {
	return &Pairs{limitNS: limitNS, emit: emit}
}

// Volts takes a reading of the volts.
func (p *Pairs) Volts(ns int64, value float64) {
	before := p.volts
	p.volts = instant{ns, value, true, before.has && before.value == value}
	if !p.waiting || !before.has {
		return
	}
	p.waiting = false
	if ns-before.ns > p.limitNS || p.amps.ns < before.ns {
		return
	}
	at := value
	if ns > before.ns {
		at = before.value + (value-before.value)*float64(p.amps.ns-before.ns)/float64(ns-before.ns)
	}
	p.emit(Reading{p.amps.ns, at, p.amps.value, at * p.amps.value, p.amps.again && before.again})
}

// Amps takes a reading of the amps.
func (p *Pairs) Amps(ns int64, value float64) {
	p.amps = instant{ns, value, true, p.amps.has && p.amps.value == value}
	p.waiting = p.volts.has
}

// Skip takes an amps reading that is of no use; the one before it has no volts after it by now.
func (p *Pairs) Skip() { p.waiting = false }

// Break forgets what waits: a gap follows.
func (p *Pairs) Break() { *p = Pairs{limitNS: p.limitNS, emit: p.emit} }

// Span is the energy from one reading to the next.
type Span struct {
	Seconds float64
	Joules  float64 // the trapezoid
}

// Between is the energy between two readings that are neighbours.
func Between(a, b Reading) Span {
	s := float64(b.NS-a.NS) / 1e9
	return Span{s, (a.Watts + b.Watts) / 2 * s}
}

// JoulesPerWattHour is exact.
const JoulesPerWattHour = 3600
