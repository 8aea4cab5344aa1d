// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math/rand/v2"
	"testing"

	"joulerig/collectors/internal/srframe"
)

func TestStatedVoltsTakeTheCalibrationAndTheRangeOfTheirAmps(t *testing.T) {
	config := statedConfig(Stream)
	config.Calibration = map[string]Correction{"I1": {Gain: 1.1, Offset: 0.5}}
	config.FullScale = map[string]float64{"I1": 3}
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.beginStream()
	for k := range uint64(100) {
		amps := float32(2)
		if k >= 50 && k < 60 {
			amps = 3
		}
		if err := m.frame(ampsFrame(k, 50e9+int64(k)*50e6, amps)); err != nil {
			t.Fatal(err)
		}
	}
	m.endStream(Silent, "")
	f := last(out.points(t, "5v"))
	if f["over_range"] != 10 || f["samples"] != 90 {
		t.Errorf("%v", f)
	}
	close2(t, "watts", f["watts"], 5*(1.1*2+0.5), 1e-6)
}

func TestMeasuredWattsAreOverRangeFromTheirFullScaleOn(t *testing.T) {
	config := statedConfig(Stream)
	config.Rails = []RailConfig{{Rail: "5v", Host: "h", Drive: "d", Watts: "P"}}
	config.FullScale = map[string]float64{"P": 30}
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.beginStream()
	for k, watts := range []float32{10, 30, 10, 10} {
		f := ampsFrame(uint64(k), 50e9+int64(k)*50e6, watts)
		f.Quantity = srframe.Power
		if err := m.frame(f); err != nil {
			t.Fatal(err)
		}
	}
	m.endStream(Silent, "")
	if f := last(out.points(t, "5v")); f["over_range"] != 1 || f["samples"] != 3 {
		t.Errorf("%v", f)
	}
}

