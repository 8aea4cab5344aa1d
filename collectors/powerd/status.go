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

// MeterStatus tells of one meter, by the rail that is furthest behind. While samples do not come, lost and gap_seconds grow with
// the time since the last one.
type MeterStatus struct {
	Name                 string       `json:"name"`
	State                State        `json:"state"`
	Reason               string       `json:"reason"`
	Samples              int64        `json:"samples"`
	Expected             int64        `json:"expected"`
	Lost                 int64        `json:"lost"`
	Repeated             int64        `json:"repeated"`
	GapSeconds           float64      `json:"gap_seconds"`
	Restarts             int          `json:"restarts"`
	ClockResidualSeconds float64      `json:"clock_residual_seconds"`
	SampleRateHz         float64      `json:"sample_rate_hz"`
	ObservedRateHz       float64      `json:"observed_rate_hz"`
	Rails                []RailStatus `json:"rails"`
}

// RailStatus tells of one rail, up to its last point.
type RailStatus struct {
	Rail    string  `json:"rail"`
	Host    string  `json:"host"`
	Drive   string  `json:"drive"`
	Joules  float64 `json:"joules"`
	Samples int64   `json:"samples"`
	Lost    int64   `json:"lost"`
}

func (m *Meter) status() (MeterStatus, int64, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := MeterStatus{
		Name: m.config.Name, State: m.state, Reason: m.reason, Restarts: max(0, m.starts-1),
		ClockResidualSeconds: m.fit.Residual(), SampleRateHz: m.config.SampleRateHz, ObservedRateHz: m.fit.ObservedRate(),
		Samples: math.MaxInt64,
	}
	quiet := time.Since(m.lastSeen)
	if m.lastSeen.IsZero() {
		quiet = 0
	} else if m.state == Streaming && quiet.Seconds() > m.config.SilenceSeconds/2 {
		s.State, s.Reason = Silent, fmt.Sprintf("no samples for %.1f s", quiet.Seconds())
	}
	ongoing := 0.0
	if s.State != Streaming {
		ongoing = quiet.Seconds()
	}
	missing := int64(math.Round(ongoing * m.config.SampleRateHz))
	for _, r := range m.rails {
		l := r.ledger
		if l.Samples < s.Samples {
			s.Samples, s.Expected, s.Lost, s.Repeated = l.Samples, l.Expected(0)+missing, l.Lost+missing, l.Repeated
			s.GapSeconds = l.GapSeconds + ongoing
		}
		s.Rails = append(s.Rails, RailStatus{r.config.Rail, r.config.Host, r.config.Drive, r.energy.Joules(), l.Samples, l.Lost})
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

func statusHandler(status func() Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status())
	})
	return mux
}

// listenUnix listens at path. A socket that nobody answers at was left by a process that died.
func listenUnix(path string) (net.Listener, error) {
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("status_socket: %s: another powerd answers there (allowed: a path of its own)", path)
	} else if info, statErr := os.Lstat(path); statErr == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("status_socket: %s: is there and is no socket (allowed: a path to a socket)", path)
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
