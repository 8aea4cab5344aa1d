// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"joulerig/collectors/internal/clockfit"
	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/srframe"
	"joulerig/collectors/internal/strictjson"
)

// Config is the configuration file; see docs/reference/protocols/powerd.md.
type Config struct {
	StateDir        string        `json:"state_dir"`
	Srcap           string        `json:"srcap"`
	StatusSocket    string        `json:"status_socket"`
	RecordingsDir   string        `json:"recordings_dir"`
	ClockListen     string        `json:"clock_listen"`
	PointsPerSecond float64       `json:"points_per_second"`
	Influx          influx.Config `json:"influx"`
	Meters          []MeterConfig `json:"meters"`
}

// MeterConfig is one instrument.
type MeterConfig struct {
	Name         string  `json:"name"`
	Driver       string  `json:"driver"`
	Timing       string  `json:"timing"`
	SampleRateHz float64 `json:"sample_rate_hz"`
	Samples      string  `json:"samples"`
	// Of point samples: beyond it the instrument passes nothing; 0: not known.
	BandwidthHz    float64 `json:"bandwidth_hz"`
	SilenceSeconds float64 `json:"silence_seconds"`
	// How far the instrument's sample clock may be off; 0: as a crystal.
	ClockPPM float64 `json:"clock_ppm"`
	// Capturer is the program that reads the instrument, with its first arguments, where libsigrok
	// does not: it takes srcap's arguments and writes srcap's frames, to stdout.
	Capturer []string `json:"capturer"`
	// ConnectionLink is a link in /dev that takes the place of linkPlace in Driver, resolved at
	// each start: a serial port has another number after each plug.
	ConnectionLink string `json:"connection_link"`
	// Expected is what the instrument has to report of itself.
	Expected Expected `json:"expected"`
	// OpenSeconds is how long finding and opening may take; 0: SilenceSeconds.
	OpenSeconds float64 `json:"open_seconds"`
	// FixedSettings: the instrument takes no settings while it captures.
	FixedSettings bool              `json:"fixed_settings"`
	Set           map[string]string `json:"set"`
	Rails         []RailConfig      `json:"rails"`
	// By channel; a channel that has none is read unchanged.
	Calibration map[string]Correction `json:"calibration"`
	// By channel: the magnitude of an uncorrected reading from which on it is over range.
	FullScale map[string]float64 `json:"full_scale"`
	// Whose calibration it is; another instrument, if it reports its serial, is refused.
	CalibrationSerial string `json:"calibration_serial"`

	sampling energy.Sampling
	channels []channelConfig
	lent     []lent
}

// Expected is what an instrument that is the declared one reports; empty: anything.
type Expected struct {
	Serial        string `json:"serial"`
	SerialPattern string `json:"serial_pattern"`
	// What the person at the bench is to know of another one.
	Otherwise string `json:"otherwise"`

	pattern *regexp.Regexp
}

const linkPlace = "{link}"

// lent is a channel whose volts a rail of another meter is computed with.
type lent struct {
	channel string
	to      string // the other meter
	rail    int    // among its rails
}

// How an instrument's samples come: see docs/reference/protocols/powerd.md.
const (
	Stream = "stream"
	Poll   = "poll"
)

// Correction makes a channel's readings right: gain x reading + offset, in SI units.
type Correction struct {
	Gain   float64 `json:"gain"`
	Offset float64 `json:"offset"`
}

// RailConfig says which channels are the volts and amps of a rail, or its power, or its energy
// register, and whose rail it is.
type RailConfig struct {
	Rail  string `json:"rail"`
	Host  string `json:"host"`
	Drive string `json:"drive"`
	Volts string `json:"volts"`
	// The meter that has the volts' channel; empty: the rail's own.
	VoltsMeter string `json:"volts_meter"`
	// Volts that are stated instead of measured, and how far they can be off; 0: they are measured.
	ConstantVolts  float64 `json:"constant_volts"`
	VoltsTolerance float64 `json:"volts_tolerance"`
	Amps           string  `json:"amps"`
	Watts          string  `json:"watts"`
	// A register that counts watt hours.
	WattHours string `json:"watt_hours"`
	// What the rail's supply can deliver at most; 0: not known.
	GreatestWatts float64 `json:"greatest_watts"`
}

// quantity is what a channel measures.
type quantity string

const (
	volts     quantity = "volts"
	amps      quantity = "amps"
	watts     quantity = "watts"
	wattHours quantity = "watt_hours"
)

