// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"math"

	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/srframe"
)

const (
	// A pause between readings is a gap when it is longer than so many of the declared intervals.
	gapIntervals = 3
	// How much the newest interval counts in the mean.
	intervalWeight = 0.05
)

// polled is for instruments that are asked for each reading: it has the time at which it arrived,
// and volts and amps are read one after the other. What the rail did between two readings is
// unknown, and their own values do not bound it: a burst may lie between them. joules_low and
// joules_high take 0 and what the rail's supply delivers, where that is declared.
type polled struct {
	m       *Meter
	limitNS int64
	pointNS int64
	rails   []*polledRail
	any     bool // readings in this stream
}

type polledRail struct {
	*rail
	owner       *polled
	pairs       *energy.Pairs
	joint       *energy.Joint // in place of pairs: with the volts of another meter
	has         bool          // a reading in this stream
	over        int64         // readings over range since the one before
	impossible  int64         // readings since the one before that are not believed
	before      energy.Reading
	registerNow float64 // J, of a watt-hour register
	hasRegister bool
	changedNS   int64    // since when the register has had its reading, as far as was seen
	doubted     *doubted // a reading of the register that the next one has to confirm
	interval    float64  // s, mean between readings

	// The point under way.
	n           int64
	since       int64
	volts, amps float64
	joules      float64
	least, most float64
}

func newPolled(m *Meter, pointsPerSecond float64) *polled {
	p := &polled{m: m, limitNS: int64(gapIntervals / m.config.SampleRateHz * 1e9), pointNS: int64(1e9 / pointsPerSecond)}
	for _, base := range m.rails {
		r := &polledRail{rail: base, owner: p, interval: 1 / m.config.SampleRateHz}
		r.pairs = energy.NewPairs(p.limitNS, r.reading)
		if base.config.VoltsMeter != "" {
			r.joint = energy.NewJoint(r.reading)
		}
		p.rails = append(p.rails, r)
	}
	return p
}

func (p *polled) period() float64 { return 1 / p.m.config.SampleRateHz }

func (p *polled) arguments() []string { return nil }

func (p *polled) sums(*srframe.Frame) error { return errors.New("sums of a meter that is polled") }

func (p *polled) begin() {
	p.any = false
	for _, r := range p.rails {
		r.pairs.Break()
		if r.joint != nil {
			r.joint.Break()
		}
		r.has, r.doubted = false, nil
		r.clearPoint(0)
	}
}

func (p *polled) analog(f *srframe.Frame) error {
	name := p.m.config.channels[f.Channel].name
	gain, offset := p.m.config.calibrated(name)
	limit := p.m.config.fullScale(name)
	for _, sample := range f.Samples() {
		over := energy.OverRange(sample, limit)
		if !over && !energy.IsNumber(sample) {
			continue // as good as no reading
		}
		value := gain*float64(sample) + offset
		p.any = true
		p.m.seen()
		for _, r := range p.rails {
			if over {
				r.overRange(name)
				continue
			}
			switch name {
			case r.config.ownVolts():
				r.pairs.Volts(f.MonotonicNS, value)
			case r.config.Amps:
				r.amperes(f.MonotonicNS, value)
			case r.config.Watts:
				r.reading(energy.Reading{NS: f.MonotonicNS, Watts: value, Again: r.has && r.before.Watts == value})
			case r.config.WattHours:
				r.register(f.MonotonicNS, value*energy.JoulesPerWattHour)
			}
		}
	}
	p.m.hand(f.MonotonicNS, false)
	return nil
}

// register takes the readings of an energy register, in watt hours of double precision.
func (p *polled) register(f *srframe.Frame) error {
	name := p.m.config.channels[f.Channel].name
	for _, value := range f.Registers() {
		p.any = true
		p.m.seen()
		for _, r := range p.rails {
			if r.config.WattHours == name {
				r.register(f.MonotonicNS, value*energy.JoulesPerWattHour)
			}
		}
	}
	p.m.hand(f.MonotonicNS, false)
	return nil
}

// amperes takes a reading of the amps, whose volts are the meter's own, another's, or stated.
func (r *polledRail) amperes(ns int64, value float64) {
	switch stated := r.config.ConstantVolts; {
	case stated > 0:
		again := r.has && r.before.Amps == value
		r.reading(energy.Reading{NS: ns, Volts: stated, Amps: value, Watts: stated * value, Again: again})
	case r.joint != nil:
		r.joint.Amps(ns, value)
	default:
		r.pairs.Amps(ns, value)
	}
}

