// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math"
	"testing"
)

// A rail draws 3.6 W from a supply of 60 W, and its meter reads 1000 A now and then.
func TestAPowerThatNoSupplyDeliversIsNoMeasurement(t *testing.T) {
	const glitches, seconds = 20, 20
	amps := func(k int) float64 {
		if k%1000 == 500 {
			return 1000
		}
		return 0.3
	}
	for _, supply := range []float64{0, 60} {
		out := &lines{}
		m := overRangeMeter(t, out, 0, supply)
		send(t, m, seconds*1000, constantly(12), amps, onTime)
		points := out.points(t, "12v")
		balanced(t, points)
		f := last(points)
		if supply == 0 {
			differs(t, "nothing is known to be impossible", f["joules"], seconds*3.6)
			continue
		}
		if f["impossible"] != glitches || f["lost"] != 0 {
			t.Errorf("%v", f)
		}
		close2(t, "gap", f["gap_seconds"], glitches*1e-3, 1e-9)
		if low, high := f["joules_low"], f["joules_high"]; !(low <= seconds*3.6 && seconds*3.6 <= high && high < seconds*3.6+1.2) {
			t.Errorf("%g to %g J", low, high)
		}
	}
}

func TestAnImpossibleReadingOfAPolledMeterIsNotIntegrated(t *testing.T) {
	m, out := polledMeter(t, 25)
	wattReadings(t, m, 100e9, 5, 5, 1e6, 5, 5)
	m.endStream(Silent, "")
	f := last(out.points(t, "5v"))
	close2(t, "joules", f["joules"], 0.5, 1e-3)
	close2(t, "gap", f["gap_seconds"], 0.1, 1e-9)
	if f["impossible"] != 1 || f["lost"] != 0 || f["unbounded_seconds"] != 0 || f["joules_high"] < 0.2*25-1e-9 {
		t.Errorf("%v", f)
	}
}

// registerReadings gives the register of pollConfig these readings in Wh, 50 ms apart.
func registerReadings(t *testing.T, m *Meter, values ...float64) {
	t.Helper()
	for k, value := range values {
		reading(t, m, 3, 100e9+int64(k)*50e6, value)
	}
}

func TestARegisterThatFallsOrJumpsOnceLosesNoEnergy(t *testing.T) {
	for _, glitch := range []float64{0, 50} {
		m, out := polledMeter(t, 25)
		registerReadings(t, m, 1.0000, 1.0001, glitch, 1.0003, 1.0004)
		m.endStream(Silent, "")
		points := out.points(t, "all")
		balanced(t, points)
		f := last(points)
		close2(t, "joules", f["joules"], 0.0004*3600, 1e-3)
		if f["impossible"] != 1 || f["lost"] != 0 || f["gap_seconds"] != 0 || f["joules_low"] != f["joules"] {
			t.Errorf("%g Wh: %v", glitch, f)
		}
	}
}

func TestARegisterThatGoesOnElsewhereWasResetAndItsTimeIsBoundedByTheSupply(t *testing.T) {
	for _, supply := range []float64{0, 25} {
		for _, next := range []float64{0.2, 50} {
			if next > 1 && supply == 0 {
				continue // watts without limit allow any rise
			}
			m, out := polledMeter(t, supply)
			registerReadings(t, m, 1.0000, 1.0001, next, next+0.0001, next+0.0002)
			m.endStream(Silent, "")
			points := out.points(t, "all")
			balanced(t, points)
			f := last(points)
			close2(t, "joules", f["joules"], 0.0003*3600, 0.02)
			close2(t, "gap", f["gap_seconds"], 0.05, 1e-9)
			close2(t, "high", f["joules_high"]-f["joules"], 0.05*supply, 1e-9)
			if f["impossible"] != 1 || (f["unbounded_seconds"] > 0) != (supply == 0) {
				t.Errorf("%g Wh, supply of %g W: %v", next, supply, f)
			}
		}
	}
}

// 100 ms of work are drawn by a pulse of 50 us in each, and a point of 1 ms meets one of 20.
func TestPointSamplesAreBoundedByTheSupplyUnlessTheirBandwidthIsDeclared(t *testing.T) {
	amps := func(k int) float64 {
		if k%20 == 0 {
			return 2
		}
		return 0.1
	}
	for _, scene := range []struct {
		bandwidth, supply float64
		bounded, narrow   bool
	}{{0, 0, false, false}, {0, 60, true, false}, {500, 0, true, true}, {501, 0, false, false}, {501, 1, false, false}} {
		config := testConfig()
		config.Samples, config.BandwidthHz = "point", scene.bandwidth
		for i := range config.Rails {
			config.Rails[i].GreatestWatts = scene.supply
		}
		out := &lines{}
		m := newTestMeter(t, config, out)
		send(t, m, 10000, constantly(12), amps, onTime)
		f := last(out.points(t, "12v"))
		if bounded := f["unbounded_seconds"] == 0; bounded != scene.bounded {
			t.Errorf("%v: %v", scene, f)
		} else if bounded {
			width := f["joules_high"] - f["joules_low"]
			if narrow := width < 1e-6; narrow != scene.narrow || (!narrow && math.Abs(width-600) > 1) {
				t.Errorf("%v: %g to %g J", scene, f["joules_low"], f["joules_high"])
			}
		}
	}
}

// Of a drive that draws 30 W for 25 ms of 200 ms, blocks of 20 ms are lost, marked by their
// indices: at any time, or after a busy sample alone.
func TestLossesThatFollowTheLoadAreBoundedByTheSupply(t *testing.T) {
	const supply, seconds = 60, 60
	watts := func(k int) float64 {
		if (k+7)%200 < 25 {
			return 30
		}
		return 3 + 0.01*float64(k*k%97)
	}
	for name, lost := range map[string]func(block int) bool{
		"at random": func(block int) bool { return (block*block+block)%41 == 7 },
		"busy":      func(block int) bool { return block%30 == 10 },
	} {
		config := testConfig()
		config.Rails[0].GreatestWatts = supply
		out := &lines{}
		m := newTestMeter(t, config, out)
		m.beginStream()
		gaps := 0
		for block := range seconds * 50 {
			first := block * 20
			if block > 200 && lost(block) {
				gaps++
				continue
			}
			mono := 50e9 + int64(first+20)*1e6
			for ch, value := range []func(int) float64{constantly(1), watts, constantly(5), constantly(0.5)} {
				values := make([]float32, 20)
				for k := range values {
					values[k] = float32(value(first + k))
				}
				if err := m.frame(samples(uint16(ch), uint64(first), mono, values...)); err != nil {
					t.Fatal(err)
				}
			}
			m.endBatch()
		}
		m.endStream(Silent, "")
		f := last(out.points(t, "12v"))
		follows := f["joules_high"]-f["joules"] > 0.9*supply*0.02*float64(gaps)
		if follows != (name == "busy") {
			t.Errorf("%s: %d gaps, %g to %g of %g J", name, gaps, f["joules_low"], f["joules_high"], f["joules"])
		}
	}
}

func TestTheSignTestIsTheBinomialDistributions(t *testing.T) {
	for _, one := range []struct {
		above, below int
		want         float64
	}{{0, 10, 2.0 / 1024}, {1, 9, 22.0 / 1024}, {5, 5, 1}, {40, 24, 0.0599}} {
		close2(t, "p", signTest(one.above, one.below), one.want, 1e-4)
	}
}