// is says whether a frame is of the quantity. Energy has no number among libsigrok's quantities,
// only a unit.
func (q quantity) is(f *srframe.Frame) bool {
	switch q {
	case volts:
		return f.Quantity == srframe.Voltage
	case amps:
		return f.Quantity == srframe.Current
	case watts:
		return f.Quantity == srframe.Power && f.Unit != srframe.WattHour
	}
	return f.Unit == srframe.WattHour
}

// channelConfig is a channel that the rails need.
type channelConfig struct {
	name     string
	quantity quantity
}

// impossibleWatts is the power beyond which a reading is not believed; 0 where that is not known.
func (r *RailConfig) impossibleWatts() float64 { return mostOverSupply * r.GreatestWatts }

// seesAll says whether the instrument's samples show all that a rail does: they are means over
// their period, or points of what cannot change between them (H. Nyquist, Certain Topics in
// Telegraph Transmission Theory, 1928).
func (m *MeterConfig) seesAll() bool {
	return m.sampling == energy.WindowMean || (m.BandwidthHz > 0 && m.BandwidthHz <= m.SampleRateHz/2)
}

// ownVolts is the channel of the rail's volts in its own meter, empty where there is none.
func (r *RailConfig) ownVolts() string {
	if r.VoltsMeter != "" {
		return ""
	}
	return r.Volts
}

// channels are the rail's channels in its own meter.
func (r *RailConfig) channels() []channelConfig {
	var channels []channelConfig
	for _, c := range []channelConfig{{r.ownVolts(), volts}, {r.Amps, amps}, {r.Watts, watts}, {r.WattHours, wattHours}} {
		if c.name != "" {
			channels = append(channels, c)
		}
	}
	return channels
}

const (
	defaultPointsPerSecond = 100
	defaultSilenceSeconds  = 2
	defaultFlushSeconds    = 1.0
	mostFullScale          = 1e9
	mostVolts              = 1e5
	// A fuse lets a multiple of its current pass for a while; a rail never draws more than so many
	// times what its supply is declared to deliver.
	mostOverSupply = 3
)

// readConfig reads and checks the file. Errors name file, key, value and what is allowed.
func readConfig(path string) (*Config, error) {
	c := &Config{Srcap: "build/srcap", PointsPerSecond: defaultPointsPerSecond}
	if err := strictjson.ReadFile(path, c); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *Config) check() error {
	if c.StateDir == "" {
		return missing("state_dir", "a directory")
	}
	if c.Srcap == "" {
		return missing("srcap", "the path of the srcap program")
	}
	if c.StatusSocket == "" {
		c.StatusSocket = filepath.Join(c.StateDir, "status.sock")
	}
	if c.Influx.SpoolDir == "" {
		c.Influx.SpoolDir = filepath.Join(c.StateDir, "spool")
	}
	if c.Influx.FlushIntervalSeconds == 0 {
		c.Influx.FlushIntervalSeconds = defaultFlushSeconds
	}
	if !(c.PointsPerSecond >= 0.1 && c.PointsPerSecond <= 10000) {
		return fmt.Errorf("points_per_second: %v (allowed: 0.1 to 10000)", c.PointsPerSecond)
	}
	if err := c.lend(); err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range c.Meters {
		m := &c.Meters[i]
		if err := m.check(fmt.Sprintf("meters[%d]", i)); err != nil {
			return err
		}
		if names[m.Name] {
			return fmt.Errorf("meters[%d].name: %q is taken (allowed: a name that no other meter has)", i, m.Name)
		}
		names[m.Name] = true
	}
	return nil
}

// lend notes in each meter the channels that rails of other meters take their volts from.
func (c *Config) lend() error {
	for i := range c.Meters {
		for k, r := range c.Meters[i].Rails {
			if r.VoltsMeter == "" {
				continue
			}
			at := slices.IndexFunc(c.Meters, func(m MeterConfig) bool { return m.Name == r.VoltsMeter })
			if at < 0 || at == i {
				return fmt.Errorf("meters[%d].rails[%d].volts_meter: %q (allowed: the name of another meter)", i, k, r.VoltsMeter)
			}
			c.Meters[at].lent = append(c.Meters[at].lent, lent{r.Volts, c.Meters[i].Name, k})
		}
	}
	return nil
}

