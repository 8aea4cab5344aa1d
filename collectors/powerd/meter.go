// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"joulerig/collectors/internal/clockfit"
	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/labclock"
	"joulerig/collectors/internal/ledger"
	"joulerig/collectors/internal/srframe"
	"joulerig/collectors/lineprotocol"
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
	lingerNS    = 200e6
	lingerBytes = 64 << 10
)

// sink takes lines of points.
type sink interface{ Write(lines []byte) error }

// Meter turns the frames of one instrument into points. A stream is what one run of srcap gives;
// the rails' joules and ledgers go on from stream to stream, and by the state file from one powerd
// to the next.
type Meter struct {
	config    MeterConfig
	session   string
	sink      sink
	logf      func(format string, args ...any)
	stateFile *os.File // nil where nothing is kept
	stateTurn uint64

	mu         sync.Mutex
	state      State
	reason     string
	starts     int
	clock      labclock.Clock
	lastSeen   time.Time // of the last samples
	writeErr   string
	dropped    int64
	instrument Instrument

	commands  io.Writer     // to srcap; nil where none runs
	rawAnswer chan struct{} // closed once srcap sends samples; nil where there is no waiter

	setting       sync.Mutex   // held while a setting is changed
	settingAsked  string       // the setting, as key and value
	settingAnswer chan<- error // takes the answer to it; nil where there is no waiter

	feed   feed
	rails  []*rail
	lends  []borrower
	offset int64 // CLOCK_REALTIME minus CLOCK_MONOTONIC, ns

	lines     lineprotocol.Encoder
	lastWrite int64
}

// Instrument is what the instrument reports.
type Instrument struct {
	Vendor  string `json:"vendor"`
	Model   string `json:"model"`
	Version string `json:"version"`
	Serial  string `json:"serial"`
}

func (i Instrument) String() string {
	return strings.TrimSpace(strings.Join([]string{i.Vendor, i.Model, i.Serial, i.Version}, " "))
}

// borrower is a rail of another meter that takes its volts from a channel of this one.
type borrower struct {
	channel string
	meter   *Meter
	rail    int
}

// feed is how samples of a kind of instrument become energy.
type feed interface {
	begin()                          // of a stream
	arguments() []string             // what srcap is to know
	analog(f *srframe.Frame) error   // samples, good until endBatch
	sums(f *srframe.Frame) error     // what srcap has made of samples
	register(f *srframe.Frame) error // an energy register's readings
	endBatch()                       // no more frames for now: what frames hold must be kept or done with
	end()                            // of the stream: publish all there is
	residual() float64               // uncertainty of the samples' times, s
	drift() float64                  // of the device's clock against the controller's
	observedRate() float64           // samples a second, 0 while unknown
}

// rail is one rail and its counters, which are of the session.
type rail struct {
	config   RailConfig
	key      []byte
	tens     tens
	counters railCounters
	axis     clockfit.Axis
	// Of the last point: what `rig meters watch` shows.
	last energy.Point
	// How far the last point's time is ahead of the controller's clock, which was set back.
	aheadNS int64
	endNS   int64 // monotonic end of the last stream's samples; 0 before there is one
	// UTC of the last point of the powerd before this one; 0 where there was none.
	endUTC int64
}

// railCounters are a rail's counters at one moment, as the state file keeps them too.
type railCounters struct {
	ledger.Ledger
	Joules float64 `json:"joules"`
	// Bounds in addition to the measured joules: a gap's time by the least and the greatest power
	// that the rail was seen to draw.
	BelowJoules float64 `json:"below_joules"`
	AboveJoules float64 `json:"above_joules"`
	LeastWatts  float64 `json:"least_watts"`
	MostWatts   float64 `json:"most_watts"`
	Seen        bool    `json:"seen"` // whether the two hold anything
	// Time in which the power is bounded by nothing: the joules of it are in none of the bounds.
	UnboundedSeconds float64 `json:"unbounded_seconds"`
}

// addOpen widens the bounds by a time in which the rail's power can have been anything that its
// supply delivers, whatever was seen before: from 0 to greatestWatts, of which 0 is not known.
func (b *railCounters) addOpen(seconds, greatestWatts float64) {
	if greatestWatts > 0 {
		b.AboveJoules += seconds * greatestWatts
	} else {
		b.UnboundedSeconds += seconds
	}
}

