// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"math"
	"sync"
	"time"

	"joulerig/collectors/internal/clockfit"
	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/ledger"
	"joulerig/collectors/internal/srframe"
)

// State of a meter, as the status says it.
type State string

// The states.
const (
	Starting  State = "starting"
	Streaming State = "streaming"
	Silent    State = "silent"
	Failed    State = "failed"
)

const (
	// How long lines may wait for more before they are handed to the writer.
	lingerNS    = 100e6
	lingerBytes = 32 << 10
	// Samples without a partner, beyond which the two channels of a rail cannot be of one stream.
	maxWaitSeconds = 10
	maxWaitExtra   = 1 << 16
	// How far the instrument's own word for its rate may be from the configuration's.
	rateTolerance = 1e-3
)

// sink takes lines of points.
type sink interface{ Write(lines []byte) error }

// Meter turns the frames of one instrument into points. A stream is what one run of srcap gives; the rails' joules and ledgers
// go on from stream to stream.
type Meter struct {
	config  MeterConfig
	session string
	sink    sink
	logf    func(format string, args ...any)

	mu       sync.Mutex
	state    State
	reason   string
	starts   int
	lastSeen time.Time // of the last samples
	writeErr string
	dropped  int64

	fit      *clockfit.Fit
	channels []*channel
	rails    []*rail
	maxWait  int

	// Of the stream under way.
	observed uint64 // samples delivered, as the fit has been told
	began    bool
	offset   int64 // CLOCK_REALTIME minus CLOCK_MONOTONIC, ns
	pending  []pendingPoint

	lines     influx.Encoder
	lastWrite int64
}

type rail struct {
	config      RailConfig
	key         []byte
	volts, amps *channel
	next        uint64 // index after the last sample that was paired
	energy      *energy.Rail
	ledger      *ledger.Ledger
	axis        clockfit.Axis
	stampedEnd  uint64       // index of the last point of this stream
	base        pendingPoint // the counters at the beginning of this stream
	endNS       int64        // monotonic end of the last stream's samples
}

// pendingPoint waits for the clock fit to be fit for use.
type pendingPoint struct {
	rail  *rail
	point energy.Point
	// The ledger as it was when the point was complete.
	lost, repeated int64
	gap            float64
}

func newMeter(config MeterConfig, pointsPerSecond float64, session string, out sink, logf func(string, ...any)) *Meter {
	m := &Meter{
		config:  config,
		session: session,
		sink:    out,
		logf:    logf,
		state:   Starting,
		fit:     clockfit.New(config.SampleRateHz),
		maxWait: int(maxWaitSeconds*config.SampleRateHz) + maxWaitExtra,
	}
	byName := map[string]*channel{}
	for _, name := range config.channels() {
		c := &channel{name: name, quantity: srframe.Current}
		byName[name] = c
		m.channels = append(m.channels, c)
	}
	perPoint := samplesPerPoint(config.SampleRateHz, pointsPerSecond)
	for _, rc := range config.Rails {
		byName[rc.Volts].quantity = srframe.Voltage
		r := &rail{
			config: rc,
			key:    influx.AppendKey(nil, "power", "meter", config.Name, "rail", rc.Rail, "host", rc.Host, "drive", rc.Drive),
			volts:  byName[rc.Volts],
			amps:   byName[rc.Amps],
			ledger: ledger.New(config.SampleRateHz),
		}
		r.energy = energy.NewRail(config.sampling, config.SampleRateHz, perPoint, func(p energy.Point) { m.complete(r, p) })
		m.rails = append(m.rails, r)
	}
	return m
}

// beginStream readies the meter for the frames of a new srcap.
func (m *Meter) beginStream() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fit.Restart()
	m.observed, m.began = 0, false
	m.pending = m.pending[:0]
	for _, c := range m.channels {
		c.reset()
	}
	for _, r := range m.rails {
		r.next = 0
		r.base = r.snapshot(energy.Point{Joules: r.energy.Joules(), Total: r.energy.Total()})
	}
	m.starts++
}

// frame takes a frame of the stream. An error means that the stream is of no use.
func (m *Meter) frame(f *srframe.Frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch f.Type {
	case srframe.Event:
		return m.notice(f)
	case srframe.Analog:
		return m.analog(f)
	}
	return nil
}

func (m *Meter) notice(f *srframe.Frame) error {
	n, err := f.Notice()
	if err != nil {
		return err
	}
	if n.Event == "start" && n.SamplerateHz != 0 && math.Abs(float64(n.SamplerateHz)/m.config.SampleRateHz-1) > rateTolerance {
		return fmt.Errorf("the instrument samples at %d Hz, sample_rate_hz is %v", n.SamplerateHz, m.config.SampleRateHz)
	}
	return nil
}

func (m *Meter) analog(f *srframe.Frame) error {
	if int(f.Channel) >= len(m.channels) {
		return fmt.Errorf("frame of channel %d, there are %d", f.Channel, len(m.channels))
	}
	if f.N == 0 {
		return nil
	}
	c := m.channels[f.Channel]
	if err := c.append(f); err != nil {
		return err
	}
	if len(c.samples) > m.maxWait {
		return fmt.Errorf("channel %s has %d samples without a partner", c.name, len(c.samples))
	}
	m.offset = f.RealtimeNS - f.MonotonicNS
	m.lastSeen = time.Now()
	m.state, m.reason = Streaming, ""
	// Only the channel that comes first tells how late the samples are; the others of the same window follow it.
	if f.End() > m.observed {
		m.observed = f.End()
		if missing := m.fit.Observe(f.End(), f.MonotonicNS); missing != 0 {
			m.logf("%d samples are missing from the stream before sample %d (negative: too many)", missing, f.End())
			for _, r := range m.rails {
				r.ledger.Missing(missing)
			}
		}
	}
	for _, r := range m.rails {
		if r.volts == c || r.amps == c {
			m.pair(r)
		}
	}
	m.trim(c)
	if m.fit.Ready() {
		m.publish(f.MonotonicNS)
	}
	return nil
}

