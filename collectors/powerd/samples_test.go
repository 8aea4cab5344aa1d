// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

type samplesReply struct {
	Rails []struct {
		Meter, Rail   string
		SampleRateHz  float64 `json:"sample_rate_hz"`
		StartNS       int64   `json:"start_ns"`
		Complete      bool
		ConstantVolts float64 `json:"constant_volts"`
		Volts, Amps   []*float64
		Watts         []*float64
	}
}

func lastSeconds(t *testing.T, m *Meter, query string) (found samplesReply) {
	t.Helper()
	code, text := ask(t, m, "GET", "/samples?host=h&drive=d&seconds="+query, "")
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheLastSamplesAreKeptFromTheFirstRequestOn(t *testing.T) {
	m, _ := testMeter(t)
	play(t, m, 50e9, 1000)
	first := lastSeconds(t, m, "2")
	if len(first.Rails) != 2 || len(first.Rails[0].Volts) != 0 || first.Rails[0].Complete {
		t.Fatalf("%+v", first)
	}
	m.endStream(Silent, "")
	play(t, m, 60e9, 3000)
	rails := lastSeconds(t, m, "2").Rails
	for i, want := range []struct {
		rail        string
		volts, amps float64
	}{{"12v", 12, 2}, {"5v", 5, -1}} {
		r := rails[i]
		if r.Meter != "tap" || r.Rail != want.rail || r.SampleRateHz != 1000 || !r.Complete || len(r.Volts) != 2000 || len(r.Amps) != 2000 {
			t.Fatalf("%s: %d volts, complete %v", r.Rail, len(r.Volts), r.Complete)
		}
		if *r.Volts[1999] != want.volts || *r.Amps[0] != want.amps {
			t.Errorf("%s: %g V, %g A", r.Rail, *r.Volts[1999], *r.Amps[0])
		}
		// The stream begins at 60 s and has 3 s.
		if off := r.StartNS - utcOffset - 61e9; off < -5e6 || off > 5e6 {
			t.Errorf("%s: begins %d ns off", r.Rail, off)
		}
	}
}

func TestSamplesAreCorrectedByTheCalibration(t *testing.T) {
	config := testConfig()
	config.Calibration = map[string]Correction{"CH1": {Gain: 1.5, Offset: 0.5}}
	m := newTestMeter(t, config, &lines{})
	lastSeconds(t, m, "1")
	play(t, m, 50e9, 100)
	if r := lastSeconds(t, m, "0.05").Rails[0]; *r.Volts[0] != 18.5 || *r.Amps[0] != 2 {
		t.Errorf("%g V, %g A", *r.Volts[0], *r.Amps[0])
	}
}

func TestSamplesThatDidNotComeAreNull(t *testing.T) {
	m, _ := testMeter(t)
	lastSeconds(t, m, "1")
	m.beginStream()
	for _, first := range []uint64{0, 40} {
		for ch, v := range []float32{12, 2, 5, -1} {
			if err := m.frame(samples(uint16(ch), first, int64(first+20)*1e6, constant(20, v)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := lastSeconds(t, m, "1").Rails[0]
	if len(r.Volts) != 60 || r.Volts[19] == nil || r.Volts[20] != nil || r.Amps[39] != nil || r.Amps[40] == nil {
		t.Errorf("%d samples, %v %v %v %v", len(r.Volts), r.Volts[19], r.Volts[20], r.Amps[39], r.Amps[40])
	}
}

func TestNoMoreThanTheLastSamplesAreHeldHoweverTheyCome(t *testing.T) {
	r := &ring{volts: make([]float32, 10), amps: make([]float32, 10)}
	at := uint64(3)
	for _, n := range []int{1, 4, 10, 25, 3, 7, 9} {
		volts, amps := make([]float32, n), make([]float32, n)
		for k := range volts {
			volts[k], amps[k] = float32(at)+float32(k), -float32(at)-float32(k)
		}
		r.put(at, volts, amps)
		at += uint64(n)
		first, v, a := r.last(100)
		if len(v) != min(10, int(at-3)) || first != at-uint64(len(v)) {
			t.Fatalf("to %d: %d samples from %d", at, len(v), first)
		}
		for k := range v {
			if want := float32(first) + float32(k); v[k] != want || a[k] != -want {
				t.Fatalf("sample %d is %g, %g", first+uint64(k), v[k], a[k])
			}
		}
	}
	if first, v, _ := r.last(4); first != at-4 || len(v) != 4 {
		t.Errorf("%d from %d", len(v), first)
	}
	r.put(at+10, []float32{1}, []float32{1}) // a gap of all that is held
	if _, v, _ := r.last(100); len(v) != 1 {
		t.Errorf("%d after a long gap", len(v))
	}
	r.put(at+13, []float32{4}, []float32{4})
	if _, v, _ := r.last(100); len(v) != 4 || !math.IsNaN(float64(v[1])) || v[3] != 4 {
		t.Errorf("%v", v)
	}
	r.restart()
	if _, v, _ := r.last(100); len(v) != 0 {
		t.Errorf("%v after a restart", v)
	}
}

func TestAFastInstrumentsRingIsBoundedInSamples(t *testing.T) {
	if n := len(newRing(1e6).volts); n != mostKept {
		t.Errorf("%d", n)
	}
	if n := len(newRing(1000).volts); n != 5000 {
		t.Errorf("%d", n)
	}
}

func TestSrcapIsAskedForSamplesAndNoLongerOnceNothingWantsThem(t *testing.T) {
	m, _ := testMeter(t)
	var commands bytes.Buffer
	m.beginStream()
	m.takesCommands(&commands)
	lastSeconds(t, m, "1")
	lastSeconds(t, m, "1")
	if commands.String() != "raw on\n" {
		t.Fatalf("%q", commands.String())
	}
	s := m.feed.(*streamed)
	if args := strings.Join(s.arguments(), " "); !strings.Contains(args, "--raw") {
		t.Error(args)
	}
	m.lastSeen = s.ringsUntil.Add(-time.Second)
	m.endBatch()
	if s.rings == nil {
		t.Fatal("it forgot them too early")
	}
	m.lastSeen = s.ringsUntil.Add(time.Second)
	m.endBatch()
	m.endBatch()
	if s.rings != nil || commands.String() != "raw on\nraw off\n" {
		t.Errorf("%v %q", s.rings, commands.String())
	}
}

func TestARecordingGoesOnWhereSamplesAreNoLongerAskedFor(t *testing.T) {
	m, _ := testMeter(t)
	s := m.feed.(*streamed)
	lastSeconds(t, m, "1")
	if _, err := m.record(s, t.TempDir()+"/w.parquet", 1e6); err != nil {
		t.Fatal(err)
	}
	var commands bytes.Buffer
	m.commands = &commands
	m.lastSeen = s.ringsUntil.Add(time.Second)
	m.endBatch()
	if s.rings != nil || commands.Len() != 0 {
		t.Errorf("%v %q", s.rings, commands.String())
	}
	lastSeconds(t, m, "1")
	if _, err := m.stopRecording(); err != nil || commands.Len() != 0 {
		t.Errorf("%v: a recording's end stopped what another wants: %q", err, commands.String())
	}
}

func TestEnergyIsTheSameWhetherSamplesAreKeptOrNot(t *testing.T) {
	joules := func(kept bool) float64 {
		m, out := testMeter(t)
		if kept {
			lastSeconds(t, m, "5")
		}
		play(t, m, 50e9, 3000)
		m.endStream(Silent, "")
		points := out.points(t, "12v")
		return points[len(points)-1].fields["joules"]
	}
	if with, without := joules(true), joules(false); with != without {
		t.Errorf("%g and %g J", with, without)
	}
}

func TestARequestForSamplesThatCannotBeIsRefusedWithTheReason(t *testing.T) {
	m, _ := testMeter(t)
	for _, seconds := range []string{"", "0", "-1", "5.1", "NaN", "Inf", "x"} {
		code, text := ask(t, m, "GET", "/samples?host=h&drive=d&seconds="+seconds, "")
		if code != 400 || !strings.Contains(text, "allowed: over 0, up to 5") {
			t.Errorf("%q: %d %s", seconds, code, text)
		}
	}
	polled := newTestMeter(t, pollConfig(), &lines{})
	rail := polled.config.Rails[0]
	code, text := ask(t, polled, "GET", "/samples?seconds=1&host="+rail.Host+"&drive="+rail.Drive, "")
	if code != 400 || !strings.Contains(text, "is polled") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := ask(t, m, "GET", "/samples?host=h&drive=none&seconds=1", ""); code != 200 || strings.TrimSpace(text) != `{"rails":[]}` {
		t.Errorf("%d %s", code, text)
	}
}