// between bounds what a rail drew between samples that show it at instants alone, in addition to
// what was measured: least and most are the extremes of those samples. One that the supply cannot
// deliver shows that its declaration does not hold.
func (b *railCounters) between(span energy.Span, least, most, greatestWatts float64) {
	if most > greatestWatts {
		b.addOpen(span.Seconds, 0)
		return
	}
	// An offset makes a reading of nothing one below 0.
	b.BelowJoules += math.Min(0, least)*span.Seconds - span.Joules
	b.AboveJoules += greatestWatts*span.Seconds - span.Joules
}

// addStated widens the bounds by how far the rail's volts may be off, where they are stated.
func (b *railCounters) addStated(c *RailConfig, joules float64) {
	if c.ConstantVolts > 0 {
		off := math.Abs(joules) * c.VoltsTolerance / c.ConstantVolts
		b.BelowJoules -= off
		b.AboveJoules += off
	}
}

// bounds are the least and the greatest joules of the session, nil where there are none.
func (b *railCounters) bounds() (low, high *float64) {
	if b.UnboundedSeconds > 0 {
		return nil, nil
	}
	least, most := b.Joules+b.BelowJoules, b.Joules+b.AboveJoules
	return &least, &most
}

// addUnknown widens the bounds by a time in which the rail's power is unknown.
func (b *railCounters) addUnknown(seconds float64) { b.widen(seconds, b) }

// addGap counts a gap between two streams, bounded by the powers that `seen` observed.
func (b *railCounters) addGap(seconds, period float64, seen *railCounters) {
	b.Gap(seconds, period)
	b.widen(seconds, seen)
}

func (b *railCounters) widen(seconds float64, seen *railCounters) {
	if seen.Seen {
		b.BelowJoules += seconds * seen.LeastWatts
		b.AboveJoules += seconds * seen.MostWatts
	}
}

func (b *railCounters) observe(least, most float64) {
	if !b.Seen {
		b.LeastWatts, b.MostWatts, b.Seen = least, most, true
		return
	}
	b.LeastWatts, b.MostWatts = math.Min(b.LeastWatts, least), math.Max(b.MostWatts, most)
}

func newMeter(config MeterConfig, pointsPerSecond float64, out sink, logf func(string, ...any)) *Meter {
	m := &Meter{config: config, sink: out, logf: logf, state: Starting}
	for _, rc := range config.Rails {
		m.rails = append(m.rails, &rail{
			config: rc,
			key:    lineprotocol.AppendKey(nil, "power", "meter", config.Name, "rail", rc.Rail, "host", rc.Host, "drive", rc.Drive),
			tens:   tens{key: lineprotocol.AppendKey(nil, "power_10s", "meter", config.Name, "rail", rc.Rail, "host", rc.Host, "drive", rc.Drive)},
		})
	}
	if config.Timing == Poll {
		m.feed = newPolled(m, pointsPerSecond)
	} else {
		m.feed = newStreamed(m, pointsPerSecond)
	}
	return m
}

// beginStream readies the meter for the frames of a new srcap, and returns what that is to know.
func (m *Meter) beginStream() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feed.begin()
	m.starts++
	return m.feed.arguments()
}

// lend notes in each meter which rails of the others take their volts from it.
func lend(meters []*Meter) {
	byName := map[string]*Meter{}
	for _, m := range meters {
		byName[m.config.Name] = m
	}
	for _, m := range meters {
		for _, l := range m.config.lent {
			m.lends = append(m.lends, borrower{l.channel, byName[l.to], l.rail})
		}
	}
}

// takesCommands is where the srcap under way reads its commands.
func (m *Meter) takesCommands(commands io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = commands
	if s, streams := m.feed.(*streamed); streams && (s.recording != nil || s.rings != nil) {
		// It may have been asked for since srcap was given its arguments.
		s.wantSamples(true)
	}
}

