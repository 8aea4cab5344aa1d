// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/srframe"
)

type lines struct {
	bytes.Buffer
	fail    bool
	refused int64 // lines, where it fails
	writes  []int // their bytes
}

func (l *lines) Write(b []byte) error {
	l.writes = append(l.writes, len(b))
	if l.fail {
		l.refused += int64(bytes.Count(b, []byte("\n")))
		return errors.New("spool full")
	}
	_, err := l.Buffer.Write(b)
	return err
}

type linePoint struct {
	series string
	time   int64
	fields map[string]float64
}

func (l *lines) points(t *testing.T, rail string) []linePoint {
	t.Helper()
	return l.pointsOf(t, "power", rail)
}

func (l *lines) pointsOf(t *testing.T, measurement, rail string) (out []linePoint) {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		part := strings.Split(strings.TrimSpace(line), " ")
		if len(part) != 3 {
			t.Fatalf("line %q", line)
		}
		at, err := strconv.ParseInt(part[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p := linePoint{part[0], at, map[string]float64{}}
		for f := range strings.SplitSeq(part[1], ",") {
			key, value, _ := strings.Cut(f, "=")
			if key == "session" {
				continue
			}
			if p.fields[key], err = strconv.ParseFloat(strings.TrimSuffix(value, "i"), 64); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(p.series, measurement+",") && strings.Contains(p.series, "rail="+rail) {
			out = append(out, p)
		}
	}
	return out
}

func testConfig() MeterConfig {
	return MeterConfig{Name: "tap", Driver: "fake", SampleRateHz: 1000, Samples: "window-mean", SilenceSeconds: 1,
		Rails: []RailConfig{
			{Rail: "12v", Host: "h", Drive: "d", Volts: "CH1", Amps: "CH2"},
			{Rail: "5v", Host: "h", Drive: "d", Volts: "CH3", Amps: "CH4"},
		}}
}

func newTestMeter(t testing.TB, config MeterConfig, out sink) *Meter {
	t.Helper()
	if err := config.check("meters[0]"); err != nil {
		t.Fatal(err)
	}
	m := newMeter(config, 100, out, t.Logf)
	m.session = "s1"
	return m
}

func testMeter(t *testing.T) (*Meter, *lines) {
	out := &lines{}
	return newTestMeter(t, testConfig(), out), out
}

const utcOffset = 1_700_000_000_000_000_000

func samples(ch uint16, first uint64, mono int64, values ...float32) *srframe.Frame {
	q := uint32(srframe.Voltage)
	if ch%2 == 1 {
		q = srframe.Current
	}
	return &srframe.Frame{Type: srframe.Analog, Channel: ch, Quantity: q, N: uint32(len(values)), First: first,
		MonotonicNS: mono, RealtimeNS: mono + utcOffset, Payload: srframe.AnalogPayload(values)}
}

func constant(n int, v float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// play sends n samples in frames of 20, sample 0 beginning at monotonic time start: 12 V x 2 A and
// 5 V x -1 A.
func play(t *testing.T, m *Meter, start int64, n int) {
	t.Helper()
	m.beginStream()
	for at := 0; at < n; at += 20 {
		mono := start + int64(at+20)*1e6
		for ch, v := range []float32{12, 2, 5, -1} {
			if err := m.frame(samples(uint16(ch), uint64(at), mono+int64(ch)*30e3, constant(20, v)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPointsHaveTheTimeOfTheEndOfTheirLastSample(t *testing.T) {
	m, out := testMeter(t)
	play(t, m, 50e9, 2000)
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	if len(points) != 201 {
		t.Fatalf("%d points, want the origin and 200", len(points))
	}
	if points[0].series != "power,meter=tap,rail=12v,host=h,drive=d" {
		t.Errorf("series %s", points[0].series)
	}
	for i, p := range points {
		if want := int64(50e9 + utcOffset + i*10e6); p.time != want {
			t.Fatalf("point %d at %d, want %d", i, p.time, want)
		}
		if want := 0.24 * float64(i); math.Abs(p.fields["joules"]-want) > 1e-9 || p.fields["samples"] != float64(i*10) {
			t.Fatalf("point %d: %v", i, p.fields)
		}
		if p.fields["expected"] != p.fields["samples"] || p.fields["lost"] != 0 || p.fields["gap_seconds"] != 0 {
			t.Fatalf("point %d: %v", i, p.fields)
		}
	}
	if _, has := points[0].fields["watts"]; has {
		t.Error("the origin has watts, there were none")
	}
	last := out.points(t, "5v")[200]
	if math.Abs(last.fields["joules"]+10) > 1e-9 || last.fields["watts"] != -5 || last.fields["amps"] != -1 {
		t.Errorf("the rail that feeds back: %v", last.fields)
	}
}

func TestArrivalTimesDoNotChangeEnergy(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	late := []int64{0, 3e6, 15e6, 1e6, 9e6}
	for at := 0; at < 2000; at += 20 {
		mono := 50e9 + int64(at+20)*1e6 + late[at/20%len(late)]
		for ch, v := range []float32{12, 2} {
			if err := m.frame(samples(uint16(ch), uint64(at), mono, constant(20, v)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	if got := points[len(points)-1].fields["joules"]; math.Abs(got-48) > 1e-9 {
		t.Errorf("%g J, want 48", got)
	}
	for i := 1; i < len(points); i++ {
		if d := points[i].time - points[i-1].time; d < 9.9e6 || d > 10.1e6 {
			t.Fatalf("points %d ns apart", d)
		}
	}
}

func TestARestartIsAGapOfItsLengthAndJoulesGoOn(t *testing.T) {
	m, out := testMeter(t)
	play(t, m, 50e9, 1005) // ends inside a point
	m.endStream(Silent, "srcap: no samples")
	m.beginStream()
	m.endStream(Silent, "no instrument answers") // an attempt that came to nothing
	play(t, m, 60e9, 1000)
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	var origin int
	for i, p := range points {
		if _, has := p.fields["watts"]; !has && i > 0 {
			origin = i
		}
	}
	before, at, end := points[origin-1], points[origin], points[len(points)-1]
	gap := float64(at.time-before.time) / 1e9
	if math.Abs(gap-8.98) > 1e-6 || math.Abs(at.fields["gap_seconds"]-gap) > 1e-6 || at.fields["lost"] != 8980 {
		t.Errorf("gap %g s; origin %v", gap, at.fields)
	}
	for _, p := range points[origin:] {
		if p.fields["gap_seconds"] != at.fields["gap_seconds"] {
			t.Fatalf("origin %v, later %v", at.fields, p.fields)
		}
	}
	if at.fields["joules"] != before.fields["joules"] || at.fields["samples"] != before.fields["samples"] {
		t.Errorf("before %v, origin %v", before.fields, at.fields)
	}
	if math.Abs(end.fields["joules"]-2.020*24) > 1e-9 || end.fields["samples"] != 2020 || end.fields["expected"] != 11000 {
		t.Errorf("end %v", end.fields)
	}
	if end.fields["expected"] != end.fields["samples"]+end.fields["lost"] {
		t.Errorf("the ledger does not balance: %v", end.fields)
	}
}

func TestSamplesThatOneChannelLacksAreLostNotShifted(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	ramp := func(first uint64, n int) (v []float32) {
		for k := range n {
			v = append(v, float32(first)+float32(k))
		}
		return v
	}
	mono := int64(1e9)
	send := func(ch uint16, first uint64, n int) {
		t.Helper()
		mono += 10e6
		if err := m.frame(samples(ch, first, mono, ramp(first, n)...)); err != nil {
			t.Fatal(err)
		}
	}
	send(0, 0, 100)
	send(1, 0, 60) // came short; the next frame of both starts at 100
	send(0, 100, 100)
	send(1, 100, 100)
	m.endStream(Silent, "")
	want := 0.0
	for k := range 200 {
		if k < 60 || k >= 100 {
			want += float64(k) * float64(k) / 1000
		}
	}
	points := out.points(t, "12v")
	last := points[len(points)-1]
	if math.Abs(last.fields["joules"]-want) > 1e-9 || last.fields["lost"] != 40 || last.fields["samples"] != 160 {
		t.Errorf("want %g J of 160 samples, 40 lost: %v", want, last.fields)
	}
}

func TestAStreamThatIsNotWhatTheConfigurationSaysIsRefused(t *testing.T) {
	swapped := samples(0, 0, 1e9, 1)
	swapped.Quantity = srframe.Current
	start := &srframe.Frame{Type: srframe.Event, Payload: []byte(`{"event":"start","samplerate_hz":2000}`)}
	for want, f := range map[string]*srframe.Frame{
		"CH1 is not volts":   swapped,
		"samples at 2000 Hz": start,
		"frame of channel 7": samples(7, 0, 1e9, 1),
		"without a partner":  samples(0, 0, 1e9, make([]float32, 100000)...),
	} {
		m, _ := testMeter(t)
		m.beginStream()
		if err := m.frame(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	m, _ := testMeter(t)
	m.beginStream()
	for range 2 {
		err := m.frame(samples(0, 0, 1e9, 1, 2))
		if err != nil && strings.Contains(err.Error(), "comes again") {
			return
		}
	}
	t.Error("samples that come again are taken")
}

func TestWhatTheSpoolCannotTakeIsCounted(t *testing.T) {
	m, out := testMeter(t)
	out.fail = true
	play(t, m, 50e9, 1000)
	m.endStream(Silent, "")
	status := func() Status { return collectStatus("s", []*Meter{m}, func() influx.Stats { return influx.Stats{} }) }
	if s := status(); s.Writer.LastError != "spool full" || s.Writer.DroppedLines != out.refused || out.refused == 0 {
		t.Errorf("%d lines were refused: %+v", out.refused, s.Writer)
	}
	out.fail = false
	play(t, m, 60e9, 1000)
	m.endStream(Silent, "")
	if s := status(); s.Writer.LastError != "" || s.Writer.DroppedLines != out.refused {
		t.Errorf("%d lines were refused, none any more: %+v", out.refused, s.Writer)
	}
	points := out.points(t, "12v")
	// Cumulative counters: the energy is whole although points are missing.
	if got := points[len(points)-1].fields["joules"]; math.Abs(got-48) > 1e-9 {
		t.Errorf("%g J, want 48", got)
	}
}

func TestLongSessionKeepsPointsAndRailsApart(t *testing.T) {
	m, out := testMeter(t)
	play(t, m, 50e9, 30000)
	m.endStream(Silent, "")
	if a, b := len(out.points(t, "12v")), len(out.points(t, "5v")); a != 3001 || b != 3001 {
		t.Errorf("%d and %d points", a, b)
	}
	s, _, _ := m.status()
	if s.Samples != 30000 || s.Lost-int64(math.Round(s.GapSeconds*1000)) != 0 || fmt.Sprint(s.State) != "silent" {
		t.Errorf("%+v", s)
	}
	if math.Abs(s.ObservedRateHz-1000) > 1e-6 {
		t.Errorf("observed rate %g", s.ObservedRateHz)
	}
}

func BenchmarkTwoRailsOf20MillisecondsAtAMegahertz(b *testing.B) { benchmarkTwoRails(b, false) }

// As a page has it that shows the last samples.
func BenchmarkTwoRailsAtAMegahertzWhoseLastSamplesAreKept(b *testing.B) { benchmarkTwoRails(b, true) }

func benchmarkTwoRails(b *testing.B, kept bool) {
	b.Helper()
	config := testConfig()
	config.SampleRateHz = 1e6
	m := newTestMeter(b, config, &lines{fail: true})
	if kept {
		m.feed.(*streamed).keepSamples()
	}
	m.beginStream()
	var frames [4]*srframe.Frame
	for ch, v := range []float32{12, 2, 5, -1} {
		frames[ch] = samples(uint16(ch), 0, 0, constant(20000, v)...)
	}
	b.SetBytes(4 * 80000)
	b.ReportAllocs()
	var at uint64
	for b.Loop() {
		for ch := range frames {
			frames[ch].First = at
			frames[ch].MonotonicNS = int64(at+20000) * 1000
			if err := m.frame(frames[ch]); err != nil {
				b.Fatal(err)
			}
		}
		at += 20000
	}
}
