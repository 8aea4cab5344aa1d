// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"time"

	"joulerig/collectors/internal/influx"
)

// Status is the answer to GET /status.
type Status struct {
	Session string        `json:"session"`
	Meters  []MeterStatus `json:"meters"`
	Writer  WriterStatus  `json:"writer"`
}

// WriterStatus is the writer's, and what could not be handed to it.
type WriterStatus struct {
	influx.Stats
	DroppedLines int64 `json:"dropped_lines"`
}

// MeterStatus describes one meter, by the rail that is furthest behind. While samples do not come,
// lost and gap_seconds grow with the time since the last one.
type MeterStatus struct {
	Name                 string       `json:"name"`
	Driver               string       `json:"driver"`
	Instrument           Instrument   `json:"instrument"`
	Timing               string       `json:"timing"`
	State                State        `json:"state"`
	Reason               string       `json:"reason"`
	Samples              int64        `json:"samples"`
	Expected             int64        `json:"expected"`
	Lost                 int64        `json:"lost"`
	Duplicate            int64        `json:"duplicate"`
	Repeated             int64        `json:"repeated"`
	OverRange            int64        `json:"over_range"`
	Impossible           int64        `json:"impossible"`
	Surplus              int64        `json:"surplus"`
	GapSeconds           float64      `json:"gap_seconds"`
	WorstGapSeconds      float64      `json:"worst_gap_seconds"`
	Restarts             int          `json:"restarts"`
	ClockResidualSeconds float64      `json:"clock_residual_seconds"`
	ClockDriftPPM        float64      `json:"clock_drift_ppm"`
	SampleRateHz         float64      `json:"sample_rate_hz"`
	ObservedRateHz       float64      `json:"observed_rate_hz"`
	Recording            string       `json:"recording"` // path; empty: none
	Rails                []RailStatus `json:"rails"`
}

// RailStatus describes one rail, up to its last point; volts, amps and watts are that point's
// means.
type RailStatus struct {
	Rail     string  `json:"rail"`
	Host     string  `json:"host"`
	Drive    string  `json:"drive"`
	Volts    float64 `json:"volts"`
	Amps     float64 `json:"amps"`
	Watts    float64 `json:"watts"`
	WattsMin float64 `json:"watts_min"`
	WattsMax float64 `json:"watts_max"`
	Joules   float64 `json:"joules"`
	// None where the power was bounded by nothing for some time.
	JoulesLow  *float64 `json:"joules_low"`
	JoulesHigh *float64 `json:"joules_high"`
	Samples    int64    `json:"samples"`
	Lost       int64    `json:"lost"`
}

// srcap wakes powerd once a second: less than this is no silence yet.
const leastQuiet = 1.5

func (m *Meter) status() (MeterStatus, int64, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := MeterStatus{
		Name: m.config.Name, Driver: m.config.Driver, Instrument: m.instrument, Timing: m.config.Timing,
		State: m.state, Reason: m.reason, Restarts: max(0, m.starts-1),
		ClockResidualSeconds: m.feed.residual(), ClockDriftPPM: m.feed.drift() * 1e6,
		SampleRateHz: m.config.SampleRateHz, ObservedRateHz: m.feed.observedRate(),
		Samples: math.MaxInt64, Rails: []RailStatus{},
	}
	if len(m.rails) == 0 {
		s.Samples = 0 // it lends its volts to another meter's rails
	}
	if feed, streams := m.feed.(*streamed); streams && feed.recording != nil {
		s.Recording = feed.recording.path
	}
	quiet := m.clock.Now().Sub(m.lastSeen)
	if m.lastSeen.IsZero() {
		quiet = 0
	} else if m.state == Streaming && quiet.Seconds() > math.Max(m.config.SilenceSeconds/2, leastQuiet) {
		s.State, s.Reason = Silent, fmt.Sprintf("no samples for %.1f s", quiet.Seconds())
	}
	ongoing := 0.0
	if s.State != Streaming {
		ongoing = quiet.Seconds()
	}
	missing := int64(math.Round(ongoing * m.config.SampleRateHz))
	for _, r := range m.rails {
		b := &r.counters
		s.ClockResidualSeconds = math.Max(s.ClockResidualSeconds, m.residual(r))
		if b.Samples < s.Samples {
			s.Samples, s.Expected, s.Lost = b.Samples, b.Expected()+missing, b.Lost+missing
			s.Duplicate, s.Repeated, s.Surplus = b.Duplicate, b.Repeated, b.Surplus
			s.OverRange, s.Impossible = b.OverRange, b.Impossible
			s.GapSeconds, s.WorstGapSeconds = b.GapSeconds+ongoing, math.Max(b.WorstGapSeconds, ongoing)
		}
		low, high := b.bounds()
		s.Rails = append(s.Rails, RailStatus{
			Rail: r.config.Rail, Host: r.config.Host, Drive: r.config.Drive,
			Volts: r.last.Volts, Amps: r.last.Amps, Watts: r.last.Watts, WattsMin: r.last.Min, WattsMax: r.last.Max,
			Joules: b.Joules, JoulesLow: low, JoulesHigh: high,
			Samples: b.Samples, Lost: b.Lost,
		})
	}
	return s, m.dropped, m.writeErr
}

func collectStatus(session string, meters []*Meter, writer func() influx.Stats) Status {
	s := Status{Session: session, Meters: []MeterStatus{}, Writer: WriterStatus{Stats: writer()}}
	for _, m := range meters {
		meter, dropped, writeErr := m.status()
		s.Meters = append(s.Meters, meter)
		s.Writer.DroppedLines += dropped
		if writeErr != "" {
			s.Writer.LastError = writeErr
		}
	}
	return s
}

func handler(meters []*Meter, recordingsDir string, status func() Status) http.Handler {
	mux := http.NewServeMux()
	recordings(mux, meters, recordingsDir)
	settings(mux, meters)
	lastOfDrive(mux, meters)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status())
	})
	return mux
}

// listenUnix listens at path. A socket that gives no reply was left by a process that died.
func listenUnix(path string) (net.Listener, error) {
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("status_socket: %s: another powerd answers there (allowed: a separate path)", path)
	} else if info, statErr := os.Lstat(path); statErr == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("status_socket: %s: exists and is not a socket (allowed: a free path)", path)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("status_socket: %w", err)
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("status_socket: %s: %w", path, err)
	}
	return listener, nil
}
