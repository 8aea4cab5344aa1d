// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math"
	"testing"
)

const watts2 = 2 // the channel of pollConfig's watts

// wattReadings gives the 5v rail of pollConfig these readings, 50 ms apart, none like the one
// before.
func wattReadings(t *testing.T, m *Meter, from int64, values ...float64) {
	t.Helper()
	for k, value := range values {
		reading(t, m, watts2, from+int64(k)*50e6, value+1e-4*float64(k%2))
	}
}

func polledMeter(t *testing.T, greatest float64) (*Meter, *lines) {
	t.Helper()
	config := pollConfig()
	for i := range config.Rails {
		config.Rails[i].GreatestWatts = greatest
	}
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.beginStream()
	return m, out
}

func TestARegisterGoesOnBetweenTwoStreamsUnlessItWasReset(t *testing.T) {
	for next, want := range map[float64]float64{1.05: 0.06, 0.20: 0.02} {
		m, out := polledMeter(t, 0)
		reading(t, m, 3, 100e9, 1.00)
		reading(t, m, 3, 100.05e9, 1.01)
		m.endStream(Silent, "")
		m.beginStream()
		reading(t, m, 3, 105e9, next)
		reading(t, m, 3, 105.05e9, next+0.01)
		m.endStream(Silent, "")
		f := last(out.points(t, "all"))
		close2(t, "joules", f["joules"], want*3600, 1e-3)
		if wasReset := next < 1; wasReset != (f["gap_seconds"] > 4.9) {
			t.Errorf("goes on at %g Wh: %v", next, f)
		}
	}
}

// pointsOfVoltsOverRange returns the points of readings at 20 Hz, of which the volts from one up to
// another are over range.
func pointsOfVoltsOverRange(t *testing.T, readings, from, to int) []linePoint {
	t.Helper()
	m, out := polledMeter(t, 0)
	for k := range readings {
		ns := 100e9 + int64(k)*50e6
		volts := 12 + 0.001*float64(k%2)
		if k >= from && k < to {
			volts = math.Inf(1)
		}
		reading(t, m, 0, ns, volts)
		reading(t, m, 1, ns+1e6, 0.3+0.001*float64(k%2))
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	return points
}

func TestVoltsThatAreOverRangeLeaveNoReadingOfTheirRail(t *testing.T) {
	if f := last(pointsOfVoltsOverRange(t, 200, 50, 60)); f["over_range"] != 10 || f["samples"] > 190 || f["expected"] > 200 {
		t.Errorf("%v", f)
	}
}

// The amps before and at that instant are without volts next to them.
func TestVoltsThatAreOverRangeOnceAreNotReplacedByTheirNeighbours(t *testing.T) {
	f := last(pointsOfVoltsOverRange(t, 100, 50, 51))
	close2(t, "gap", f["gap_seconds"], 0.15, 1e-9)
	if f["over_range"] != 1 || f["samples"] != 97 || f["lost"] != 1 {
		t.Errorf("%v", f)
	}
}

func TestReadingsOverRangeBeforeTheFirstOneAreInNoSlot(t *testing.T) {
	m, out := polledMeter(t, 0)
	wattReadings(t, m, 100e9, math.Inf(1), math.Inf(1), 5, 5, 5)
	m.endStream(Silent, "")
	if f := last(out.points(t, "5v")); f["over_range"] != 0 || f["gap_seconds"] != 0 || f["samples"] != 3 {
		t.Errorf("%v", f)
	}
}

func TestASupplyBoundsNoTimeThatBeginsOrEndsWithMoreThanItDelivers(t *testing.T) {
	m, out := polledMeter(t, 25)
	wattReadings(t, m, 100e9, 6, 6, 30, 6, 6)
	m.endStream(Silent, "")
	close2(t, "unbounded", last(out.points(t, "5v"))["unbounded_seconds"], 0.1, 1e-9)
}

func TestTheLowerBoundOfARailThatFeedsBackIsNotAboveItsJoules(t *testing.T) {
	m, out := polledMeter(t, 25)
	wattReadings(t, m, 100e9, -3, -3, -3, -3)
	m.endStream(Silent, "")
	if f := last(out.points(t, "5v")); !(f["joules_low"] <= f["joules"] && f["joules"] < -0.44) {
		t.Errorf("%v", f)
	}
}

func TestAReadingThatIsALittleLateLosesNone(t *testing.T) {
	m, out := polledMeter(t, 0)
	for k := range 50 {
		reading(t, m, watts2, 100e9+int64(k)*60e6, 5+1e-3*float64(k%2)) // each 50 ms are declared
	}
	m.endStream(Silent, "")
	if f := last(out.points(t, "5v")); f["lost"] != 0 {
		t.Errorf("%v", f)
	}
}

func TestThePointBeforeAGapEndsThereAndTheNextBeginsBehindIt(t *testing.T) {
	out := &lines{}
	config := pollConfig()
	if err := config.check("meters[0]"); err != nil {
		t.Fatal(err)
	}
	m := newMeter(config, 1, out, t.Logf) // a point a second
	m.beginStream()
	wattReadings(t, m, 100e9, 5, 5, 5, 5, 5)
	wattReadings(t, m, 103e9, make([]float64, 30)...)
	m.endStream(Silent, "")
	var times []int64
	for _, p := range out.points(t, "5v")[1:] {
		at := (p.time - utcOffset) / 1e6
		times = append(times, at)
		switch watts, measured := p.fields["watts"]; {
		case at == 100_200:
			close2(t, "watts before the gap", watts, 5, 1e-3)
		case at == 103_000:
			if measured {
				t.Errorf("the origin after the gap has %g W", watts)
			}
		default:
			close2(t, "watts after the gap", watts, 0, 1e-3)
		}
	}
	if len(times) != 4 || times[0] != 100_200 || times[1] != 103_000 || times[2] != 104_000 {
		t.Errorf("points end at %d ms", times)
	}
}

func TestTheTimeFromOnePolledStreamToTheNextIsAGapHoweverShort(t *testing.T) {
	m, out := polledMeter(t, 0)
	wattReadings(t, m, 100e9, 5, 5, 5)
	m.endStream(Silent, "")
	m.beginStream()
	wattReadings(t, m, 100.2e9, 5, 5, 5)
	m.endStream(Silent, "")
	f := last(out.points(t, "5v"))
	close2(t, "gap", f["gap_seconds"], 0.1, 1e-9)
	close2(t, "joules", f["joules"], 1, 1e-3)
}

func TestVoltsOfOneStreamGoWithNoAmpsOfTheNext(t *testing.T) {
	m, out := polledMeter(t, 0)
	reading(t, m, 0, 100e9, 12)
	m.endStream(Silent, "")
	m.beginStream()
	reading(t, m, 1, 100.04e9, 2)
	reading(t, m, 0, 100.05e9, 12)
	m.endStream(Silent, "")
	if points := out.points(t, "12v"); len(points) != 0 {
		t.Errorf("%v", last(points))
	}
}

func TestAReadingThatIsNoNumberIsNone(t *testing.T) {
	m, out := polledMeter(t, 0)
	wattReadings(t, m, 100e9, 5, 5, math.NaN(), 5.5, 5)
	m.endStream(Silent, "")
	f := last(out.points(t, "5v"))
	close2(t, "joules", f["joules"], 1.0375, 1e-3)
	if f["samples"] != 4 || f["lost"] != 1 {
		t.Errorf("%v", f)
	}
}

func TestPolledReadingsAreCalibrated(t *testing.T) {
	config := pollConfig()
	config.Calibration = map[string]Correction{"P2": {Gain: 1.5, Offset: 0.25}}
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.beginStream()
	wattReadings(t, m, 100e9, 4, 4, 4)
	m.endStream(Silent, "")
	close2(t, "watts", last(out.points(t, "5v"))["watts"], 6.25, 1e-3)
}

func TestTheTimeOfAReadingIsAsUncertainAsItsIntervalIsLong(t *testing.T) {
	m, _ := polledMeter(t, 0)
	if s, _, _ := m.status(); math.Abs(s.ClockResidualSeconds-0.05) > 1e-9 {
		t.Errorf("%g s, want the declared interval", s.ClockResidualSeconds)
	}
}

// lentVolts gives the volts that the amps' rail was computed with at its last point.
func lentVolts(t *testing.T, amps *Meter, out *lines) float64 {
	t.Helper()
	amps.endStream(Silent, "")
	return last(out.points(t, "5v"))["volts"]
}

func TestLentVoltsOfAStreamAreOfTheMiddleOfTheirWindow(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Stream)
	rising := func(at int64) float32 { return float32(5 + float64(at)/1e9/10) } // 0.1 V a second
	for k := range int64(40) {
		window := make([]float32, 20) // of a second
		for i := range window {
			window[i] = rising(k*1e9 + int64(i)*50e6 + 25e6)
		}
		for i := range int64(20) {
			give(t, amps, ampsFrame(0, 50e9+k*1e9+i*50e6, 2))
		}
		give(t, volts, samples(0, uint64(k*20), 51e9+k*1e9, window...))
	}
	got := lentVolts(t, amps, out)
	points := out.points(t, "5v")
	close2(t, "volts", got, float64(rising(points[len(points)-1].time-utcOffset-50e9)), 0.01)
}

