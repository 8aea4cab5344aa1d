// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"joulerig/collectors/internal/clockfit"
	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/srframe"
)

const (
	// Samples without a partner, beyond which the two channels of a rail cannot be of one stream.
	maxWaitSeconds = 10
	maxWaitExtra   = 1 << 16
	// How far the instrument's own word for its rate may be from the configuration's.
	rateTolerance = 1e-3
)

// streamed is for instruments that sample at a steady rate of their own: a sample's index is its
// time.
type streamed struct {
	m        *Meter
	fit      *clockfit.Fit
	channels []*channel
	rails    []*streamedRail
	maxWait  int
	// The rails that srcap adds up, in its order, and what that takes to decode.
	summed    []*streamedRail
	perPoint  int
	marks     []float32
	stretches []srframe.Stretch

	recording *recording // nil where none was asked for

	rings      []*ring // the rails' last samples; nil where nothing asks for them
	ringsUntil time.Time

	// Of the stream under way.
	observed uint64 // samples delivered, as passed to the fit
	began    bool
	pending  []pendingPoint
}

type streamedRail struct {
	*rail
	number      int // among the meter's rails
	volts, amps *channel
	next        uint64 // index after the last sample that was paired
	surplus     uint64 // samples still to throw away
	energy      *energy.Rail
	print       fingerprint
	gapEnd      uint64 // index after the last gap that indices tell of
	gapSeconds  float64
	stampedEnd  uint64       // index of the last point of this stream
	base        railCounters // the counters at the beginning of this stream
	seesAll     bool         // its samples show all that it does
	follows     follower
	bySeen      seenGaps
}

// pendingPoint waits for the clock fit to be fit for use.
type pendingPoint struct {
	rail     *streamedRail
	point    energy.Point
	counters railCounters // as they were when the point was complete, but for the joules, which follow when it is published
}

func newStreamed(m *Meter, pointsPerSecond float64) *streamed {
	config := &m.config
	s := &streamed{
		m:       m,
		fit:     clockfit.New(config.SampleRateHz, config.ClockPPM*1e-6),
		maxWait: int(maxWaitSeconds*config.SampleRateHz) + maxWaitExtra,
	}
	byName := map[string]*channel{}
	for _, c := range config.channels {
		byName[c.name] = &channel{name: c.name}
		s.channels = append(s.channels, byName[c.name])
	}
	s.perPoint = samplesPerPoint(config.SampleRateHz, pointsPerSecond)
	for number, base := range m.rails {
		r := &streamedRail{rail: base, number: number, seesAll: config.seesAll()}
		scale, limits := energy.NoScale, energy.NoRange
		limits.Watts = base.config.impossibleWatts()
		if stated := base.config.ConstantVolts; stated > 0 {
			r.volts = byName[base.config.Amps]
			gain, offset := config.calibrated(base.config.Amps)
			scale.VoltsGain, scale.VoltsOffset = stated*gain, stated*offset
			limits.Volts = config.fullScale(base.config.Amps)
		} else if watts := base.config.Watts; watts != "" {
			// A power is volts times amps of 1.
			r.volts = byName[watts]
			scale.VoltsGain, scale.VoltsOffset = config.calibrated(watts)
			limits.Volts = config.fullScale(watts)
		} else {
			r.volts, r.amps = byName[base.config.Volts], byName[base.config.Amps]
			scale.VoltsGain, scale.VoltsOffset = config.calibrated(base.config.Volts)
			scale.AmpsGain, scale.AmpsOffset = config.calibrated(base.config.Amps)
			limits.Volts, limits.Amps = config.fullScale(base.config.Volts), config.fullScale(base.config.Amps)
		}
		r.energy = energy.NewRail(config.sampling, config.SampleRateHz, s.perPoint, scale, limits, func(p energy.Point) { s.complete(r, p) })
		s.rails = append(s.rails, r)
		if r.amps != nil && len(config.Capturer) == 0 && config.alone(base.config.Volts) && config.alone(base.config.Amps) {
			s.summed = append(s.summed, r)
		}
	}
	return s
}

