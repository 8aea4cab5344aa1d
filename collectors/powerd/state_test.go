// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAStateIsOfTheLastTenMinutesAndNotOfTheFuture(t *testing.T) {
	m, _ := testMeter(t)
	state := meterState{Session: "one"}
	for _, r := range m.rails {
		state.Rails = append(state.Rails, railState{Series: string(r.key)})
	}
	for age, want := range map[time.Duration]bool{
		time.Second: true, 9 * time.Minute: true, 11 * time.Minute: false, -time.Minute: false,
	} {
		state.SavedNS = m.clock.Now().Add(-age).UnixNano()
		if m.matches(&state) != want {
			t.Errorf("a state that is %v old is taken over: %v", age, !want)
		}
	}
}

func TestMetersOfTwoSessionsBeginAThird(t *testing.T) {
	dir := t.TempDir()
	config := testConfig()
	config.Name = "other"
	for session, config := range map[string]MeterConfig{"one": testConfig(), "two": config} {
		m := newTestMeter(t, config, &lines{})
		if _, err := openState([]*Meter{m}, dir, session); err != nil {
			t.Fatal(err)
		}
		play(t, m, 50e9, 2000)
		m.endStream(Silent, "")
		m.stateFile.Close()
	}
	meters := []*Meter{newTestMeter(t, testConfig(), &lines{}), newTestMeter(t, config, &lines{})}
	session, err := openState(meters, dir, "three")
	if err != nil || session != "three" || meters[0].session != "three" {
		t.Errorf("session %s (%v)", session, err)
	}
	for _, m := range meters {
		if m.rails[0].counters.Samples != 0 {
			t.Errorf("%s goes on with %d samples", m.config.Name, m.rails[0].counters.Samples)
		}
	}
}

func TestAMeterThatOnlyLendsItsVoltsEndsNoSession(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"one", "one"} {
		amps, volts := twoMeters(t, &lines{}, Poll)
		session, err := openState([]*Meter{volts, amps}, dir, "one")
		if err != nil || session != want {
			t.Fatalf("session %s, want %s (%v)", session, want, err)
		}
		for k := range int64(20) {
			give(t, volts, samples(0, 0, 50e9+k*50e6, 5))
			give(t, amps, ampsFrame(0, 50e9+k*50e6, 2))
		}
		amps.endStream(Silent, "")
		volts.endStream(Silent, "")
	}
	amps, volts := twoMeters(t, &lines{}, Poll)
	if session, err := openState([]*Meter{volts, amps}, dir, "two"); err != nil || session != "one" {
		t.Errorf("session %s (%v)", session, err)
	}
}

// slots are the texts of a state file's two slots.
func slots(t *testing.T, path string) [2][]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, make([]byte, 2*slotBytes)...)[:2*slotBytes]
	return [2][]byte{content[:slotBytes], content[slotBytes:]}
}

// A kill tears one write; another digit in it is as good a text.
func TestWhereTheNewerSlotIsTornTheOlderOneIsTaken(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"torn": func(slot []byte) []byte { clear(slot[60:]); return slot },
		"digit": func(slot []byte) []byte {
			slot[bytes.Index(slot, []byte(`"samples":3`))+len(`"samples":`)] = '9'
			return slot
		},
	} {
		dir := t.TempDir()
		m, _, _ := reopened(t, dir, "one")
		play(t, m, 50e9, 3000)
		samples := m.rails[0].counters.Samples
		m.endStream(Silent, "")
		newer := m.stateTurn % 2
		path := filepath.Join(dir, "tap.state")
		both := slots(t, path)
		both[newer] = spoil(both[newer])
		if err := os.WriteFile(path, append(both[0], both[1]...), 0o600); err != nil {
			t.Fatal(err)
		}
		again, _, session := reopened(t, dir, "two")
		got := again.rails[0].counters.Samples
		if session != "one" || got < samples/2 || got >= 3000 {
			t.Errorf("%s: session %s goes on with %d samples of %d", name, session, got, samples)
		}
	}
}

func TestTheNewerStateIsThatOfTheLastPowerd(t *testing.T) {
	dir := t.TempDir()
	first, _, _ := reopened(t, dir, "one")
	play(t, first, 50e9, 3000)
	first.endStream(Silent, "")
	second, _, _ := reopened(t, dir, "two")
	play(t, second, 55e9, 20)
	second.endStream(Silent, "") // its only write
	if third, _, _ := reopened(t, dir, "three"); third.rails[0].counters.Samples != 3020 {
		t.Errorf("%d samples, want 3020", third.rails[0].counters.Samples)
	}
}

func TestAfterARestartWithAClockThatWasSetBackTimeGoesForward(t *testing.T) {
	dir := t.TempDir()
	first, before, _ := reopened(t, dir, "one")
	play(t, first, 50e9, 2000)
	first.endStream(Silent, "")
	second, after, _ := reopened(t, dir, "two")
	play(t, second, 51e9, 1000) // a second before the last point
	second.endStream(Silent, "")
	was, now := before.points(t, "12v"), after.points(t, "12v")
	if now[0].time <= was[len(was)-1].time {
		t.Errorf("the first point is %d ns before the last one", was[len(was)-1].time-now[0].time)
	}
	if f := last(now); f["gap_seconds"] != 0 || f["lost"] != 0 {
		t.Errorf("%v", f)
	}
}

// watcher is a sink that looks into the state file whenever lines come.
type watcher struct {
	t    *testing.T
	m    *Meter
	seen int
}

func (w *watcher) Write(b []byte) error {
	var out lines
	_ = out.Write(b)
	points := out.points(w.t, "12v")
	if kept := readState(w.m.stateFile).Rails; len(kept) == 0 || kept[0].Books.Joules < last(points)["joules"] {
		w.t.Errorf("points are written up to %g J, the state has %+v", last(points)["joules"], kept)
	}
	w.seen++
	return nil
}

// Else a powerd that is killed between the two counts joules twice.
func TestTheStateIsSavedBeforeItsPointsAreWritten(t *testing.T) {
	w := &watcher{t: t}
	w.m = newTestMeter(t, testConfig(), w)
	if _, err := openState([]*Meter{w.m}, t.TempDir(), "one"); err != nil {
		t.Fatal(err)
	}
	defer w.m.stateFile.Close()
	play(t, w.m, 50e9, 3000)
	w.m.endStream(Silent, "")
	if w.seen < 3 {
		t.Errorf("%d writes", w.seen)
	}
}