func TestLentVoltsAreCalibratedAndOfTheirChannel(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Poll)
	volts.config.Calibration = map[string]Correction{"I1": {Gain: 1.5, Offset: 0.25}}
	volts.config.channels = append(volts.config.channels, channelConfig{"V2", "volts"})
	for k := range int64(20) {
		give(t, amps, ampsFrame(0, 50e9+k*50e6, 2))
		give(t, volts, samples(0, 0, 50e9+k*50e6, 4))
		other := samples(0, 0, 50e9+k*50e6+1e6, 99)
		other.Channel = 1
		give(t, volts, other)
	}
	close2(t, "volts", lentVolts(t, amps, out), 6.25, 1e-6)
}

func TestLentVoltsOfWhichOneSampleIsNoneAreAGap(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Stream)
	for k := range int64(40) {
		window := []float32{5, 5, 5, 5}
		if k == 20 {
			window[1] = float32(math.NaN())
		}
		give(t, volts, samples(0, uint64(k*4), 50e9+k*200e6, window...))
		for n := range int64(4) {
			give(t, amps, ampsFrame(0, 50e9+k*200e6+n*50e6, 2+0.001*float32(n)))
		}
	}
	amps.endStream(Silent, "")
	f := last(out.points(t, "5v"))
	if f["over_range"] < 1 || f["gap_seconds"] < 0.2 || math.IsNaN(f["joules"]) {
		t.Errorf("%v", f)
	}
}

func TestAmpsThatWaitForLentVoltsGoWithTheirStream(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Poll)
	give(t, volts, samples(0, 0, 50e9, 5))
	give(t, amps, ampsFrame(0, 50.01e9, 2))
	amps.endStream(Silent, "")
	amps.beginStream()
	give(t, volts, samples(0, 0, 50.05e9, 5))
	amps.endStream(Silent, "")
	if points := out.points(t, "5v"); len(points) != 0 {
		t.Errorf("%v", last(points))
	}
}