// arguments tell srcap which rails to add up, and whether their samples are wanted all the same.
func (s *streamed) arguments() []string {
	var args []string
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, r := range s.summed {
		voltsGain, voltsOffset := s.m.config.calibrated(r.volts.name)
		ampsGain, ampsOffset := s.m.config.calibrated(r.amps.name)
		words := []string{r.volts.name, r.amps.name, number(voltsGain), number(voltsOffset), number(ampsGain), number(ampsOffset)}
		if _, limited := s.m.config.FullScale[r.volts.name]; limited || s.m.config.FullScale[r.amps.name] > 0 {
			for _, c := range []*channel{r.volts, r.amps} {
				words = append(words, number(float64(s.m.config.fullScale(c.name))))
			}
		}
		args = append(args, "--rail", strings.Join(words, ","))
	}
	if len(s.summed) > 0 {
		args = append(args, "--point", strconv.Itoa(s.perPoint))
	}
	if s.recording != nil || s.rings != nil {
		args = append(args, "--raw")
	}
	return args
}

func (s *streamed) register(*srframe.Frame) error {
	return errors.New("an energy register of a meter that streams")
}

func (s *streamed) period() float64 { return 1 / s.m.config.SampleRateHz }

func (s *streamed) begin() {
	s.fit.Restart()
	s.observed, s.began = 0, false
	s.pending = s.pending[:0]
	if s.recording != nil {
		s.recording.Stream()
	}
	for _, r := range s.rings {
		r.restart()
	}
	for _, c := range s.channels {
		c.reset()
	}
	for _, r := range s.rails {
		r.next, r.surplus, r.stampedEnd = 0, 0, 0
		r.gapEnd, r.gapSeconds = 0, 0
		r.print.reset()
		r.base = r.counters
	}
}

func (s *streamed) analog(f *srframe.Frame) error {
	c := s.channels[f.Channel]
	if err := c.append(f.First, f.Samples()); err != nil {
		return err
	}
	if c.waiting() > s.maxWait {
		return fmt.Errorf("channel %s has %d samples without a partner", c.name, c.waiting())
	}
	s.arrived(f)
	for _, r := range s.rails {
		if r.volts == c || r.amps == c {
			s.pair(r)
		}
	}
	s.trim(c)
	s.publishWhenReady(f)
	return nil
}

// sums takes a window of a rail that srcap has added up.
func (s *streamed) sums(f *srframe.Frame) error {
	if int(f.Channel) >= len(s.summed) {
		return fmt.Errorf("sums of rail %d, there are %d", f.Channel, len(s.summed))
	}
	r := s.summed[f.Channel]
	if f.First < r.next {
		return fmt.Errorf("rail %s: sample %d comes again", r.config.Rail, f.First)
	}
	var err error
	if s.marks, s.stretches, err = f.Sums(s.marks, s.stretches); err != nil {
		return err
	}
	s.arrived(f)
	r.reach(f.First, s.period())
	if drop := r.tooMany(uint64(f.N)); drop > 0 {
		// Sums cannot be divided: what the window holds beyond the samples too many is lost.
		if drop < uint64(f.N) {
			r.lost(f.First+drop, int64(uint64(f.N)-drop), s.period())
		}
	} else if s.isNew(r, f.First, uint64(f.N)) {
		at := f.First
		for i := range s.stretches {
			if err := r.energy.AddSums(at, &s.stretches[i], r.notMeasured(s.period())); err != nil {
				return err
			}
			at += uint64(s.stretches[i].N)
		}
	}
	r.next = f.End()
	s.trim(r.volts)
	s.publishWhenReady(f)
	return nil
}

// arrived reports a frame to the clock. Only the channel that comes first shows how late the
// samples are; the others of the same window follow it.
func (s *streamed) arrived(f *srframe.Frame) {
	s.m.seen()
	if f.End() <= s.observed {
		return
	}
	s.observed = f.End()
	if missing := s.fit.Observe(f.End(), f.MonotonicNS); missing != 0 {
		s.missing(missing, f.End())
	}
}

func (s *streamed) publishWhenReady(f *srframe.Frame) {
	if s.fit.Ready() {
		s.publish()
		s.m.hand(f.MonotonicNS, false)
	}
}

