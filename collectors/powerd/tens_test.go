// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"strings"
	"testing"
)

// tensOf is what a rail's ten seconds came to.
func tensOf(t *testing.T, out *lines, rail string) []linePoint {
	t.Helper()
	return out.pointsOf(t, "power_10s", rail)
}

func TestTenSecondsAddUpToThePointsThatTheyAreMadeOf(t *testing.T) {
	m, out := testMeter(t)
	amps := func(k int) float64 { return 1 + float64(k%1000)/1000 } // 1 A to 2 A, each second
	send(t, m, 25_000, constantly(12), amps, onTime)                // from 50 s on
	tens := tensOf(t, out, "12v")
	if len(tens) != 3 {
		t.Fatalf("%d points of ten seconds, want 3: %v", len(tens), tens)
	}
	joules, seconds := 0.0, 0.0
	for i, p := range tens {
		joules += p.fields["measured_joules"]
		seconds += p.fields["measured_seconds"]
		if number, want := (p.time-utcOffset)/tensNS, int64(5+i); number != want {
			t.Errorf("point %d lies in the ten seconds %d, want %d", i, number, want)
		}
		close2(t, "least watts", p.fields["watts_min"], 12, 1e-6)
		close2(t, "greatest watts", p.fields["watts_max"], 12*1.999, 1e-6)
	}
	close2(t, "seconds", seconds, 25, 1e-9)
	close2(t, "joules", joules, last(out.points(t, "12v"))["joules"], 1e-9)
	close2(t, "mean watts of the second", tens[1].fields["measured_joules"]/tens[1].fields["measured_seconds"], 12*1.4995, 1e-6)
}

func TestAPeakIsInItsTenSecondsAlone(t *testing.T) {
	m, out := testMeter(t)
	amps := func(k int) float64 {
		if k == 15_500 {
			return 9
		}
		return 1
	}
	send(t, m, 25_000, constantly(12), amps, onTime)
	for i, want := range []float64{12, 108, 12} {
		close2(t, "greatest watts", tensOf(t, out, "12v")[i].fields["watts_max"], want, 1e-6)
	}
}

func TestTwoStreamsWithinTenSecondsHaveAPointEach(t *testing.T) {
	m, out := testMeter(t)
	play(t, m, 50e9, 2000)
	m.endStream(Silent, "")
	play(t, m, 55e9, 2000)
	m.endStream(Silent, "")
	tens := tensOf(t, out, "12v")
	if len(tens) != 2 || tens[0].time == tens[1].time {
		t.Fatalf("points %v, want two of different times", tens)
	}
	for _, p := range tens {
		close2(t, "seconds", p.fields["measured_seconds"], 2, 1e-6)
		close2(t, "joules", p.fields["measured_joules"], 48, 1e-6)
	}
	close2(t, "gap", tens[1].fields["gap_seconds"], 3, 1e-3)
}

func TestAStreamWithoutAPointHasNoTenSeconds(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	m.endStream(Failed, "it said nothing")
	if strings.Contains(out.String(), "power_10s") {
		t.Errorf("written: %s", out.String())
	}
}