func (m *MeterConfig) check(at string) error {
	if m.Name == "" {
		return missing(at+".name", "a name")
	}
	if m.Driver == "" {
		return missing(at+".driver", "DRIVER[:key=value...] of libsigrok")
	}
	if !(m.SampleRateHz > 0 && m.SampleRateHz <= 100e6) {
		return fmt.Errorf("%s.sample_rate_hz: %v (allowed: above 0, up to 1e8)", at, m.SampleRateHz)
	}
	if m.Timing == "" {
		m.Timing = Stream
	}
	if m.Timing != Stream && m.Timing != Poll {
		return fmt.Errorf("%s.timing: %q (allowed: %s, %s)", at, m.Timing, Stream, Poll)
	}
	if m.Timing == Poll && m.Samples == "" {
		m.Samples = "point"
	}
	sampling, err := energy.ParseSampling(m.Samples)
	if err != nil {
		return fmt.Errorf("%s.samples: %w", at, err)
	}
	m.sampling = sampling
	if !(m.BandwidthHz >= 0 && m.BandwidthHz <= mostFullScale) {
		return fmt.Errorf("%s.bandwidth_hz: %v (allowed: above 0, up to %g, or 0 where it is not known)", at, m.BandwidthHz, float64(mostFullScale))
	}
	if m.SilenceSeconds == 0 {
		m.SilenceSeconds = defaultSilenceSeconds
	}
	if !(m.SilenceSeconds >= 0.2 && m.SilenceSeconds <= 3600) {
		return fmt.Errorf("%s.silence_seconds: %v (allowed: 0.2 to 3600)", at, m.SilenceSeconds)
	}
	if m.ClockPPM == 0 {
		m.ClockPPM = clockfit.MaxDrift * 1e6
	}
	if !(m.ClockPPM >= 1 && m.ClockPPM <= rateTolerance*1e6) {
		return fmt.Errorf("%s.clock_ppm: %v (allowed: 1 to %g)", at, m.ClockPPM, rateTolerance*1e6)
	}
	if !(m.OpenSeconds >= 0 && m.OpenSeconds <= 3600) {
		return fmt.Errorf("%s.open_seconds: %v (allowed: 0 to 3600)", at, m.OpenSeconds)
	}
	if len(m.Capturer) > 0 && m.Capturer[0] == "" {
		return fmt.Errorf("%s.capturer: [\"\"] (allowed: a program and its arguments)", at)
	}
	if strings.Contains(m.Driver, linkPlace) != (m.ConnectionLink != "") {
		return fmt.Errorf("%s.connection_link: %q (allowed: a link in /dev, with %s in driver)", at, m.ConnectionLink, linkPlace)
	}
	if m.Expected.SerialPattern != "" {
		if m.Expected.pattern, err = regexp.Compile(m.Expected.SerialPattern); err != nil {
			return fmt.Errorf("%s.expected.serial_pattern: %w (allowed: a regular expression)", at, err)
		}
	}
	if len(m.Rails) == 0 && len(m.lent) == 0 {
		return fmt.Errorf("%s.rails: [] (allowed: one rail or more)", at)
	}
	type series struct{ rail, host, drive string }
	seen := map[series]bool{}
	for i, r := range m.Rails {
		key := fmt.Sprintf("%s.rails[%d]", at, i)
		for _, must := range []struct{ name, value, allowed string }{
			{"rail", r.Rail, "a name"}, {"host", r.Host, "the name of a test host"}, {"drive", r.Drive, "the name of a drive"},
		} {
			if must.value == "" {
				return missing(key+"."+must.name, must.allowed)
			}
		}
		if err := r.checkChannels(key, m.Timing); err != nil {
			return err
		}
		s := series{r.Rail, r.Host, r.Drive}
		if !(r.GreatestWatts >= 0) || math.IsInf(r.GreatestWatts, 0) {
			return fmt.Errorf("%s.greatest_watts: %v (allowed: above 0, or 0 where it is not known)", key, r.GreatestWatts)
		}
		if seen[s] {
			return fmt.Errorf("%s.rail: %q of %s on %s is there already (allowed: each rail once)", key, r.Rail, r.Drive, r.Host)
		}
		seen[s] = true
	}
	if m.channels, err = m.needed(at); err != nil {
		return err
	}
	for name, c := range m.Calibration {
		if !slices.Contains(m.channelNames(), name) {
			return fmt.Errorf("%s.calibration: %q is no channel of its rails (allowed: %s)", at, name, strings.Join(m.channelNames(), ", "))
		}
		if !(c.Gain > 0.5 && c.Gain < 2) || c.Offset-c.Offset != 0 {
			return fmt.Errorf("%s.calibration.%s: gain %v, offset %v (allowed: a gain from 0.5 to 2, a finite offset)", at, name, c.Gain, c.Offset)
		}
	}
	for name, limit := range m.FullScale {
		if !slices.Contains(m.channelNames(), name) {
			return fmt.Errorf("%s.full_scale: %q is no channel of its rails (allowed: %s)", at, name, strings.Join(m.channelNames(), ", "))
		}
		if !(limit > 0 && limit <= mostFullScale) {
			return fmt.Errorf("%s.full_scale.%s: %v (allowed: above 0, up to %g)", at, name, limit, float64(mostFullScale))
		}
	}
	return nil
}