// missing counts what the clock has found. Where in the stream they went missing leaves no trace,
// so what the rail was seen to draw does not bound them: they may be its tallest bursts.
func (s *streamed) missing(n int64, at uint64) {
	if n > 0 {
		s.m.logf("%d samples are missing from the stream before sample %d", n, at)
		for _, r := range s.rails {
			r.counters.addOpen(r.counters.Missing(n, s.period()), r.config.GreatestWatts)
		}
		return
	}
	// Which of them were too many is unknown: as many of the next ones are dropped, and the time is
	// right again.
	s.m.logf("%d samples too many in the stream before sample %d", -n, at)
	for _, r := range s.rails {
		r.surplus += uint64(-n)
		r.counters.Surplus -= n
		swapped := float64(-n) * s.period() * (r.counters.MostWatts - r.counters.LeastWatts)
		r.counters.BelowJoules -= swapped
		r.counters.AboveJoules += swapped
	}
}

// lost counts n samples that did not come, or were no numbers, from index `first` on.
func (r *streamedRail) lost(first uint64, n int64, period float64) {
	seconds := r.counters.Missing(n, period)
	if watts, ok := r.energy.Previous(); ok && first != r.gapEnd {
		r.follows.gap(watts)
	}
	r.unseen(seconds)
	r.gap(first, n, seconds)
}

// unseen widens the bounds by a time in which no sample came: by what the rail was seen to draw, or
// where that does not bound it by what its supply delivers. Once losses are seen to follow the
// load, that is so for earlier ones too.
func (r *streamedRail) unseen(seconds float64) {
	if !r.seesAll {
		r.counters.addOpen(seconds, r.config.GreatestWatts)
		return
	}
	below, above := r.counters.BelowJoules, r.counters.AboveJoules
	r.counters.addUnknown(seconds)
	r.bySeen.seconds += seconds
	r.bySeen.below += r.counters.BelowJoules - below
	r.bySeen.above += r.counters.AboveJoules - above
	if r.follows.losses {
		r.counters.BelowJoules -= r.bySeen.below
		r.counters.AboveJoules -= r.bySeen.above
		r.counters.addOpen(r.bySeen.seconds, r.config.GreatestWatts)
		r.bySeen = seenGaps{}
	}
}

// seenGaps are gaps that were bounded by what the rail was seen to draw, and their bounds.
type seenGaps struct{ seconds, below, above float64 }

// notMeasured books samples that are there and are no measurements.
func (r *streamedRail) notMeasured(period float64) energy.Gap {
	return func(first uint64, n int64, kind energy.Kind) {
		switch kind {
		case energy.Over:
			r.overRange(first, n, period)
		case energy.Impossible:
			seconds := r.counters.Unbelieved(n, period)
			r.counters.addOpen(seconds, r.config.GreatestWatts)
			r.gap(first, n, seconds)
		default:
			r.lost(first, n, period)
		}
	}
}

// overRange counts n samples from index `first` on that were beyond what the instrument measures.
// What the rail was seen to draw does not bound them.
func (r *streamedRail) overRange(first uint64, n int64, period float64) {
	seconds := r.counters.Over(n, period)
	r.counters.addOpen(seconds, r.config.GreatestWatts)
	r.gap(first, n, seconds)
}

// gap notes that n samples are missing from the index `first` on. What follows on is the same gap.
func (r *streamedRail) gap(first uint64, n int64, seconds float64) {
	if first != r.gapEnd {
		r.gapSeconds = 0
	}
	r.gapEnd = first + uint64(n)
	r.gapSeconds += seconds
	r.counters.WorstGapSeconds = math.Max(r.counters.WorstGapSeconds, r.gapSeconds)
}

// pair integrates what both channels of the rail have by now.
func (s *streamed) pair(r *streamedRail) {
	for {
		lo, volts, amps := together(r.volts, r.amps, r.next)
		n := uint64(len(volts))
		if n == 0 {
			return
		}
		r.reach(lo, s.period())
		if drop := r.tooMany(n); drop > 0 {
			r.next = lo + drop
			continue
		}
		s.marks = appendMarks(s.marks[:0], volts, amps)
		if s.isNew(r, lo, n) {
			if s.recording != nil {
				s.recording.take(r.number, lo, volts, amps, &s.m.config)
			}
			if s.rings != nil {
				s.rings[r.number].put(lo, volts, amps)
			}
			r.energy.Add(lo, volts, amps, r.notMeasured(s.period()))
		}
		r.next = lo + n
	}
}

// reach counts what is missing before index lo.
func (r *streamedRail) reach(lo uint64, period float64) {
	if lo > r.next {
		r.lost(r.next, int64(lo-r.next), period)
	}
}