// pair integrates what both channels of the rail have by now.
func (m *Meter) pair(r *rail) {
	lo, hi := common(r.volts, r.amps, r.next)
	if hi <= lo {
		return
	}
	if lo > r.next {
		r.ledger.Missing(int64(lo - r.next))
	}
	v := r.volts.samples[lo-r.volts.first : hi-r.volts.first]
	a := r.amps.samples[lo-r.amps.first : hi-r.amps.first]
	if unusable := r.energy.Add(lo, v, a); unusable > 0 {
		r.ledger.Missing(unusable)
	}
	r.next = hi
}

// trim drops the samples that all rails are done with, of the channels that share a rail with c.
func (m *Meter) trim(c *channel) {
	for _, r := range m.rails {
		if r.volts != c && r.amps != c {
			continue
		}
		for _, ch := range []*channel{r.volts, r.amps} {
			done := uint64(math.MaxUint64)
			for _, other := range m.rails {
				if other.volts == ch || other.amps == ch {
					done = min(done, other.next)
				}
			}
			ch.discard(done)
		}
	}
}

func (m *Meter) complete(r *rail, p energy.Point) {
	r.ledger.Samples = p.Total
	m.pending = append(m.pending, r.snapshot(p))
}

func (r *rail) snapshot(p energy.Point) pendingPoint {
	return pendingPoint{r, p, r.ledger.Lost, r.ledger.Repeated, r.ledger.GapSeconds}
}

// publish gives the pending points their times and hands them on when enough have come together.
func (m *Meter) publish(now int64) {
	if !m.began {
		m.began = true
		m.origin()
	}
	for i := range m.pending {
		m.encode(&m.pending[i])
	}
	m.pending = m.pending[:0]
	if n := len(m.lines.Bytes()); n > 0 && (now-m.lastWrite >= lingerNS || n > lingerBytes) {
		m.lastWrite = now
		m.hand()
	}
}

// origin writes where each rail's counter stands at the beginning of the stream: a difference taken from there on, or up to
// there, contains the whole gap before, and nothing of it is spread over the measured time.
func (m *Meter) origin() {
	begin := m.fit.At(0)
	for _, r := range m.rails {
		gap := r.ledger.Start(begin, r.endNS)
		lost := int64(math.Round(gap * m.config.SampleRateHz))
		for i := range m.pending {
			if p := &m.pending[i]; p.rail == r {
				p.lost += lost
				p.gap += gap
			}
		}
		r.base.lost += lost
		r.base.gap += gap
		m.lines.BeginKey(r.key)
		m.ledgerFields(r, r.base, begin)
		m.lines.End(r.axis.UTC(begin, m.offset, 0))
		r.stampedEnd = 0
	}
}

func (m *Meter) encode(p *pendingPoint) {
	r := p.rail
	at := m.fit.At(p.point.End)
	elapsed := int64(float64(p.point.End-r.stampedEnd) / m.config.SampleRateHz * 1e9)
	m.lines.BeginKey(r.key)
	m.lines.Float("volts", p.point.Volts)
	m.lines.Float("amps", p.point.Amps)
	m.lines.Float("watts", p.point.Watts)
	m.lines.Float("watts_min", p.point.Min)
	m.lines.Float("watts_max", p.point.Max)
	m.ledgerFields(r, *p, at)
	m.lines.End(r.axis.UTC(at, m.offset, elapsed))
	r.stampedEnd = p.point.End
}

func (m *Meter) ledgerFields(r *rail, p pendingPoint, at int64) {
	m.lines.Float("joules", p.point.Joules)
	m.lines.Int("samples", p.point.Total)
	m.lines.Int("expected", r.ledger.Expected(at))
	m.lines.Int("lost", p.lost)
	m.lines.Int("repeated", p.repeated)
	m.lines.Float("gap_seconds", p.gap)
	m.lines.Float("clock_residual_seconds", m.fit.Residual())
	m.lines.String("session", m.session)
}

func (m *Meter) hand() {
	lines := m.lines.Bytes()
	if len(lines) == 0 {
		return
	}
	if err := m.sink.Write(lines); err != nil {
		// The counters are cumulative: later points hold what these would have said.
		m.writeErr = err.Error()
		for _, b := range lines {
			if b == '\n' {
				m.dropped++
			}
		}
	} else {
		m.writeErr = ""
	}
	m.lines.Reset()
}

// endStream closes the stream's books: what was measured is published, and the time from here on is a gap.
func (m *Meter) endStream(state State, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason = state, reason
	if m.observed == 0 {
		return
	}
	for _, r := range m.rails {
		r.energy.Break()
	}
	m.publish(math.MaxInt64)
	m.lastWrite = 0
	for _, r := range m.rails {
		r.endNS = m.fit.At(r.next)
	}
}

func (m *Meter) setState(state State, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason = state, reason
}
