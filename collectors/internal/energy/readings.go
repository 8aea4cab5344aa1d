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

const (
	// Readings of two instruments come by separate ways, of which one may be seconds behind. More
	// than so many that wait have no partner.
	mostWaiting = 1 << 14
	// Neighbouring volts may be no further apart, ns.
	mostVoltsApart = 2e9
)

// Joint makes power of the amps of one instrument and the volts of another: the volts are taken at
// the instant of the amps, on the line between their neighbours, whichever come first.
type Joint struct {
	emit        func(Reading)
	volts, amps series
}

// series are readings that wait, and the last one, which may wait no longer.
type series struct {
	waiting []instant
	last    instant
}

func (s *series) put(ns int64, value float64) {
	s.last = instant{ns, value, true, s.last.has && s.last.value == value}
	s.waiting = append(s.waiting, s.last)
	s.waiting = s.waiting[max(0, len(s.waiting)-mostWaiting):]
}

// drop lets go of the first n.
func (s *series) drop(n int) { s.waiting = append(s.waiting[:0], s.waiting[n:]...) }

// NewJoint returns a joint that gives each amps reading with volts on both sides to emit.
func NewJoint(emit func(Reading)) *Joint { return &Joint{emit: emit} }

// Volts takes a reading of the volts.
func (j *Joint) Volts(ns int64, value float64) {
	if j.volts.last.has && ns <= j.volts.last.ns {
		return
	}
	j.volts.put(ns, value)
	j.drain()
}

// Amps takes a reading of the amps.
func (j *Joint) Amps(ns int64, value float64) {
	j.amps.put(ns, value)
	j.drain()
}

// Break forgets what waits: a gap follows.
func (j *Joint) Break() { j.volts, j.amps = series{}, series{} }

// drain gives out the amps whose volts are known by now. Those that no volts were before, or whose
// neighbours are too far apart, are lost.
func (j *Joint) drain() {
	volts := j.volts.waiting
	done, at := 0, 0
	for ; done < len(j.amps.waiting); done++ {
		a := j.amps.waiting[done]
		for at < len(volts) && volts[at].ns < a.ns {
			at++
		}
		if at == len(volts) {
			break
		}
		after := volts[at]
		if at == 0 && after.ns > a.ns {
			continue
		}
		before := volts[max(0, at-1)]
		if after.ns-before.ns > mostVoltsApart {
			continue
		}
		between := after.value
		if after.ns > a.ns {
			between = before.value + (after.value-before.value)*float64(a.ns-before.ns)/float64(after.ns-before.ns)
		}
		j.emit(Reading{a.ns, between, a.value, between * a.value, a.again && after.again})
	}
	j.amps.drop(done)
	// Amps that come later may lie between the last two volts before these.
	j.volts.drop(max(0, at-1))
}

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