// tooMany is how many of the next n samples are to be thrown away, which it notes as done.
func (r *streamedRail) tooMany(n uint64) uint64 {
	drop := min(r.surplus, n)
	r.surplus -= drop
	return drop
}

// isNew says whether the n samples from index lo on, known by s.marks, are to be integrated; if
// they, or some of them, are earlier ones again, they are booked.
func (s *streamed) isNew(r *streamedRail, lo, n uint64) bool {
	if !r.print.repeats(lo, int(n), s.marks) {
		return true
	}
	// An instrument, or what lies between, has sent a window twice: what the rail did in its slots
	// is unknown.
	s.m.logf("rail %s: the %d samples from %d on hold earlier ones again", r.config.Rail, n, lo)
	r.energy.Break()
	r.unseen(r.counters.Again(int64(n), s.period()))
	return false
}

// trim lets go of the samples that all rails are done with, of the channels that share a rail with
// c.
func (s *streamed) trim(c *channel) {
	for _, r := range s.rails {
		if r.volts != c && r.amps != c {
			continue
		}
		for _, ch := range []*channel{r.volts, r.amps} {
			if ch == nil {
				continue
			}
			done := s.observed
			for _, other := range s.rails {
				if other.volts == ch || other.amps == ch {
					done = min(done, other.next)
				}
			}
			ch.discard(done)
		}
	}
}

func (s *streamed) endBatch() {
	s.dropSamples()
	for _, c := range s.channels {
		c.keep()
	}
}

func (s *streamed) complete(r *streamedRail, p energy.Point) {
	if stated := r.config.ConstantVolts; stated > 0 {
		p.Volts, p.Amps = stated, p.Volts/stated // so far its volts are watts
	}
	r.counters.addStated(&r.config, p.Joules)
	if !r.seesAll {
		r.counters.between(energy.Span{Seconds: float64(p.Samples) * s.period(), Joules: p.Joules}, p.Min, p.Max, r.config.GreatestWatts)
	}
	r.counters.Samples += p.Samples
	if watts, ok := r.energy.Previous(); ok {
		r.follows.point(watts)
	}
	r.counters.observe(p.Min, p.Max)
	s.pending = append(s.pending, pendingPoint{r, p, r.counters})
}

// publish sets the times of the pending points.
func (s *streamed) publish() {
	if !s.began {
		s.began = true
		s.origin()
	}
	// The device's seconds are as long as its crystal makes them; the joules are of true ones.
	second := 1 + s.fit.Crystal()
	if n := len(s.pending); s.recording != nil && n > 0 {
		end := s.pending[n-1].point.End
		s.recording.Clock(end, s.fit.At(end)+s.m.offset, s.fit.Residual())
	}
	for i := range s.pending {
		p := &s.pending[i]
		r := p.rail
		r.counters.Joules += p.point.Joules * second
		p.counters.Joules = r.counters.Joules
		elapsed := int64(float64(p.point.End-r.stampedEnd) * s.period() * 1e9)
		s.m.point(r.rail, &p.point, &p.counters, s.fit.At(p.point.End), elapsed)
		r.stampedEnd = p.point.End
	}
	s.pending = s.pending[:0]
}

// origin counts the gap before the stream, and says where the counters stand at its beginning.
func (s *streamed) origin() {
	begin := s.fit.At(0)
	for _, r := range s.rails {
		if gap := r.gapBefore(begin, s.m.offset); gap > 0 {
			r.counters.addGap(gap, s.period(), &r.base)
			r.base.addGap(gap, s.period(), &r.base)
			for i := range s.pending {
				if p := &s.pending[i]; p.rail == r {
					p.counters.addGap(gap, s.period(), &r.base)
				}
			}
		}
		s.m.origin(r.rail, &r.base, begin)
	}
}

func (s *streamed) end() {
	if s.observed == 0 {
		return
	}
	for _, r := range s.rails {
		r.energy.Break()
	}
	s.publish()
	for _, r := range s.rails {
		r.endNS = s.fit.At(r.next)
	}
}

func (s *streamed) residual() float64     { return s.fit.Residual() }
func (s *streamed) drift() float64        { return s.fit.Crystal() }
func (s *streamed) observedRate() float64 { return s.fit.ObservedRate() }