// borrowed takes another meter's volts.
func (r *polledRail) borrowed(ns int64, value float64, usable bool) {
	if usable {
		r.joint.Volts(ns, value)
		return
	}
	r.joint.Break()
	r.over++
}

// overRange takes a reading that says no more than that the instrument was over range. A register
// that is goes on counting, and the next reading has all of it.
func (r *polledRail) overRange(channel string) {
	switch channel {
	case r.config.ownVolts():
		r.pairs.Break()
	case r.config.Amps:
		r.pairs.Skip()
	case r.config.Watts:
	default:
		return
	}
	r.over++
}

// reading takes the power of an instant.
func (r *polledRail) reading(now energy.Reading) {
	if most := r.config.impossibleWatts(); most > 0 && math.Abs(now.Watts) > most {
		r.impossible++
		return
	}
	if !r.has {
		r.start(now)
		return
	}
	span := energy.Between(r.before, now)
	if r.over+r.impossible > 0 || now.NS-r.before.NS > r.owner.limitNS {
		r.counters.observe(now.Watts, now.Watts)
		r.gap(now, span.Seconds)
		return
	}
	// Readings that did not come are lost, though the time between their neighbours is measured by
	// those.
	r.counters.Lost += r.slots(span.Seconds) - 1
	r.count(now)
	r.counters.Joules += span.Joules
	r.counters.addStated(&r.config, span.Joules)
	r.counters.between(span, math.Min(r.before.Watts, now.Watts), math.Max(r.before.Watts, now.Watts), r.config.GreatestWatts)
	r.add(now, span)
}

// register takes a reading of an energy counter: what passed between two of them is known however
// far they are apart.
func (r *polledRail) register(ns int64, joules float64) {
	if !r.isRise(ns, joules) {
		return
	}
	before, had := r.registerNow, r.hasRegister
	r.registerNow, r.hasRegister = joules, true
	now := energy.Reading{NS: ns, Again: had && joules == before}
	if joules != before || !r.has {
		r.changedNS = ns
	}
	if !r.has {
		if had && joules >= before {
			// The instrument went on counting between readings.
			r.counters.Joules += joules - before
			r.endNS, r.endUTC = 0, 0
		}
		r.start(now)
		return
	}
	seconds := float64(ns-r.before.NS) / 1e9
	r.counters.Lost += max(0, r.slots(seconds)-1-r.impossible)
	r.counters.Impossible += r.impossible // the register has what passed meanwhile
	r.impossible = 0
	r.count(now)
	r.counters.Joules += joules - before
	if seconds > 0 {
		now.Watts = (joules - before) / seconds
	}
	r.add(now, energy.Span{Seconds: seconds, Joules: joules - before})
}

// doubted is a reading of a register that fell, or rose by more than watts allow.
type doubted struct {
	ns     int64
	joules float64
}

// isRise says whether a register's reading is one that can follow the one before. One that cannot
// waits for the next: where that goes on from it, the register was reset, and the time is a gap;
// else it was no reading of the register at all.
func (r *polledRail) isRise(ns int64, joules float64) bool {
	if !r.hasRegister || !r.has {
		return true
	}
	if r.canFollow(r.registerNow, joules, ns, r.changedNS) {
		if r.doubted != nil {
			r.owner.m.logf("rail %s: its energy register read %g J between %g and %g J", r.config.Rail, r.doubted.joules, r.registerNow, joules)
			r.doubted = nil
		}
		return true
	}
	before := r.doubted
	if before == nil || !r.canFollow(before.joules, joules, ns, before.ns) {
		r.doubted = &doubted{ns, joules}
		r.impossible++
		return false
	}
	r.owner.m.logf("rail %s: its energy register went from %g to %g J; it was reset", r.config.Rail, r.registerNow, before.joules)
	r.finish(r.before.NS)
	seconds := float64(before.ns-r.before.NS) / 1e9
	r.unmeasured(seconds, r.slots(seconds))
	r.owner.m.origin(r.rail, &r.counters, before.ns)
	r.before = energy.Reading{NS: before.ns}
	r.clearPoint(before.ns)
	r.registerNow, r.changedNS, r.doubted = before.joules, before.ns, nil
	return true
}

