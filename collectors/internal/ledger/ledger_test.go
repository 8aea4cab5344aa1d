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
