// SPDX-License-Identifier: GPL-3.0-or-later

package ledger

import "testing"

func TestBalancesAcrossARestart(t *testing.T) {
	l := New(1000)
	l.Start(5e9, 0)
	l.Samples = 10000 // 10 s
	if gap := l.Start(17.5e9, 15e9); gap != 2.5 {
		t.Errorf("gap %g s, want 2.5", gap)
	}
	l.Samples += 500
	expected := l.Expected(18e9)
	if expected != 13000 || l.Samples+l.Lost-l.Repeated != expected {
		t.Errorf("expected %d, samples %d, lost %d", expected, l.Samples, l.Lost)
	}
	if l.GapSeconds != 2.5 {
		t.Errorf("gap_seconds %g", l.GapSeconds)
	}
}

func TestBalancesWhenSamplesAreMissingOrTooMany(t *testing.T) {
	l := New(1000)
	l.Start(0, 0)
	l.Samples = 950
	l.Missing(50)
	l.Samples += 1020
	l.Missing(-20)
	if e := l.Expected(2e9); e != 2000 || l.Samples+l.Lost-l.Repeated != e {
		t.Errorf("expected %d of %+v", e, l)
	}
	if l.GapSeconds != 0.05 {
		t.Errorf("gap_seconds %g: samples too many are no gap", l.GapSeconds)
	}
}

func TestExpectedDoesNotComeFromWhatWasReceived(t *testing.T) {
	l := New(1000)
	l.Start(0, 0)
	l.Samples = 900 // of the first second
	if e := l.Expected(1e9); e != 1000 {
		t.Errorf("expected %d, want 1000", e)
	}
}

func TestOverlapOfTwoFitsIsNoGap(t *testing.T) {
	l := New(1000)
	l.Start(0, 0)
	if gap := l.Start(9.999e9, 10e9); gap != 0 || l.Lost != 0 || l.GapSeconds != 0 {
		t.Errorf("gap %g, %+v", gap, l)
	}
}

func TestExpectedNeverFalls(t *testing.T) {
	l := New(1000)
	l.Start(0, 0)
	l.Expected(2e9)
	if e := l.Expected(1.99e9); e != 2000 {
		t.Errorf("fell to %d", e)
	}
}