// withSurplus sends 40 s of 12 V with 1 A and 3 A in turn, in windows of 20; half-way n samples
// from nowhere come too.
func withSurplus(t *testing.T, m *Meter, sums bool, n int) {
	t.Helper()
	m.beginStream()
	index := 0
	window := func(at, size int) {
		amps := float32(1)
		if at/100%2 == 1 {
			amps = 3
		}
		feedRail(t, m, sums, 0, uint64(index), 50e9+int64(at+20)*1e6, constant(size, 12), constant(size, amps))
		index += size
	}
	for at := 0; at < 40000; at += 20 {
		window(at, 20)
		if at == 20000 {
			window(at, n)
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
}

func TestASurplusWidensTheBoundsByAllThatItMayHaveReplaced(t *testing.T) {
	m, out := testMeter(t)
	withSurplus(t, m, false, 300)
	f := last(out.points(t, "12v"))
	if f["surplus"] != 300 || f["expected"] != 40000 || f["lost"] != 0 {
		t.Fatalf("%v", f)
	}
	close2(t, "low", f["joules"]-f["joules_low"], 0.3*(36-12), 1e-6)
	close2(t, "high", f["joules_high"]-f["joules"], 0.3*(36-12), 1e-6)
}

func TestWhatASummedWindowHoldsBeyondTheSurplusIsLost(t *testing.T) {
	m, out := testMeter(t)
	withSurplus(t, m, true, 310)
	points := out.points(t, "12v")
	balanced(t, points)
	f := last(points)
	if f["surplus"] != 310 || f["lost"] != 10 || f["expected"] != 40000 {
		t.Errorf("%v", f)
	}
	close2(t, "gap", f["gap_seconds"], 0.01, 1e-9)
}

func TestSamplesTooManyAreThrownAwayTogetherAndEndWithTheStream(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	s := m.feed.(*streamed)
	s.missing(-30, 0)
	s.missing(-30, 0)
	feedRail(t, m, false, 0, 0, 50e9, constant(40, 12), constant(40, 2))
	if r := s.rails[0]; r.surplus != 20 || r.counters.Surplus != 60 {
		t.Errorf("%d of 60 samples are still to be thrown away, want 20", r.surplus)
	}
	m.endStream(Silent, "")
	play(t, m, 60e9, 1000)
	m.endStream(Silent, "")
	if f := last(out.points(t, "12v")); f["samples"] != 1000 {
		t.Errorf("the next stream lacks samples: %v", f)
	}
}

func TestSamplesThatWaitedGoWithTheirStream(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	if err := m.frame(samples(0, 0, 50e9, constant(20, 100)...)); err != nil {
		t.Fatal(err)
	}
	m.endStream(Silent, "")
	play(t, m, 60e9, 1000)
	m.endStream(Silent, "")
	close2(t, "joules", last(out.points(t, "12v"))["joules"], 24, 1e-9)
}

func TestGapsOfTwoStreamsAreApart(t *testing.T) {
	m, _ := testMeter(t)
	for stream, missing := range []uint64{1000, 1020} {
		m.beginStream()
		for at := uint64(0); at < 2000; at += 20 {
			if at == missing {
				continue
			}
			feedRail(t, m, false, 0, at, 50e9+int64(stream)*2e9+int64(at+20)*1e6, constant(20, 12), constant(20, 2))
		}
		m.endStream(Silent, "")
	}
	if worst := m.rails[0].counters.WorstGapSeconds; worst > 0.021 {
		t.Errorf("%g s; both gaps are of 0.02 s", worst)
	}
}

func TestAStreamEndsForEachRailWithTheRailsOwnLastSample(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	for at := uint64(0); at < 2000; at += 20 {
		for ch, v := range []float32{12, 2, 5, 1} {
			if ch == 1 && at >= 1500 {
				continue
			}
			if err := m.frame(samples(uint16(ch), at, 50e9+int64(at+20)*1e6, constant(20, v)...)); err != nil {
				t.Fatal(err)
			}
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	play(t, m, 53e9, 1000)
	m.endStream(Silent, "")
	for rail, gap := range map[string]float64{"12v": 1.5, "5v": 1} {
		close2(t, rail+": gap", last(out.points(t, rail))["gap_seconds"], gap, 1e-6)
	}
}

func TestTheLastSamplesOfAStreamArePublishedThoughTheyMakeNoWholePoint(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	feedRail(t, m, false, 0, 0, 50e9, constant(15, 12), constant(15, 2))
	m.endStream(Silent, "")
	f := last(out.points(t, "12v"))
	close2(t, "joules", f["joules"], 0.015*24, 1e-9)
	if f["samples"] != 15 {
		t.Errorf("%v", f)
	}
}

func TestPointsAreWrittenTogetherUntilTimeOrRoomIsUp(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, testConfig(), out)
	play(t, m, 50e9, 10_000)
	m.endStream(Silent, "")
	if n := len(out.writes); n < 30 || n > 60 {
		t.Errorf("%d writes in ten seconds, of which there is one each 0.2 s", n)
	}
	fast := &lines{}
	m = newMeter(m.config, 1000, fast, t.Logf)
	play(t, m, 50e9, 10_000)
	m.endStream(Silent, "")
	for _, bytes := range fast.writes[1:] { // the first has all that waited for the clock
		if bytes > lingerBytes+20_000 {
			t.Fatalf("a write of %d bytes, at most %d and a frame's points wait", bytes, lingerBytes)
		}
	}
}

func TestAReasonGoesWhenSamplesCome(t *testing.T) {
	m, _ := testMeter(t)
	m.beginStream()
	m.endStream(Silent, "unplugged")
	play(t, m, 60e9, 20)
	if s, _, _ := m.status(); s.State != Streaming || s.Reason != "" {
		t.Errorf("%s: %s", s.State, s.Reason)
	}
}

func noisyAmps(n int) []float32 { return noise(rand.New(rand.NewPCG(3, 4)), n, 2, 0.1) }

func TestABlockThatComesTwiceIsInNoPointBeforeIt(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	amps := noisyAmps(2000)
	copy(amps[1005:1025], amps[985:1005])
	for at := 0; at+20 <= 1985; at += 20 {
		first := at + 5
		if at == 0 {
			feedRail(t, m, false, 0, 0, onTime(5), constant(5, 12), amps[:5])
		}
		feedRail(t, m, false, 0, uint64(first), onTime(first+20), constant(20, 12), amps[first:first+20])
		m.endBatch()
	}
	m.endStream(Silent, "")
	for _, p := range out.points(t, "12v") {
		if at := (p.time - utcOffset - 50e9) / 1e6; at <= 1005 && p.fields["duplicate"] != 0 {
			t.Errorf("the point at sample %d has %g duplicates", at, p.fields["duplicate"])
		}
	}
	if f := last(out.points(t, "12v")); f["duplicate"] != 20 {
		t.Errorf("%v", f)
	}
}
