// SPDX-License-Identifier: GPL-3.0-or-later

package ledger

import "testing"

const period = 1e-3

func TestEverySlotIsInOneBook(t *testing.T) {
	var l Ledger
	l.Samples = 10000
	if s := l.Gap(2.5, period); s != 2.5 {
		t.Errorf("gap of %g s, want 2.5", s)
	}
	l.Samples += 480
	l.Missing(15, period)
	l.Again(5, period)
	l.Surplus += 7
	if e := l.Expected(); e != 10000+2500+500 {
		t.Errorf("expected %d of %+v", e, l)
	}
	if l.Lost != 2515 || l.Duplicate != 5 || l.GapSeconds != 2.52 {
		t.Errorf("%+v", l)
	}
}

func TestTheWorstGapIsTheLongestSingleOne(t *testing.T) {
	var l Ledger
	l.Missing(30, period)
	l.Gap(0.2, period)
	l.Missing(100, period)
	if l.WorstGapSeconds != 0.2 || l.GapSeconds != 0.33 {
		t.Errorf("%+v", l)
	}
}

func TestOverlapOfTwoFitsIsNoGap(t *testing.T) {
	var l Ledger
	if s := l.Gap(-0.001, period); s != 0 || l != (Ledger{}) {
		t.Errorf("gap %g, %+v", s, l)
	}
}

// The lengths of gaps come from clocks: a slot is lost where most of it is.
func TestTheSlotsOfAGapAreRounded(t *testing.T) {
	for seconds, lost := range map[float64]int64{2.9996e-3: 3, 3.0004e-3: 3, 0.4e-3: 0, 0.6e-3: 1} {
		var l Ledger
		if l.Gap(seconds, period); l.Lost != lost {
			t.Errorf("%g s: %d slots are lost, want %d", seconds, l.Lost, lost)
		}
	}
}

func TestEachBookHasItsOwnSlotsAndTheTimeOfAllThatAreNotInTheJoules(t *testing.T) {
	var l Ledger
	l.Samples, l.Repeated, l.Surplus = 1000, 30, 500
	if s := l.Missing(1, period) + l.Again(2, period) + l.Over(3, period); s != 6e-3 {
		t.Errorf("gaps of %g s, want 0.006", s)
	}
	l.Between(0.5, 4, 5, 0)
	want := Ledger{Samples: 1000, Lost: 1 + 4, Duplicate: 2, Repeated: 30, OverRange: 3 + 5, Surplus: 500, GapSeconds: 0.506, WorstGapSeconds: 0.5}
	if l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	// Surplus is in no slot.
	if e := l.Expected(); e != 1000+5+2+30+8 {
		t.Errorf("expected %d", e)
	}
}
