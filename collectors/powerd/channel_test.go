// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math/rand/v2"
	"testing"

	"joulerig/collectors/internal/srframe"
)

// A frame's memory is another frame's after the batch.
func TestSamplesThatWaitForAPartnerOutliveTheirFrames(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	want := 0.0
	for first := uint64(0); first < 60; first += 20 {
		values := constant(20, float32(10+first))
		f := samples(0, first, 50e9, values...)
		if err := m.frame(f); err != nil {
			t.Fatal(err)
		}
		m.endBatch()
		clear(f.Payload)
		want += float64(10+first) * 2 * 0.02
	}
	if err := m.frame(samples(1, 0, 50e9+60e6, constant(10, 2)...)); err != nil {
		t.Fatal(err)
	}
	m.endBatch() // what has its partner makes room for what still waits
	if err := m.frame(samples(1, 10, 50e9+61e6, constant(50, 2)...)); err != nil {
		t.Fatal(err)
	}
	m.endStream(Silent, "")
	close2(t, "joules", last(out.points(t, "12v"))["joules"], want, 1e-6)
}

func TestAChannelsSamplesWaitForEachRailThatTakesThem(t *testing.T) {
	config := testConfig()
	config.Rails[1].Volts = "CH1"
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.beginStream()
	for at := 0; at < 1000; at += 20 {
		for ch, v := range []float32{12, 2, 3} { // CH1, CH2, CH4
			f := samples(0, uint64(at), 50e9+int64(at+20)*1e6, constant(20, v)...)
			f.Channel = uint16(ch)
			f.Quantity = samples(uint16(min(ch, 1)), 0, 0).Quantity
			if err := m.frame(f); err != nil {
				t.Fatal(err)
			}
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	for rail, joules := range map[string]float64{"12v": 24, "5v": 36} {
		if f := last(out.points(t, rail)); f["lost"] != 0 || f["samples"] != 1000 {
			t.Errorf("%s: %v", rail, f)
		} else {
			close2(t, rail, f["joules"], joules, 1e-9)
		}
	}
}

func TestALongFrameOfWattsIsMeasuredWhole(t *testing.T) {
	config := statedConfig(Stream)
	config.SampleRateHz = 10_000
	config.Rails = []RailConfig{{Rail: "5v", Host: "h", Drive: "d", Watts: "P"}}
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.beginStream()
	f := samples(0, 0, 51e9, constant(10_000, 7)...)
	f.Quantity = srframe.Power
	if err := m.frame(f); err != nil {
		t.Fatal(err)
	}
	m.endStream(Silent, "")
	if end := last(out.points(t, "5v")); end["samples"] != 10_000 {
		t.Errorf("%v", end)
	}
}

func TestABlockAtTheBeginningOfAStreamRepeatsNoneOfTheStreamBefore(t *testing.T) {
	m, out := testMeter(t)
	r := rand.New(rand.NewPCG(1, 2))
	volts, amps := noise(r, 200, 12, 0.1), noise(r, 200, 2, 0.1)
	for stream := range int64(2) {
		m.beginStream()
		feedRail(t, m, false, 0, 0, 50e9+stream*1e9, volts, amps)
		m.endStream(Silent, "")
	}
	if f := last(out.points(t, "12v")); f["duplicate"] != 0 || f["samples"] != 400 {
		t.Errorf("%v", f)
	}
}

func TestASampleThatIsLostIsKnownByNoMark(t *testing.T) {
	var p fingerprint
	marks := make([]float32, 2*32)
	for k := range marks {
		marks[k] = 1
	}
	for first := uint64(0); first < pastSamples; first += 32 {
		p.remember(first, 32, marks)
	}
	p.remember(pastSamples+8, 32, marks)
	if p.markAt(pastSamples+7).known || !p.markAt(pastSamples+8).known || !p.markAt(pastSamples-1).known {
		t.Error("the eight samples that were lost are known, or their neighbours are not")
	}
}

func TestABlockThatComesAThirdTimeIsASignalThatRepeatsItself(t *testing.T) {
	var p fingerprint
	r := rand.New(rand.NewPCG(1, 2))
	const n = 2 * fingerprintSamples
	marks := appendMarks(nil, noise(r, n, 12, 0.1), noise(r, n, 2, 0.1))
	for k, want := range []bool{false, true, false} {
		if got := p.repeats(uint64(k*n), n, marks); got != want {
			t.Errorf("block %d repeats the one before: %v", k, got)
		}
	}
}