func missing(key, allowed string) error {
	return fmt.Errorf("%s: missing (allowed: %s)", key, allowed)
}

// samplesPerPoint is how many samples make a point: the nearest whole number to what was asked for,
// at least one.
func samplesPerPoint(rateHz, pointsPerSecond float64) int {
	return max(1, int(math.Round(rateHz/pointsPerSecond)))
}

// needed are the channels that the rails need, each once, in the order of their first mention.
func (m *MeterConfig) needed(at string) ([]channelConfig, error) {
	var needed []channelConfig
	seen := map[string]quantity{}
	need := func(c channelConfig, at string) error {
		before, there := seen[c.name]
		if there && before != c.quantity {
			return fmt.Errorf("%s.%s: %q is %s of another rail (allowed: a channel of one quantity)", at, c.quantity, c.name, before)
		}
		if !there {
			seen[c.name] = c.quantity
			needed = append(needed, c)
		}
		return nil
	}
	for i := range m.Rails {
		for _, c := range m.Rails[i].channels() {
			if err := need(c, fmt.Sprintf("%s.rails[%d]", at, i)); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range m.lent {
		if err := need(channelConfig{l.channel, volts}, fmt.Sprintf("%s, of rails[%d] of %s", at, l.rail, l.to)); err != nil {
			return nil, err
		}
	}
	return needed, nil
}

func (m *MeterConfig) channelNames() []string {
	names := make([]string, len(m.channels))
	for i, c := range m.channels {
		names[i] = c.name
	}
	return names
}

// calibrated is a channel's gain and offset.
func (m *MeterConfig) calibrated(channel string) (gain, offset float64) {
	if c, is := m.Calibration[channel]; is {
		return c.Gain, c.Offset
	}
	return 1, 0
}

// fullScale is the magnitude of a channel's uncorrected readings from which on they are over range.
func (m *MeterConfig) fullScale(channel string) float32 {
	if limit, is := m.FullScale[channel]; is {
		return float32(limit)
	}
	return float32(math.Inf(1))
}

// alone says whether just one rail has the channel.
func (m *MeterConfig) alone(channel string) bool {
	uses := 0
	for i := range m.Rails {
		for _, c := range m.Rails[i].channels() {
			if c.name == channel {
				uses++
			}
		}
	}
	for _, l := range m.lent {
		if l.channel == channel {
			uses++
		}
	}
	return uses == 1
}

func (r *RailConfig) checkChannels(key, timing string) error {
	const allowed = "volts and amps, or watts, or watt_hours"
	switch {
	case r.ConstantVolts != 0 || r.VoltsTolerance != 0:
		if !(r.ConstantVolts > 0 && r.ConstantVolts <= mostVolts) {
			return fmt.Errorf("%s.constant_volts: %v (allowed: above 0, up to %g)", key, r.ConstantVolts, float64(mostVolts))
		}
		if !(r.VoltsTolerance >= 0 && r.VoltsTolerance < r.ConstantVolts) {
			return fmt.Errorf("%s.volts_tolerance: %v (allowed: 0 or more, below constant_volts)", key, r.VoltsTolerance)
		}
		if r.Amps == "" || r.Volts != "" || len(r.channels()) > 1 {
			return fmt.Errorf("%s.constant_volts: %v (allowed: with amps alone)", key, r.ConstantVolts)
		}
	case r.VoltsMeter != "" && timing != Poll:
		return fmt.Errorf("%s.volts_meter: %q (allowed: with amps of a meter with timing %q)", key, r.VoltsMeter, Poll)
	case r.VoltsMeter != "" && (r.Volts == "" || r.Amps == "" || len(r.channels()) > 1):
		return fmt.Errorf("%s.volts_meter: %q (allowed: with volts and amps)", key, r.VoltsMeter)
	case r.VoltsMeter != "":
	case r.Watts == "" && r.WattHours == "":
		if r.Volts == "" {
			return missing(key+".volts", "a channel of the meter; a rail has "+allowed)
		}
		if r.Amps == "" {
			return missing(key+".amps", "a channel of the meter; a rail has "+allowed)
		}
		if r.Volts == r.Amps {
			return fmt.Errorf("%s.amps: %q is the volts channel (allowed: another channel)", key, r.Amps)
		}
	case len(r.channels()) > 1:
		return fmt.Errorf("%s: more than one of %s (allowed: one of them)", key, allowed)
	case r.WattHours != "" && timing != Poll:
		return fmt.Errorf("%s.watt_hours: %q (allowed: with timing %q, a register is read now and then)", key, r.WattHours, Poll)
	}
	return nil
}