// frame takes a frame of the stream, whose payload is good until endBatch. An error means that the
// stream is of no use.
func (m *Meter) frame(f *srframe.Frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch f.Type {
	case srframe.Event:
		return m.notice(f)
	case srframe.Analog:
		if int(f.Channel) >= len(m.config.channels) {
			return fmt.Errorf("frame of channel %d, there are %d", f.Channel, len(m.config.channels))
		}
		if f.N == 0 {
			return nil
		}
		if c := m.config.channels[f.Channel]; !c.quantity.is(f) {
			return fmt.Errorf("channel %s is not %s, as the configuration says (libsigrok's quantity %d, unit %d)", c.name, c.quantity, f.Quantity, f.Unit)
		}
		m.offset = f.RealtimeNS - f.MonotonicNS
		return m.feed.analog(f)
	case srframe.Register:
		if int(f.Channel) >= len(m.config.channels) {
			return fmt.Errorf("frame of channel %d, there are %d", f.Channel, len(m.config.channels))
		}
		if c := m.config.channels[f.Channel]; c.quantity != wattHours {
			return fmt.Errorf("channel %s is an energy register, and not %s, as the configuration says", c.name, c.quantity)
		}
		m.offset = f.RealtimeNS - f.MonotonicNS
		return m.feed.register(f)
	case srframe.Rail:
		m.offset = f.RealtimeNS - f.MonotonicNS
		return m.feed.sums(f)
	}
	return nil
}

// passOn gives a frame's volts to the rails of other meters that are computed with them: of a
// stream their mean, at the middle of its time.
func (m *Meter) passOn(f *srframe.Frame) {
	if f.Type != srframe.Analog || f.N == 0 || int(f.Channel) >= len(m.config.channels) {
		return
	}
	name := m.config.channels[f.Channel].name
	for _, b := range m.lends {
		if b.channel != name {
			continue
		}
		gain, offset := m.config.calibrated(name)
		limit, sum, usable := m.config.fullScale(name), 0.0, true
		for _, sample := range f.Samples() {
			usable = usable && energy.IsNumber(sample) && !energy.OverRange(sample, limit)
			sum += float64(sample)
		}
		ns := f.MonotonicNS
		if m.config.Timing == Stream {
			ns -= int64(float64(f.N) / 2 / m.config.SampleRateHz * 1e9)
		}
		b.meter.borrowed(b.rail, ns, gain*sum/float64(f.N)+offset, usable)
	}
}

// borrowed takes another meter's volts for a rail.
func (m *Meter) borrowed(rail int, ns int64, volts float64, usable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, polled := m.feed.(*polled); polled {
		p.rails[rail].borrowed(ns, volts, usable)
	}
}

// endBatch ends a batch of frames.
func (m *Meter) endBatch() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feed.endBatch()
}

func (m *Meter) notice(f *srframe.Frame) error {
	n, err := f.Notice()
	if err != nil {
		return err
	}
	switch n.Event {
	case "raw":
		if n.On {
			m.samplesCome()
		}
		return nil
	case "set":
		if n.Key+" "+n.Value != m.settingAsked {
			return nil // one that was given up before
		}
		if n.OK {
			m.answerSetting(nil)
		} else {
			m.answerSetting(fmt.Errorf("meter %s: %s", m.config.Name, n.Error))
		}
		return nil
	case "flags":
		m.reason = n.Reason
		m.logf("%s", n.Reason)
		return nil
	case "start":
		m.samplesCome() // where they are wanted, it was started so
		return m.instrumentStarts(n)
	}
	return nil
}

func (m *Meter) samplesCome() {
	if m.rawAnswer != nil {
		close(m.rawAnswer)
		m.rawAnswer = nil
	}
}

func (m *Meter) instrumentStarts(n srframe.Notice) error {
	m.instrument = Instrument{n.Vendor, n.Model, n.Version, n.Serial}
	if of := m.config.CalibrationSerial; of != "" && n.Serial != "" && of != n.Serial {
		return fmt.Errorf("the calibration is of serial %q, the instrument is serial %q", of, n.Serial)
	}
	if err := m.config.Expected.check(m.instrument); err != nil {
		return err
	}
	for _, c := range n.Channels {
		if c.Type == "logic" {
			return fmt.Errorf("channel %s is a logic channel, which has no volts, amps or watts", c.Name)
		}
	}
	if m.config.Timing == Stream && n.SamplerateHz != 0 && math.Abs(float64(n.SamplerateHz)/m.config.SampleRateHz-1) > rateTolerance {
		return fmt.Errorf("the instrument samples at %d Hz, sample_rate_hz is %v", n.SamplerateHz, m.config.SampleRateHz)
	}
	return nil
}

