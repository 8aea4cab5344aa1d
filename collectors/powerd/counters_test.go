// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"joulerig/collectors/internal/srframe"
)

// balanced checks the ledger's identity on every point.
func balanced(t *testing.T, points []linePoint) {
	t.Helper()
	for i, p := range points {
		f := p.fields
		if f["expected"] != f["samples"]+f["lost"]+f["duplicate"]+f["repeated"]+f["over_range"]+f["impossible"] {
			t.Fatalf("point %d does not balance: %v", i, f)
		}
		if f["joules_low"] > f["joules_high"] {
			t.Fatalf("point %d: %g to %g J", i, f["joules_low"], f["joules_high"])
		}
	}
}

func last(points []linePoint) map[string]float64 { return points[len(points)-1].fields }

func close2(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// steps sends `seconds` of 12 V with 1 A and 3 A in turn, each for 100 ms, in frames of 20 samples,
// leaving out those that skip says.
func steps(t *testing.T, m *Meter, start int64, seconds float64, skip func(at int) bool) {
	t.Helper()
	m.beginStream()
	index := 0
	for at := 0; at < int(seconds*1000); at += 20 {
		if skip(at) {
			continue
		}
		amps := float32(1)
		if at/100%2 == 1 {
			amps = 3
		}
		for ch, v := range []float32{12, amps, 5, 0.5} {
			if err := m.frame(samples(uint16(ch), uint64(index), start+int64(at+20)*1e6, constant(20, v)...)); err != nil {
				t.Fatal(err)
			}
		}
		index += 20
		m.endBatch()
	}
}

func TestWithoutAGapLowAndHighAreTheJoules(t *testing.T) {
	m, out := testMeter(t)
	play(t, m, 50e9, 2000)
	m.endStream(Silent, "")
	points := out.points(t, "5v")
	balanced(t, points)
	for _, p := range points {
		if p.fields["joules_low"] != p.fields["joules"] || p.fields["joules_high"] != p.fields["joules"] {
			t.Fatalf("%v", p.fields)
		}
	}
}

func TestAGapAddsTheLeastAndTheMostThatTheRailWasSeenToDraw(t *testing.T) {
	m, out := testMeter(t)
	steps(t, m, 50e9, 2, func(int) bool { return false })
	m.endStream(Silent, "unplugged")
	steps(t, m, 55e9, 2, func(int) bool { return false })
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	f := last(points)
	close2(t, "joules", f["joules"], 4*24, 1e-6)
	close2(t, "low", f["joules_low"], 4*24+3*12, 1e-6)
	close2(t, "high", f["joules_high"], 4*24+3*36, 1e-6)
	close2(t, "gap", f["gap_seconds"], 3, 1e-6)
	s, _, _ := m.status()
	close2(t, "worst gap", s.WorstGapSeconds, 3, 1e-6)
}

// One block of twenty goes missing inside the instrument, all the time and without a word: only the
// clock can tell.
func TestFivePercentOfBlocksDroppedIsFivePercentInTheLedger(t *testing.T) {
	config := testConfig()
	config.Rails[0].GreatestWatts = 40 // what goes missing without a trace may be the tallest bursts
	out := &lines{}
	m := newTestMeter(t, config, out)
	const seconds = 60
	steps(t, m, 50e9, seconds, func(at int) bool { return at/20%20 == 7 })
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	// From 10 s on, when the clock has had the time to see it.
	var from map[string]float64
	for _, p := range points {
		if p.fields["samples"] >= 10000 {
			from = p.fields
			break
		}
	}
	to := last(points)
	rise := func(field string) float64 { return to[field] - from[field] }
	close2(t, "lost share", rise("lost")/rise("expected"), 0.05, 0.002)
	covered := rise("expected") / 1000
	if low, high := rise("joules_low"), rise("joules_high"); !(low < 24*covered && 24*covered < high) {
		t.Errorf("%g J in %g s, bounds %g to %g", 24*covered, covered, low, high)
	}
}

func TestABlockThatComesTwiceIsNotMeasuredTwice(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	wave := func(first int) (v []float32) {
		for k := range 20 {
			v = append(v, float32(math.Sin(float64(first+k))+2))
		}
		return v
	}
	for at := 0; at < 2000; at += 20 {
		from := at
		if at == 1000 {
			from = 980 // the previous window repeated, in place of this one
		}
		for ch := range 4 {
			if err := m.frame(samples(uint16(ch), uint64(at), 50e9+int64(at+20)*1e6, wave(from)...)); err != nil {
				t.Fatal(err)
			}
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	f := last(points)
	if f["duplicate"] != 20 || f["samples"] != 1980 || f["lost"] != 0 || f["gap_seconds"] != 0.02 {
		t.Errorf("%v", f)
	}
	want := 0.0
	for k := range 2000 {
		if k < 1000 || k >= 1020 {
			v := float64(float32(math.Sin(float64(k)) + 2))
			want += v * v / 1000
		}
	}
	close2(t, "joules", f["joules"], want, 1e-6)
	if !(f["joules_low"] > f["joules"] && f["joules_high"] > f["joules_low"]) {
		t.Errorf("%g to %g J", f["joules_low"], f["joules_high"])
	}
}

func TestARailAtRestIsNotTakenForARepetition(t *testing.T) {
	m, out := testMeter(t)
	play(t, m, 50e9, 2000)
	m.endStream(Silent, "")
	if f := last(out.points(t, "12v")); f["duplicate"] != 0 || f["samples"] != 2000 {
		t.Errorf("%v", f)
	}
}

func TestWhatIsNoNumberIsALostSample(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	nan := float32(math.NaN())
	for at := 0; at < 2000; at += 20 {
		for ch, v := range []float32{12, 2, 5, -1} {
			block := constant(20, v)
			if at == 500 || at == 1000 {
				for k := 4; k < 14; k++ {
					block[k] = nan
				}
			}
			if err := m.frame(samples(uint16(ch), uint64(at), 50e9+int64(at+20)*1e6, block...)); err != nil {
				t.Fatal(err)
			}
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	f := last(points)
	if f["lost"] != 20 || f["samples"] != 1980 {
		t.Errorf("%v", f)
	}
	close2(t, "gap", f["gap_seconds"], 0.02, 1e-9)
	close2(t, "joules", f["joules"], 1.98*24, 1e-9)
	close2(t, "low", f["joules_low"], 2*24, 1e-9)
	// The status has the time since then in it.
	close2(t, "worst gap", m.rails[0].counters.WorstGapSeconds, 0.01, 1e-9)
}

func TestSamplesTooManyAreThrownAwayAndTheTimeIsRight(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	index := 0
	for at := 0; at < 40000; at += 20 {
		times := 1
		if at == 20000 {
			times = 16 // 300 samples from nowhere
		}
		for range times {
			for ch, v := range []float32{12, 2, 5, -1} {
				if err := m.frame(samples(uint16(ch), uint64(index), 50e9+int64(at+20)*1e6, constant(20, v)...)); err != nil {
					t.Fatal(err)
				}
			}
			index += 20
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	f := last(points)
	if f["surplus"] != 300 || f["expected"] != 40000 {
		t.Errorf("%v", f)
	}
	close2(t, "joules", f["joules"], 40*24, 0.1)
}

func TestACrystalThatIsSlowDoesNotMakeTheJoulesWrong(t *testing.T) {
	out := &lines{}
	config := testConfig()
	config.ClockPPM = 300
	m := newTestMeter(t, config, out)
	m.beginStream()
	const ppm = 200
	for at := 0; at < 120000; at += 20 {
		mono := 50e9 + int64(float64(at+20)*1e6*(1+ppm*1e-6))
		for ch, v := range []float32{12, 2} {
			if err := m.frame(samples(uint16(ch), uint64(at), mono, constant(20, v)...)); err != nil {
				t.Fatal(err)
			}
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	var from, to linePoint = points[2000], points[len(points)-1]
	seconds := float64(to.time-from.time) / 1e9
	close2(t, "watts over the controller's time", (to.fields["joules"]-from.fields["joules"])/seconds, 24, 24*5e-6)
}

func TestCalibrationIsAppliedToEachChannel(t *testing.T) {
	config := testConfig()
	config.Calibration = map[string]Correction{"CH1": {1.01, -0.02}, "CH2": {0.99, 0.001}}
	out := &lines{}
	m := newTestMeter(t, config, out)
	play(t, m, 50e9, 2000)
	m.endStream(Silent, "")
	v, a := 1.01*12-0.02, 0.99*2+0.001
	f := last(out.points(t, "12v"))
	close2(t, "volts", f["volts"], v, 1e-9)
	close2(t, "joules", f["joules"], 2*v*a, 1e-9)
	close2(t, "joules of the rail without", last(out.points(t, "5v"))["joules"], -10, 1e-9)
}

func reopened(t *testing.T, dir string, fresh string) (*Meter, *lines, string) {
	t.Helper()
	m, out := testMeter(t)
	session, err := openState([]*Meter{m}, dir, fresh)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.stateFile.Close() })
	return m, out, session
}

func TestARestartOfPowerdIsAGapOfTheSameSession(t *testing.T) {
	dir := t.TempDir()
	first, before, session := reopened(t, dir, "one")
	if session != "one" {
		t.Fatal(session)
	}
	play(t, first, 50e9, 2000)
	first.endStream(Silent, "")
	second, after, session := reopened(t, dir, "two")
	if session != "one" {
		t.Fatalf("session %s, want the one before", session)
	}
	play(t, second, 55e9, 1000) // the clock of another boot would do as well: the time between is UTC's
	second.endStream(Silent, "")
	was, now := last(before.points(t, "12v")), after.points(t, "12v")
	balanced(t, now)
	origin, f := now[0].fields, last(now)
	if origin["joules"] != was["joules"] || origin["samples"] != 2000 || origin["lost"] != 3000 {
		t.Errorf("first point %v, last before %v", origin, was)
	}
	close2(t, "gap", f["gap_seconds"], 3, 1e-3)
	close2(t, "joules", f["joules"], 72, 1e-6)
	close2(t, "low", f["joules_low"], 72+72, 0.1)
}

func TestEachSessionIsRecordedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions")
	for _, session := range []string{"one", "one", "two", "one"} {
		if err := recordSession(path, session); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(path); string(text) != "one\ntwo\n" {
		t.Errorf("%q", text)
	}
}

func TestASessionIsRecordedAfterAnAppendThatWasCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions")
	if err := os.WriteFile(path, []byte("one\ntw"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := recordSession(path, "three"); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "one\ntw\nthree\n" {
		t.Errorf("%q", text)
	}
}

func TestAStateThatIsDamagedOrOfOtherRailsBeginsAnotherSession(t *testing.T) {
	dir := t.TempDir()
	m, _, _ := reopened(t, dir, "one")
	play(t, m, 50e9, 2000)
	m.endStream(Silent, "")
	path := filepath.Join(dir, "tap.state")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte){
		"torn":    func(b []byte) { clear(b[60:90]); clear(b[min(len(b), slotBytes+60):]) },
		"cleared": func(b []byte) { clear(b) },
	} {
		bad := append([]byte(nil), text...)
		damage(bad)
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, session := reopened(t, dir, "two"); session != "two" {
			t.Errorf("%s: session %s", name, session)
		}
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	other := testConfig()
	other.Rails[0].Drive = "another"
	changed := newTestMeter(t, other, &lines{})
	session, err := openState([]*Meter{changed}, dir, "two")
	if err != nil || session != "two" || changed.rails[1].counters.Samples != 0 {
		t.Errorf("session %s goes on with other rails (%v)", session, err)
	}
}

func pollConfig() MeterConfig {
	return MeterConfig{Name: "psu", Driver: "fake", Timing: Poll, SampleRateHz: 20, SilenceSeconds: 2,
		Rails: []RailConfig{
			{Rail: "12v", Host: "h", Drive: "d", Volts: "V1", Amps: "I1"},
			{Rail: "5v", Host: "h", Drive: "d", Watts: "P2"},
			{Rail: "all", Host: "h", Drive: "d", WattHours: "E"},
		}}
}

func reading(t *testing.T, m *Meter, channel int, ns int64, value float64) {
	t.Helper()
	f := samples(uint16(channel), 0, ns, float32(value))
	switch channel {
	case 2:
		f.Quantity = srframe.Power
	case 3:
		f.Quantity, f.Unit = srframe.Power, srframe.WattHour
	}
	if err := m.frame(f); err != nil {
		t.Fatal(err)
	}
}

// rounds asks for volts, amps, watts and watt hours in turn, again each 50 ms, from..to in ns, a
// slow sine of power.
func rounds(t *testing.T, m *Meter, from, to int64) {
	t.Helper()
	for ns := from; ns < to; ns += 50e6 {
		amps := 2 + math.Sin(2*math.Pi*float64(ns)/2e9)
		reading(t, m, 0, ns, 12)
		reading(t, m, 1, ns+10e6, 2+math.Sin(2*math.Pi*float64(ns+10e6)/2e9))
		reading(t, m, 2, ns+20e6, 5*amps)
		reading(t, m, 3, ns+30e6, float64(ns-from)/1e9*0.01)
		m.endBatch()
	}
}

func TestPolledReadingsAreIntegratedOnTheirOwnTime(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, pollConfig(), out)
	m.beginStream()
	rounds(t, m, 100e9, 110e9)
	m.endStream(Silent, "")
	for rail, watts := range map[string]float64{"12v": 24, "5v": 10, "all": 36} {
		points := out.points(t, rail)
		balanced(t, points)
		first, f := points[0], last(points)
		seconds := float64(points[len(points)-1].time-first.time) / 1e9
		if seconds < 9.8 {
			t.Errorf("%s: %g s of 10", rail, seconds)
		}
		close2(t, rail, f["joules"]/seconds, watts, 0.02*watts)
		if f["lost"] != 0 || f["gap_seconds"] != 0 {
			t.Errorf("%s: %v", rail, f)
		}
		if open := f["unbounded_seconds"] > 9.8; open != (rail != "all") {
			t.Errorf("%s: without a declared supply, %g s of %g have no bounds", rail, f["unbounded_seconds"], seconds)
		}
		if _, has := f["volts"]; has != (rail == "12v") {
			t.Errorf("%s: %v", rail, f)
		}
	}
}

func TestAPauseOfReadingsIsAGapButNotToARegister(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, pollConfig(), out)
	m.beginStream()
	rounds(t, m, 100e9, 104e9)
	for channel, value := range []float64{12, 2, 10, 4.0/100 + 3.0/100} {
		reading(t, m, channel, 107e9+int64(channel)*10e6, value)
	}
	m.endStream(Silent, "")
	for _, rail := range []string{"5v", "all"} {
		points := out.points(t, rail)
		balanced(t, points)
		f := last(points)
		if rail == "5v" && !(f["gap_seconds"] > 2.9 && f["lost"] >= 58 && f["lost"] <= 62) {
			t.Errorf("%s: %v", rail, f)
		}
	}
	f := last(out.points(t, "all"))
	close2(t, "the register's joules", f["joules"], 0.07*3600, 1e-3)
	if f["gap_seconds"] != 0 || f["lost"] < 58 {
		t.Errorf("a register that counted all along has no gap, and its readings are lost: %v", f)
	}
}

func TestARegisterThatWasResetIsAGapAndNeverNegativeEnergy(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, pollConfig(), out)
	m.beginStream()
	for k, wh := range []float64{1.00, 1.01, 0.30, 0.31} {
		reading(t, m, 3, 100e9+int64(k)*50e6, wh)
	}
	m.endStream(Silent, "")
	f := last(out.points(t, "all"))
	close2(t, "joules", f["joules"], 72, 1e-3)
	close2(t, "gap", f["gap_seconds"], 0.05, 1e-9)
}

func TestReadingsThatComeTooSeldomAreLostAgainstTheDeclaredRate(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, pollConfig(), out)
	m.beginStream()
	// Declared 20 a second, 10 come: judged by their own mean interval nothing would be missing.
	for k := range 100 {
		reading(t, m, 2, 100e9+int64(k)*100e6, 5+float64(k%7))
	}
	m.endStream(Silent, "")
	points := out.points(t, "5v")
	balanced(t, points)
	f := last(points)
	close2(t, "lost share", f["lost"]/f["expected"], 0.5, 0.01)
}

func TestRepeatedReadingsAreNotCountedAsSamples(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, pollConfig(), out)
	m.beginStream()
	for k := range 100 {
		reading(t, m, 2, 100e9+int64(k)*50e6, float64(k/5)) // measures 4 times a second, asked 20 times
	}
	m.endStream(Silent, "")
	points := out.points(t, "5v")
	balanced(t, points)
	if f := last(points); f["repeated"] != 80 || f["samples"] != 20 {
		t.Errorf("%v", f)
	}
}

// REALTIME is set back 5 s at 20 s. Times run at half speed from there on; each point says how far
// ahead of the clock it is, so that an interval around it has the error in its bounds.
func TestAPointOfAClockThatWasSetBackSaysHowFarItsTimeIsOff(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	const setAt, back = 20000, int64(5e9)
	offset := func(at int) int64 {
		if at > setAt {
			return utcOffset - back
		}
		return utcOffset
	}
	for at := 0; at < 45000; at += 20 {
		for ch, v := range []float32{12, 2, 5, 1} {
			f := samples(uint16(ch), uint64(at), onTime(at+20), constant(20, v)...)
			f.RealtimeNS = f.MonotonicNS + offset(at)
			if err := m.frame(f); err != nil {
				t.Fatal(err)
			}
		}
		m.endBatch()
	}
	s, _, _ := m.status()
	m.endStream(Silent, "")
	worst, before := 0.0, int64(0)
	for i, p := range out.points(t, "12v") {
		end := int(p.fields["samples"])
		off := math.Abs(float64(p.time-onTime(end)-offset((end-1)/20*20))) / 1e9
		if off > p.fields["clock_residual_seconds"]+1e-6 {
			t.Fatalf("point %d is off by %g s and says %g", i, off, p.fields["clock_residual_seconds"])
		}
		if p.time <= before {
			t.Fatalf("point %d steps back", i)
		}
		worst, before = math.Max(worst, off), p.time
	}
	if worst < 4.9 {
		t.Errorf("the clock was set back by 5 s, points were off by %g s at most", worst)
	}
	if f := last(out.points(t, "12v")); f["clock_residual_seconds"] > 1e-6 || s.ClockResidualSeconds > 1e-6 {
		t.Errorf("ten seconds later the times are right again: %v, %v", f, s.ClockResidualSeconds)
	}
}

// A quiet rail on coarse steps (10 mV, 1 mA) with a last digit that flickers in 3 % of the samples:
// many of its blocks are equal, and none comes twice.
func TestEqualBlocksOfAQuietCoarseRailAreNoDuplicates(t *testing.T) {
	m, out := testMeter(t)
	r := rand.New(rand.NewPCG(3, 5))
	flicker := func(step, value float64) func(int) float64 {
		return func(int) float64 {
			if r.Float64() < 0.015 {
				return value + step
			}
			return value
		}
	}
	send(t, m, 200000, flicker(0.01, 11.98), flicker(0.001, 0.042), onTime)
	points := out.points(t, "12v")
	balanced(t, points)
	if f := last(points); f["duplicate"] != 0 || f["samples"] != 200000 {
		t.Errorf("%v", f)
	}
}

// The same steps under load: a block that comes twice is known for one.
func TestABlockOfCoarseStepsUnderLoadThatComesTwiceIsADuplicate(t *testing.T) {
	m, out := testMeter(t)
	r := rand.New(rand.NewPCG(3, 5))
	amps := make([]float64, 20000)
	for k := range amps {
		amps[k] = 0.042 + 0.001*float64(r.IntN(12))
		if k/20 == 500 {
			amps[k] = amps[k-20]
		}
	}
	send(t, m, len(amps), constantly(11.98), func(k int) float64 { return amps[k] }, onTime)
	if f := last(out.points(t, "12v")); f["duplicate"] != 20 {
		t.Errorf("%v", f)
	}
}

// withBlockTwice gives the samples of `read`, but from `first` on n samples that came n before.
func withBlockTwice(read func(k int) float64, first, n int) func(k int) float64 {
	return func(k int) float64 {
		if k >= first && k < first+n {
			k -= n
		}
		return read(k)
	}
}

// A block that comes twice within the instrument does not lie as the blocks do in which its samples
// come.
func TestABlockThatComesTwiceAcrossTwoFramesIsADuplicate(t *testing.T) {
	for offset := range 20 {
		r := rand.New(rand.NewPCG(3, 4))
		noisy := make([]float64, 4000)
		for k := range noisy {
			noisy[k] = 0.5 + 0.1*r.Float64()
		}
		m, out := testMeter(t)
		first := 2000 + offset
		send(t, m, len(noisy),
			withBlockTwice(func(k int) float64 { return 12 - 0.05*noisy[k] }, first, 20),
			withBlockTwice(func(k int) float64 { return noisy[k] }, first, 20), onTime)
		f := last(out.points(t, "12v"))
		if f["duplicate"] != 20 && f["duplicate"] != 40 {
			t.Errorf("offset %d: %v samples are duplicate", offset, f["duplicate"])
		}
	}
}

// A signal that repeats itself, with a period that is no multiple of a frame's samples, repeats no
// block: nor does noise of coarse steps, of which many stretches are alike by chance.
func TestASignalThatRepeatsItselfHoldsNoDuplicates(t *testing.T) {
	for _, period := range []int{8, 13, 27, 50} {
		m, out := testMeter(t)
		wave := func(k int) float64 { return 0.5 + 0.2*math.Sin(2*math.Pi*float64(k%period)/float64(period)) }
		send(t, m, 20000, func(k int) float64 { return 12 - 0.05*wave(k) }, wave, onTime)
		if f := last(out.points(t, "12v")); f["duplicate"] != 0 {
			t.Errorf("period %d: %v samples are duplicate", period, f["duplicate"])
		}
	}
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(5, seed))
		steps := make([]float64, 100000)
		for k := range steps {
			steps[k] = 0.3 + 0.0005*float64(r.IntN(7))
		}
		m, out := testMeter(t)
		send(t, m, len(steps), constantly(12), func(k int) float64 { return steps[k] }, onTime)
		if f := last(out.points(t, "12v")); f["duplicate"] != 0 {
			t.Errorf("seed %d: %v samples are duplicate", seed, f["duplicate"])
		}
	}
}

// burstsAtRest gives n samples of a drive at rest, read without noise, with bursts of five samples:
// one each `least` samples, or up to more-1 later.
func burstsAtRest(n, least, more int) []float64 {
	r := rand.New(rand.NewPCG(7, 8))
	amps := make([]float64, n)
	for k := range amps {
		amps[k] = 0.125
	}
	for k := 10; k < n-10; k += least + r.IntN(more) {
		// Begins and ends within a sample; between, the drive draws all that it may.
		amps[k] = 0.125 + r.Float64()
		amps[k+1], amps[k+2], amps[k+3] = 1, 1, 1
		amps[k+4] = 0.125 + r.Float64()
	}
	return amps
}

// A drive at rest with bursts of some milliseconds, read without noise: most samples are alike, and
// a block of six bursts that comes twice is known for one. Of fewer it need not be: the drive may
// have done the same again.
func TestABurstThatComesTwiceIsADuplicateAndLikeBurstsAreNone(t *testing.T) {
	bursts := burstsAtRest(200_000, 9, 2)
	read := func(k int) float64 { return bursts[k] }
	volts := func(k int) float64 { return 12 - 0.05*bursts[k] }
	for _, twice := range []bool{false, true} {
		m, out := testMeter(t)
		if twice {
			for first := 50007; first < len(bursts)-60; first += 50000 {
				copy(bursts[first:first+60], bursts[first-60:first])
			}
		}
		send(t, m, len(bursts), volts, read, onTime)
		f := last(out.points(t, "12v"))
		if !twice && f["duplicate"] != 0 {
			t.Errorf("%v samples are duplicate, none is", f["duplicate"])
		}
		if twice && (f["duplicate"] < 60 || f["duplicate"] > 300) {
			t.Errorf("%v samples are duplicate, 180 are", f["duplicate"])
		}
	}
}

// A block of one burst or two that comes twice may be the drive's own work; where that happens
// again and again at one distance, an instrument sends its blocks twice.
func TestDoubledBlocksOfFewBurstsShowByTheirNumber(t *testing.T) {
	for _, every := range []int{1000, 20_000} {
		amps := burstsAtRest(100_000, 12, 8)
		for first := 2007; first < len(amps)-20; first += every {
			copy(amps[first:first+20], amps[first-20:first])
		}
		m, out := testMeter(t)
		send(t, m, len(amps), func(k int) float64 { return 12 - 0.05*amps[k] },
			func(k int) float64 { return amps[k] }, onTime)
		found := last(out.points(t, "12v"))["duplicate"]
		if many := every == 1000; many != (found > 0) {
			t.Errorf("every %d samples: %v samples are duplicate", every, found)
		}
	}
}

// A drive that does one thing again and again, fifty times a second, as a database's commits: what
// it draws for one is like what it drew for the last whenever both begin at the same time within a
// sample, and three in a row seldom do.
func TestCommitsThatAreAlikeAreNoDuplicates(t *testing.T) {
	for _, phases := range []int{4, 16, 40, 200, 400, 1000, 4000} {
		t.Run(fmt.Sprint(phases), func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, uint64(phases)))
			amps := make([]float64, 200000)
			for k := range amps {
				amps[k] = 0.106
			}
			for begin := 0; begin+20 <= len(amps); begin += 20 {
				phase := float64(r.IntN(phases)) / float64(phases)
				for _, at := range []int{1, 6, 14} { // the data, the journal, its commit record
					amps[begin+at] += 0.37 * (1 - phase)
					amps[begin+at+1] += 0.37
					amps[begin+at+2] += 0.37 * phase
				}
			}
			m, out := testMeter(t)
			send(t, m, len(amps), func(k int) float64 { return 3.3 - 0.05*amps[k] },
				func(k int) float64 { return amps[k] }, onTime)
			if f := last(out.points(t, "12v")); f["duplicate"] != 0 {
				t.Errorf("%v samples are duplicate", f["duplicate"])
			}
		})
	}
}
