// SPDX-License-Identifier: GPL-3.0-or-later

package energy

import (
	"math"
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
