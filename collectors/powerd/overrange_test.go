// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"math"
	"strings"
	"testing"
)

// A rail of 12 V draws 0.3 A, and in 0.9 % of the time 7 A: more than the 4.096 A that its meter
// reads. What the meter gives in place of those is the test's; what is true is not.
const (
	peakAmps, fullScaleAmps = 7.0, 4.096
	burstSamples            = 9 // of 1000
)

func bursts(k int) float64 {
	if k%1000 < burstSamples {
		return peakAmps
	}
	return 0.3
}

// as gives what a meter reads of bursts.
func as(overRange float64) func(int) float64 {
	return func(k int) float64 {
		if a := bursts(k); a < fullScaleAmps {
			return a
		}
		return overRange
	}
}

const (
	overSeconds  = 20
	overSamples  = overSeconds * burstSamples
	trueJoules   = 12 * (overSeconds*0.3 + overSamples*1e-3*(peakAmps-0.3))
	supplyWatts  = 12.6 * 8
	wrongIfNoGap = 12 * overSeconds * 0.3
)

func overRangeMeter(t *testing.T, out sink, fullScale, greatestWatts float64) *Meter {
	config := testConfig()
	if fullScale > 0 {
		config.FullScale = map[string]float64{"CH2": fullScale}
	}
	for i := range config.Rails {
		config.Rails[i].GreatestWatts = greatestWatts
	}
	return newTestMeter(t, config, out)
}

func TestWhatIsOverRangeIsBookedAndBoundedByTheSupplyOrByNothing(t *testing.T) {
	differs(t, "bounds by what was seen", wrongIfNoGap, trueJoules)
	for what, scene := range map[string]struct{ reading, fullScale float64 }{
		"infinite":                   {math.Inf(1), 0},
		"SCPI's infinity":            {9.9e37, 0},
		"infinite, with a range":     {math.Inf(1), fullScaleAmps},
		"clipped at full scale":      {fullScaleAmps, fullScaleAmps},
		"clipped, the other way":     {-fullScaleAmps, fullScaleAmps},
		"clipped beyond full scale ": {4.1, fullScaleAmps},
	} {
		for _, greatest := range []float64{0, supplyWatts} {
			out := &lines{}
			m := overRangeMeter(t, out, scene.fullScale, greatest)
			send(t, m, overSeconds*1000, constantly(12), as(scene.reading), onTime)
			points := out.points(t, "12v")
			balanced(t, points)
			f := last(points)
			if f["over_range"] != overSamples || f["lost"] != 0 || f["samples"]+overSamples != f["expected"] {
				t.Errorf("%s: %v", what, f)
			}
			close2(t, what+": gap", f["gap_seconds"], overSamples*1e-3, 1e-9)
			s, _, _ := m.status()
			if greatest == 0 {
				close2(t, what+": unbounded", f["unbounded_seconds"], overSamples*1e-3, 1e-9)
				if s.Rails[0].JoulesHigh != nil || s.Rails[0].JoulesLow != nil || s.OverRange != overSamples {
					t.Errorf("%s: the status has bounds where there are none: %+v", what, s.Rails[0])
				}
			} else if low, high := f["joules_low"], f["joules_high"]; !(low <= trueJoules && trueJoules <= high) || f["unbounded_seconds"] != 0 {
				t.Errorf("%s: %g to %g J, true are %g", what, low, high, trueJoules)
			}
		}
	}
}

func TestWithoutADeclaredRangeClippingCannotBeSeen(t *testing.T) {
	out := &lines{}
	send(t, overRangeMeter(t, out, 0, supplyWatts), overSeconds*1000, constantly(12), as(fullScaleAmps), onTime)
	if f := last(out.points(t, "12v")); f["over_range"] != 0 || f["joules_high"] >= trueJoules {
		t.Errorf("full_scale would not be needed: %v", f)
	}
}

func TestWhatSCPIHasForNoNumberIsLostAndNotOverRange(t *testing.T) {
	m, out := testMeter(t)
	send(t, m, 2000, constantly(12), as(9.91e37), onTime)
	if f := last(out.points(t, "12v")); f["lost"] != 2*burstSamples || f["over_range"] != 0 || f["joules"] > 24 {
		t.Errorf("%v", f)
	}
}

func TestOnlyTheChannelThatIsOverRangeMakesItsRailSo(t *testing.T) {
	out := &lines{}
	m := overRangeMeter(t, out, fullScaleAmps, 0)
	send(t, m, 2000, constantly(12), bursts, onTime)
	if f := last(out.points(t, "5v")); f["over_range"] != 0 || f["unbounded_seconds"] != 0 {
		t.Errorf("%v", f)
	}
}

func TestSrcapGetsTheRangesOfARail(t *testing.T) {
	m := overRangeMeter(t, &lines{}, fullScaleAmps, 0)
	if got := strings.Join(m.beginStream(), " "); !strings.HasPrefix(got, "--rail CH1,CH2,1,0,1,0,+Inf,4.09") || strings.Count(got, ",") != 7+5 {
		t.Errorf("%s", got)
	}
}

func TestRangesThatCannotBe(t *testing.T) {
	for want, spoil := range map[string]func(*MeterConfig){
		`full_scale: "CH9" is no channel of its rails (allowed: CH1, CH2, CH3, CH4)`: func(c *MeterConfig) { c.FullScale = map[string]float64{"CH9": 1} },
		"full_scale.CH2: 0 (allowed: above 0, up to 1e+09)":                          func(c *MeterConfig) { c.FullScale = map[string]float64{"CH2": 0} },
		"rails[1].greatest_watts: -1 (allowed: above 0, or 0 where it is not known)": func(c *MeterConfig) { c.Rails[1].GreatestWatts = -1 },
	} {
		config := testConfig()
		spoil(&config)
		if err := config.check("meters[0]"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A multimeter shows OL while the drive spins up. Its neighbours' mean is no measurement of that.
func TestAReadingThatIsOverRangeIsAGapBetweenItsNeighbours(t *testing.T) {
	for _, greatest := range []float64{0, supplyWatts} {
		out := &lines{}
		config := pollConfig()
		for i := range config.Rails {
			config.Rails[i].GreatestWatts = greatest
		}
		m := newTestMeter(t, config, out)
		m.beginStream()
		for k := range 200 {
			ns := 100e9 + int64(k)*50e6
			amps, watts := 0.3+0.001*float64(k%2), 3.6+0.001*float64(k%2)
			if k >= 50 && k < 60 {
				amps, watts = math.Inf(1), 9.9e37
			}
			reading(t, m, 0, ns, 12+0.001*float64(k%2))
			reading(t, m, 1, ns+1e6, amps)
			reading(t, m, 2, ns+2e6, watts)
		}
		m.endStream(Silent, "")
		for _, rail := range []string{"12v", "5v"} {
			points := out.points(t, rail)
			balanced(t, points)
			f := last(points)
			if f["over_range"] != 10 || f["lost"] != 0 {
				t.Errorf("%s: %v", rail, f)
			}
			close2(t, rail+": gap", f["gap_seconds"], 0.55, 1e-3)
			if greatest == 0 && f["unbounded_seconds"] < 0.549 {
				t.Errorf("%s: %v", rail, f)
			}
			seconds := (f["expected"] - 1) * 0.05
			if peak := 3.6*(seconds-0.5) + 12*peakAmps*0.5; greatest > 0 && !(f["joules_low"] < peak && peak < f["joules_high"]) {
				t.Errorf("%s: %g to %g J, true are %g", rail, f["joules_low"], f["joules_high"], peak)
			}
		}
	}
}
