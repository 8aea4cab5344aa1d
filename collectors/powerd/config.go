// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"math"
	"path/filepath"

	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/strictjson"
)

// Config is the configuration file; see docs/interfaces.md.
type Config struct {
	StateDir        string        `json:"state_dir"`
	Srcap           string        `json:"srcap"`
	StatusSocket    string        `json:"status_socket"`
	ClockListen     string        `json:"clock_listen"`
	PointsPerSecond float64       `json:"points_per_second"`
	Influx          influx.Config `json:"influx"`
	Meters          []MeterConfig `json:"meters"`
}

// MeterConfig is one instrument.
type MeterConfig struct {
	Name           string            `json:"name"`
	Driver         string            `json:"driver"`
	SampleRateHz   float64           `json:"sample_rate_hz"`
	Samples        string            `json:"samples"`
	SilenceSeconds float64           `json:"silence_seconds"`
	Set            map[string]string `json:"set"`
	Rails          []RailConfig      `json:"rails"`

	sampling energy.Sampling
}

// RailConfig says which channels are the volts and amps of a rail, and whose rail it is.
type RailConfig struct {
	Rail  string `json:"rail"`
	Host  string `json:"host"`
	Drive string `json:"drive"`
	Volts string `json:"volts"`
	Amps  string `json:"amps"`
}

const (
	defaultPointsPerSecond = 100
	defaultSilenceSeconds  = 2
	defaultFlushSeconds    = 0.2
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
	if len(c.Meters) == 0 {
		return fmt.Errorf("meters: [] (allowed: one meter or more)")
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
	sampling, err := energy.ParseSampling(m.Samples)
	if err != nil {
		return fmt.Errorf("%s.samples: %w", at, err)
	}
	m.sampling = sampling
	if m.SilenceSeconds == 0 {
		m.SilenceSeconds = defaultSilenceSeconds
	}
	if !(m.SilenceSeconds >= 0.2 && m.SilenceSeconds <= 3600) {
		return fmt.Errorf("%s.silence_seconds: %v (allowed: 0.2 to 3600)", at, m.SilenceSeconds)
	}
	if len(m.Rails) == 0 {
		return fmt.Errorf("%s.rails: [] (allowed: one rail or more)", at)
	}
	type series struct{ rail, host, drive string }
	seen := map[series]bool{}
	for i, r := range m.Rails {
		key := fmt.Sprintf("%s.rails[%d]", at, i)
		for _, must := range []struct{ name, value, allowed string }{
			{"rail", r.Rail, "a name"}, {"host", r.Host, "the name of a test host"}, {"drive", r.Drive, "the name of a drive"},
			{"volts", r.Volts, "a channel of the meter"}, {"amps", r.Amps, "a channel of the meter"},
		} {
			if must.value == "" {
				return missing(key+"."+must.name, must.allowed)
			}
		}
		if r.Volts == r.Amps {
			return fmt.Errorf("%s.amps: %q is the volts channel (allowed: another channel)", key, r.Amps)
		}
		s := series{r.Rail, r.Host, r.Drive}
		if seen[s] {
			return fmt.Errorf("%s.rail: %q of %s on %s is there already (allowed: each rail once)", key, r.Rail, r.Drive, r.Host)
		}
		seen[s] = true
	}
	return nil
}

func missing(key, allowed string) error {
	return fmt.Errorf("%s: missing (allowed: %s)", key, allowed)
}

// samplesPerPoint is how many samples make a point: the nearest whole number to what was asked for, at least one.
func samplesPerPoint(rateHz, pointsPerSecond float64) int {
	return max(1, int(math.Round(rateHz/pointsPerSecond)))
}

// channels are the channels that the rails need, each once, in the order of their first mention.
func (m *MeterConfig) channels() []string {
	var names []string
	seen := map[string]bool{}
	for _, r := range m.Rails {
		for _, name := range []string{r.Volts, r.Amps} {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
