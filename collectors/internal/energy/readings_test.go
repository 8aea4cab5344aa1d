// SPDX-License-Identifier: GPL-3.0-or-later

package energy

import (
	"math"
	"slices"
	"testing"
)

func TestVoltsAndAmpsOfDifferentInstantsMeetAtTheAmpsInstant(t *testing.T) {
	var got []Reading
	p := NewPairs(1e9, func(r Reading) { got = append(got, r) })
	p.Volts(0, 10)
	p.Amps(10e6, 2)
	p.Volts(20e6, 12)
	p.Amps(35e6, 1)
	p.Volts(40e6, 8)
	if len(got) != 2 || got[0].NS != 10e6 || got[1].NS != 35e6 {
		t.Fatalf("%+v", got)
	}
	expectNear(t, "volts on the line", got[0].Volts, 11)
	expectNear(t, "watts", got[0].Watts, 22)
	expectNear(t, "watts", got[1].Watts, 12+(8-12)*0.75)
}

func TestNoPowerIsMadeAcrossAPauseOfTheVolts(t *testing.T) {
	n := 0
	p := NewPairs(50e6, func(Reading) { n++ })
	p.Volts(0, 10)
	p.Amps(10e6, 2)
	p.Volts(500e6, 12)
	if n != 0 {
		t.Error("power from volts half a second apart")
	}
	p.Amps(510e6, 2)
	p.Volts(520e6, 12)
	if n != 1 {
		t.Errorf("%d readings, want 1", n)
	}
}

func TestAmpsBeforeAnyVoltsAreNoPower(t *testing.T) {
	n := 0
	p := NewPairs(50e6, func(Reading) { n++ })
	p.Amps(0, 2)
	p.Volts(10e6, 12)
	if n != 0 {
		t.Error("power from amps that no volts came before")
	}
}

func TestARepeatedReadingIsDetected(t *testing.T) {
	var again []bool
	p := NewPairs(1e9, func(r Reading) { again = append(again, r.Again) })
	for k, values := range [][2]float64{{5, 1}, {5, 1}, {5, 2}, {5, 2}, {6, 2}, {6, 2}} {
		p.Volts(int64(k)*20e6, values[0])
		p.Amps(int64(k)*20e6+10e6, values[1])
	}
	p.Volts(200e6, 6)
	want := []bool{false, true, false, true, false, true}
	for k := range want {
		if again[k] != want[k] {
			t.Fatalf("%v, want %v", again, want)
		}
	}
}

// Readings 20 ms apart of a slow sine of power: the trapezoids' sum is its integral.
func TestEnergyOfReadingsIsOnTheirOwnTime(t *testing.T) {
	power := func(ns int64) float64 { return 3 + 2*math.Sin(2*math.Pi*float64(ns)/1e9) }
	readingAt := func(ns int64) Reading { return Reading{NS: ns, Watts: power(ns)} }
	joules := 0.0
	ns := int64(0)
	for k := range 100 {
		step := int64(15e6)
		if k%2 == 1 {
			step = 25e6 // an even spacing would have hidden a mean that ignores it
		}
		joules += Between(readingAt(ns), readingAt(ns+step)).Joules
		ns += step
	}
	if math.Abs(joules-6) > 0.01 {
		t.Errorf("%g J in 2 s, want 6", joules)
	}
}

func TestWhatIsSkippedOrBeforeAGapMakesNoPower(t *testing.T) {
	for what, between := range map[string]func(*Pairs){"skipped": (*Pairs).Skip, "a gap": (*Pairs).Break} {
		n := 0
		p := NewPairs(1e9, func(Reading) { n++ })
		p.Volts(0, 12)
		p.Amps(10e6, 2)
		between(p)
		if p.Volts(20e6, 12); n != 0 {
			t.Errorf("%s: power was made", what)
		}
		p.Amps(30e6, 2)
		if p.Volts(40e6, 12); n != 1 {
			t.Errorf("%s: %d readings after it, want 1", what, n)
		}
	}
}

// joined runs a joint over readings of both meters, V or A at milliseconds, and returns its power.
func joined(readings ...[3]float64) (got []Reading) {
	j := NewJoint(func(r Reading) { got = append(got, r) })
	for _, r := range readings {
		switch ns := int64(r[1] * 1e6); r[0] {
		case volts:
			j.Volts(ns, r[2])
		case amps:
			j.Amps(ns, r[2])
		default:
			j.Break()
		}
	}
	return got
}