// check is an error where the instrument is not the one that is expected.
func (e *Expected) check(is Instrument) error {
	otherwise := ""
	if e.Otherwise != "" {
		otherwise = ": " + e.Otherwise
	}
	if e.Serial != "" && is.Serial != "" && e.Serial != is.Serial {
		return fmt.Errorf("the instrument is serial %q, and serial %q is declared", is.Serial, e.Serial)
	}
	if e.pattern != nil && !e.pattern.MatchString(is.Serial) {
		return fmt.Errorf("%s, serial %q, is not what is declared%s", strings.TrimSpace(is.Vendor+" "+is.Model), is.Serial, otherwise)
	}
	return nil
}

// seen notes that samples have come.
func (m *Meter) seen() {
	m.lastSeen = m.clock.Now()
	m.state, m.reason = Streaming, ""
}

// origin writes where a rail's counters stand at the beginning of a stream: a difference taken from
// there on, or up to there, contains the whole gap before, and nothing of it is spread over the
// measured time.
func (m *Meter) origin(r *rail, b *railCounters, begin int64) {
	m.lines.BeginKey(r.key)
	utc := m.utc(r, begin, 0)
	m.counters(r, b)
	m.lines.End(utc)
}

// point writes a point; elapsedNS is the device's time since the one before.
func (m *Meter) point(r *rail, p *energy.Point, b *railCounters, at, elapsedNS int64) {
	m.lines.BeginKey(r.key)
	if r.config.Volts != "" || r.config.ConstantVolts > 0 {
		m.lines.Float("volts", p.Volts)
		m.lines.Float("amps", p.Amps)
	}
	m.lines.Float("watts", p.Watts)
	m.lines.Float("watts_min", p.Min)
	m.lines.Float("watts_max", p.Max)
	utc := m.utc(r, at, elapsedNS)
	m.counters(r, b)
	m.lines.End(utc)
	r.last = *p
	if r.tens.isOver(utc) {
		m.writeTens(r, b.GapSeconds)
	}
	r.tens.add(p, utc, elapsedNS)
}

// utc is the time of a point whose samples end at `at` (monotonic).
func (m *Meter) utc(r *rail, at, elapsedNS int64) int64 {
	utc := r.axis.UTC(at, m.offset, elapsedNS)
	r.aheadNS = utc - (at + m.offset)
	return utc
}

// residual is how far the time of a rail's last point may be off the controller's clock, in
// seconds.
func (m *Meter) residual(r *rail) float64 { return m.feed.residual() + float64(r.aheadNS)/1e9 }

func (m *Meter) counters(r *rail, b *railCounters) {
	m.lines.Float("joules", b.Joules)
	m.lines.Float("joules_low", b.Joules+b.BelowJoules)
	m.lines.Float("joules_high", b.Joules+b.AboveJoules)
	m.lines.Int("samples", b.Samples)
	m.lines.Int("expected", b.Expected())
	m.lines.Int("lost", b.Lost)
	m.lines.Int("duplicate", b.Duplicate)
	m.lines.Int("repeated", b.Repeated)
	m.lines.Int("over_range", b.OverRange)
	m.lines.Int("impossible", b.Impossible)
	m.lines.Int("surplus", b.Surplus)
	m.lines.Float("gap_seconds", b.GapSeconds)
	m.lines.Float("unbounded_seconds", b.UnboundedSeconds)
	m.lines.Float("clock_residual_seconds", m.residual(r))
	m.lines.String("session", m.session)
}

// hand passes the lines to the writer when enough have come together, or all there are. The state
// file goes first: a powerd that starts after this one was killed then begins at or after all that
// was ever published, and no joule is counted twice.
func (m *Meter) hand(now int64, all bool) {
	lines := m.lines.Bytes()
	if len(lines) == 0 || (!all && now-m.lastWrite < lingerNS && len(lines) < lingerBytes) {
		return
	}
	m.lastWrite = now
	if err := m.saveState(); err != nil {
		m.logf("%v", err)
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

// endStream closes the stream: what was measured is published, and the time from here on is a gap.
func (m *Meter) endStream(state State, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason = state, reason
	m.commands = nil
	m.answerSetting(fmt.Errorf("meter %s is %s: %s", m.config.Name, state, reason))
	m.feed.end()
	for _, r := range m.rails {
		m.writeTens(r, r.counters.GapSeconds)
	}
	m.hand(0, true)
	m.lastWrite = 0
}
