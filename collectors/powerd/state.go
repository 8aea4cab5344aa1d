// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// How old counters may be that a starting powerd goes on from. After a longer pause a new session
// says more than its gap.
const stateAge = 10 * time.Minute

// meterState is what a meter's state file holds.
type meterState struct {
	Session string      `json:"session"`
	Turn    uint64      `json:"turn"`     // rises with each writing
	SavedNS int64       `json:"saved_ns"` // the lab's CLOCK_REALTIME
	Rails   []railState `json:"rails"`
}

type railState struct {
	Series string       `json:"series"` // measurement and tags of its points
	EndNS  int64        `json:"end_ns"` // UTC of its last point
	Books  railCounters `json:"books"`
}

// A state file has two slots that are written in turn, so that one of them is whole whenever the
// process ends. (A rename, which would do as well, costs more than all the arithmetic on the
// samples.)
const slotBytes = 16 << 10

// saveState writes the counters as they are in the points made so far.
func (m *Meter) saveState() error {
	if m.stateFile == nil {
		return nil
	}
	m.stateTurn++
	state := meterState{Session: m.session, Turn: m.stateTurn, SavedNS: m.clock.Now().UnixNano()}
	for _, r := range m.rails {
		state.Rails = append(state.Rails, railState{string(r.key), r.axis.Last(), r.counters})
	}
	text, err := json.Marshal(state)
	if err == nil && len(text)+slotHead > slotBytes {
		err = fmt.Errorf("%d bytes do not fit a slot of %d", len(text), slotBytes)
	}
	if err == nil {
		slot := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
		slot = binary.LittleEndian.AppendUint32(slot, crc32.ChecksumIEEE(text))
		_, err = m.stateFile.WriteAt(append(slot, text...), int64(m.stateTurn%2)*slotBytes)
	}
	if err != nil {
		return fmt.Errorf("the state is not kept: %w", err)
	}
	return nil
}

// slotHead is the length of a slot's text and its CRC-32.
const slotHead = 8

// readState returns the newer of a file's whole slots; one without a session where there is none.
func readState(file *os.File) (newest meterState) {
	for turn := range int64(2) {
		slot := make([]byte, slotBytes)
		n, _ := file.ReadAt(slot, turn*slotBytes)
		if n < slotHead {
			continue
		}
		slot = slot[:n]
		length := binary.LittleEndian.Uint32(slot)
		if uint64(length) > uint64(len(slot)-slotHead) {
			continue
		}
		text := slot[slotHead : slotHead+length]
		var state meterState
		if crc32.ChecksumIEEE(text) != binary.LittleEndian.Uint32(slot[4:]) || json.Unmarshal(text, &state) != nil {
			continue
		}
		if newest.Session == "" || state.Turn > newest.Turn {
			newest = state
		}
	}
	return newest
}

// openState finds the session to go on with: the one of all meters' state files, if they are recent
// and of the very same rails. Else it is `fresh`, and nothing is restored.
func openState(meters []*Meter, dir, fresh string) (string, error) {
	states := make([]meterState, len(meters))
	known, before := true, ""
	for i, m := range meters {
		file, err := os.OpenFile(filepath.Join(dir, m.config.Name+".state"), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return "", fmt.Errorf("state_dir: %w", err)
		}
		m.stateFile = file
		states[i] = readState(file)
		m.stateTurn = states[i].Turn
		if len(m.rails) == 0 {
			continue // nothing of it is kept
		}
		if before == "" {
			before = states[i].Session
		}
		if !m.matches(&states[i]) || states[i].Session != before {
			known = false
		}
	}
	session := fresh
	if known && before != "" {
		session = before
		for i, m := range meters {
			m.restore(&states[i])
		}
	}
	for _, m := range meters {
		m.session = session
	}
	return session, nil
}

func (m *Meter) matches(state *meterState) bool {
	age := m.clock.Now().Sub(time.Unix(0, state.SavedNS))
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
		r.counters = state.Rails[i].Books
		r.endUTC = state.Rails[i].EndNS
		r.axis.Resume(r.endUTC)
	}
}

// gapBefore is the time from the end of the samples before, which may have been another powerd's,
// to `begin` (monotonic), in seconds; 0 where there are none, below 0 where a clock was set back.
func (r *rail) gapBefore(begin, offset int64) float64 {
	end := r.endNS
	if end == 0 {
		if r.endUTC == 0 {
			return 0
		}
		end = r.endUTC - offset
	}
	return float64(begin-end) / 1e9
}

// recordSession adds a session to the list of those that this state directory has had, before the
// first of its points is made. A point of a session that is not in the list is not powerd's.
func recordSession(path, session string) error {
	known, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("state_dir: %w", err)
	}
	if slices.Contains(strings.Fields(string(known)), session) {
		return nil
	}
	line := session + "\n"
	if len(known) > 0 && known[len(known)-1] != '\n' { // an append that a power cut ended
		line = "\n" + line
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("state_dir: %w", err)
	}
	_, err = file.WriteString(line)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("state_dir: %w", err)
	}
	return nil
}

func stateDir(config *Config) string { return filepath.Join(config.StateDir, "meters") }