const volts, amps, gapFollows = 0, 1, 2

func TestTwoMetersMeetAtTheAmpsInstantWhicheverComesFirst(t *testing.T) {
	for name, readings := range map[string][][3]float64{
		"amps first":  {{amps, 10, 2}, {amps, 15, 4}, {volts, 0, 10}, {volts, 20, 12}, {amps, 30, 1}, {volts, 40, 8}},
		"volts first": {{volts, 0, 10}, {volts, 20, 12}, {amps, 10, 2}, {amps, 15, 4}, {volts, 40, 8}, {amps, 30, 1}},
	} {
		got := joined(readings...)
		if len(got) != 3 || got[0].NS != 10e6 || got[1].NS != 15e6 || got[2].NS != 30e6 {
			t.Fatalf("%s: %+v", name, got)
		}
		for n, want := range []float64{11 * 2, 11.5 * 4, 10 * 1} {
			expectNear(t, name, got[n].Watts, want)
		}
	}
}

func TestAmpsThatHaveNoVoltsOnBothSidesAreLost(t *testing.T) {
	for name, c := range map[string]struct {
		readings [][3]float64
		times    []int64 // of the power, ms
	}{
		"none before":       {[][3]float64{{amps, 5, 1}, {volts, 10, 12}, {amps, 15, 1}, {volts, 20, 12}}, []int64{15}},
		"too far apart":     {[][3]float64{{volts, 0, 12}, {amps, 500, 1}, {volts, 2001, 12}, {amps, 2500, 1}, {volts, 3000, 12}}, []int64{2500}},
		"just near enough":  {[][3]float64{{volts, 0, 12}, {amps, 500, 1}, {volts, 2000, 12}}, []int64{500}},
		"a gap":             {[][3]float64{{volts, 0, 12}, {amps, 10, 1}, {gapFollows}, {volts, 20, 12}, {volts, 30, 12}, {amps, 25, 1}}, []int64{25}},
		"volts of the past": {[][3]float64{{volts, 0, 12}, {volts, 20, 12}, {volts, 5, 99}, {amps, 10, 1}, {volts, 40, 12}, {amps, 30, 1}}, []int64{10, 30}},
	} {
		got := joined(c.readings...)
		if len(got) != len(c.times) {
			t.Errorf("%s: %+v, want power at %v ms", name, got, c.times)
			continue
		}
		for n, r := range got {
			if r.NS != c.times[n]*1e6 || r.Volts != 12 {
				t.Errorf("%s: %+v, want power at %v ms", name, got, c.times)
			}
		}
	}
}

func TestTheFirstReadingAfterAGapRepeatsNone(t *testing.T) {
	var again []bool
	for _, r := range joined([][3]float64{
		{volts, 0, 12}, {amps, 10, 1}, {volts, 20, 12}, {amps, 30, 1}, {volts, 40, 12}, {gapFollows},
		{volts, 50, 12}, {amps, 60, 1}, {volts, 70, 12}, {amps, 80, 1}, {volts, 90, 12},
	}...) {
		again = append(again, r.Again)
	}
	if want := []bool{false, true, false, true}; !slices.Equal(again, want) {
		t.Errorf("repeated: %v, want %v", again, want)
	}
}

func TestEnergyBetweenReadingsIsTheTrapezoid(t *testing.T) {
	if got, want := Between(Reading{NS: 1e9, Watts: 2}, Reading{NS: 3e9, Watts: 5}), (Span{2, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A meter whose partner is silent: what waits is bounded, and the newest is kept.
func TestReadingsWithoutAPartnerFillNoMemory(t *testing.T) {
	n := 0
	j := NewJoint(func(Reading) { n++ })
	j.Volts(0, 12)
	for k := range int64(3 * mostWaiting) {
		j.Amps(1+k, 1)
	}
	if len(j.amps.waiting) != mostWaiting {
		t.Errorf("%d readings wait, at most %d may", len(j.amps.waiting), mostWaiting)
	}
	if j.Volts(3*mostWaiting, 12); n != mostWaiting {
		t.Errorf("%d readings have power, want %d", n, mostWaiting)
	}
}