// canFollow says whether a register that has been at `from` since sinceNS can be at `to`.
func (r *polledRail) canFollow(from, to float64, ns, sinceNS int64) bool {
	most := r.config.impossibleWatts()
	return to >= from && (most == 0 || to-from <= most*float64(ns-sinceNS)/1e9)
}

// gap counts the time since the reading before, of which nothing is known; `now` fills the last of
// its slots.
func (r *polledRail) gap(now energy.Reading, seconds float64) {
	r.finish(r.before.NS)
	r.unmeasured(seconds, r.slots(seconds)-1)
	r.count(now)
	r.owner.m.origin(r.rail, &r.counters, now.NS)
	r.before = now
	r.clearPoint(now.NS)
}

// unmeasured books a time without a measurement, in which there should be as many readings as
// `slots`. Where readings came that were over range, what the rail was seen to draw does not bound
// it.
func (r *polledRail) unmeasured(seconds float64, slots int64) {
	over := min(r.over, max(slots, 1))
	impossible := min(r.impossible, max(slots-over, 1))
	r.counters.Between(seconds, max(0, slots-over-impossible), over, impossible)
	// Nor does it bound a gap of a meter that does not see what lies between its readings.
	r.counters.addOpen(seconds, r.config.GreatestWatts)
	r.over, r.impossible = 0, 0
}

// slots is how many readings there should be in a time, at least the one that ended it.
func (r *polledRail) slots(seconds float64) int64 {
	return max(1, int64(math.Round(seconds/r.owner.period())))
}

func (r *polledRail) count(now energy.Reading) {
	if now.Again {
		r.counters.Repeated++
	} else {
		r.counters.Samples++
	}
}

// start begins a stream: the gap before it, and where the counters stand.
func (r *polledRail) start(now energy.Reading) {
	if gap := r.gapBefore(now.NS, r.owner.m.offset); gap > 0 {
		r.unmeasured(gap, int64(math.Round(gap/r.owner.period())))
	}
	r.over, r.impossible = 0, 0 // what came before the first reading of all is in no slot
	r.count(now)
	r.has, r.before = true, now
	r.owner.m.origin(r.rail, &r.counters, now.NS)
	r.clearPoint(now.NS)
}

func (r *polledRail) add(now energy.Reading, span energy.Span) {
	r.interval += intervalWeight * (span.Seconds - r.interval)
	if r.n == 0 {
		r.least, r.most = math.Inf(1), math.Inf(-1)
	}
	r.n++
	r.volts += now.Volts
	r.amps += now.Amps
	r.joules += span.Joules
	r.least, r.most = math.Min(r.least, now.Watts), math.Max(r.most, now.Watts)
	r.counters.observe(now.Watts, now.Watts)
	r.before = now
	if now.NS-r.since >= r.owner.pointNS {
		r.finish(now.NS)
	}
}

func (r *polledRail) finish(ns int64) {
	if r.n == 0 {
		return
	}
	n := float64(r.n)
	point := energy.Point{Samples: r.n, Volts: r.volts / n, Amps: r.amps / n, Min: r.least, Max: r.most, Joules: r.joules}
	if ns > r.since {
		point.Watts = r.joules / (float64(ns-r.since) / 1e9)
	}
	r.owner.m.point(r.rail, &point, &r.counters, ns, ns-r.since)
	r.clearPoint(ns)
}

func (r *polledRail) clearPoint(ns int64) {
	r.n, r.since, r.volts, r.amps, r.joules = 0, ns, 0, 0, 0
}

func (p *polled) endBatch() {}

func (p *polled) end() {
	for _, r := range p.rails {
		if r.has {
			r.finish(r.before.NS)
			r.endNS = r.before.NS
		}
	}
}

// residual is how uncertain a reading's time is: it was made at some time after the one before it
// arrived.
func (p *polled) residual() float64 {
	worst := 0.0
	for _, r := range p.rails {
		worst = math.Max(worst, r.interval)
	}
	return worst
}

func (p *polled) drift() float64 { return 0 }

func (p *polled) observedRate() float64 {
	if !p.any || len(p.rails) == 0 {
		return 0
	}
	return 1 / p.residual()
}
