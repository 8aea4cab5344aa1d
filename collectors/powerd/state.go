// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"
)

// How old counters may be that a starting powerd goes on from. After a longer pause a new session says more than its gap.
const stateAge = time.Hour

// meterState is what a meter's state file holds.
type meterState struct {
	Session string      `json:"session"`
	SavedNS int64       `json:"saved_ns"` // CLOCK_REALTIME
	Rails   []railState `json:"rails"`
}

type railState struct {
	Series string `json:"series"` // measurement and tags of its points
	EndNS  int64  `json:"end_ns"` // UTC of its last point
	Books  books  `json:"books"`
}

// saveState writes the counters as they are in the points made so far.
func (m *Meter) saveState() error {
	if m.statePath == "" {
		return nil
	}
	state := meterState{Session: m.session, SavedNS: time.Now().UnixNano()}
	for _, r := range m.rails {
		state.Rails = append(state.Rails, railState{string(r.key), r.axis.Last(), r.books})
	}
	text, err := json.Marshal(state)
	if err == nil {
		next := m.statePath + ".new"
		if err = os.WriteFile(next, text, 0o644); err == nil {
			err = os.Rename(next, m.statePath)
		}
	}
	if err != nil {
		return fmt.Errorf("the state is not kept: %w", err)
	}
	return nil
}

// openState finds the session to go on with: the one of all meters' state files, if they are recent and of the very same rails.
// Else it is `fresh`, and nothing is restored.
func openState(meters []*Meter, dir, fresh string) string {
	states := make([]meterState, len(meters))
	known := true
	for i, m := range meters {
		m.statePath = filepath.Join(dir, m.config.Name+".json")
		text, err := os.ReadFile(m.statePath)
		if err != nil || json.Unmarshal(text, &states[i]) != nil || !m.matches(&states[i]) || states[i].Session != states[0].Session {
			known = false
		}
	}
	session := fresh
	if known {
		session = states[0].Session
		for i, m := range meters {
			m.restore(&states[i])
		}
	}
	for _, m := range meters {
		m.session = session
	}
	return session
}

func (m *Meter) matches(state *meterState) bool {
	age := time.Since(time.Unix(0, state.SavedNS))
	if state.Session == "" || age < 0 || age > stateAge || len(state.Rails) != len(m.rails) {
		return false
	}
	for i, r := range m.rails {
		if state.Rails[i].Series != string(r.key) {
			return false
		}
	}
	return true
}

func (m *Meter) restore(state *meterState) {
	for i, r := range m.rails {
		r.books = state.Rails[i].Books
		r.endUTC = state.Rails[i].EndNS
		r.axis.Resume(r.endUTC)
	}
}

// gapBefore is the time from the end of the samples before, which may have been another powerd's, to `begin` (monotonic), in
// seconds; 0 where there are none.
func (r *rail) gapBefore(begin, offset int64) float64 {
	end := r.endNS
	if end == 0 {
		if r.endUTC == 0 {
			return 0
		}
		end = r.endUTC - offset
	}
	return math.Max(0, float64(begin-end)/1e9)
}

func stateDir(config *Config) string { return filepath.Join(config.StateDir, "meters") }
