// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"joulerig/collectors/internal/srframe"
	"joulerig/tests/support/wait"
)

// summed is the frame that srcap makes of a window of a rail: plain loops, as frames.md has it.
func summed(c *MeterConfig, rail int, first uint64, mono int64, volts, amps []float32) *srframe.Frame {
	voltsGain, voltsOffset := c.calibrated(c.Rails[rail].Volts)
	ampsGain, ampsOffset := c.calibrated(c.Rails[rail].Amps)
	var marks []float32
	step := max(1, len(volts)/16)
	for k := 0; k < len(volts) && len(marks) < 32; k += step {
		marks = append(marks, volts[k], amps[k])
	}
	var stretches []srframe.Stretch
	for k := range volts {
		v, a := voltsGain*float64(volts[k])+voltsOffset, ampsGain*float64(amps[k])+ampsOffset
		if k == 0 || (first+uint64(k))%10 == 0 {
			stretches = append(stretches, srframe.Stretch{Min: math.Inf(1), Max: math.Inf(-1), First: v * a})
		}
		s := &stretches[len(stretches)-1]
		s.N++
		s.Volts += v
		s.Amps += a
		s.Watts += v * a
		s.Min, s.Max = min(s.Min, v*a), max(s.Max, v*a)
		s.Last = v * a
	}
	return &srframe.Frame{Type: srframe.Rail, Channel: uint16(rail), N: uint32(len(volts)), First: first,
		MonotonicNS: mono, RealtimeNS: mono + utcOffset, Payload: srframe.AppendSums(nil, marks, stretches)}
}

// feedRail passes a meter the window of one of its rails, as samples or as their sums.
func feedRail(t *testing.T, m *Meter, sums bool, rail int, first uint64, mono int64, volts, amps []float32) {
	t.Helper()
	frames := []*srframe.Frame{
		samples(uint16(2*rail), first, mono, volts...),
		samples(uint16(2*rail+1), first, mono, amps...),
	}
	if sums {
		frames = []*srframe.Frame{summed(&m.config, rail, first, mono, volts, amps)}
	}
	for _, f := range frames {
		if err := m.frame(f); err != nil {
			t.Fatal(err)
		}
	}
}

func noise(r *rand.Rand, n int, mean, spread float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = mean + spread*float32(r.NormFloat64())
	}
	return s
}

// Windows of any length, one of them missing, one sent twice, and for a while samples in place of
// sums.
func TestSumsGiveThePointsThatTheirSamplesGive(t *testing.T) {
	for _, sampling := range []string{"window-mean", "point"} {
		config := testConfig()
		config.Samples = sampling
		config.Calibration = map[string]Correction{"CH1": {Gain: 1.01, Offset: -0.02}, "CH4": {Gain: 0.98, Offset: 0.001}}
		outs := [2]*lines{{}, {}}
		for way, out := range outs {
			r := rand.New(rand.NewPCG(7, 9))
			m := newTestMeter(t, config, out)
			m.beginStream()
			at := 0
			var before [4][]float32
			for window := range 300 {
				n := 8 + r.IntN(30)
				now := [4][]float32{noise(r, n, 12, 0.05), noise(r, n, 2, 1), noise(r, n, 5, 0.02), noise(r, n, -1, 0.5)}
				if window == 151 {
					now = before
					n = len(now[0])
				}
				before = now
				if window != 100 {
					mono := 50e9 + int64(at+n)*1e6
					for rail := range 2 {
						sums := way == 1 && (window < 200 || window > 230)
						feedRail(t, m, sums, rail, uint64(at), mono, now[2*rail], now[2*rail+1])
					}
					m.endBatch()
				}
				at += n
			}
			m.endStream(Silent, "")
		}
		for _, rail := range []string{"12v", "5v"} {
			want, got := outs[0].points(t, rail), outs[1].points(t, rail)
			if len(want) != len(got) || len(want) < 500 {
				t.Fatalf("%s %s: %d points of samples, %d of sums", sampling, rail, len(want), len(got))
			}
			for i := range want {
				if want[i].time != got[i].time || len(want[i].fields) != len(got[i].fields) {
					t.Fatalf("%s %s: point %d at %d and %d", sampling, rail, i, want[i].time, got[i].time)
				}
				for name, w := range want[i].fields {
					if g := got[i].fields[name]; math.Abs(g-w) > 1e-12*math.Max(1, math.Abs(w)) {
						t.Fatalf("%s %s: point %d: %s is %v of samples, %v of sums", sampling, rail, i, name, w, g)
					}
				}
			}
			f := last(want)
			if f["lost"] == 0 || f["duplicate"] == 0 {
				t.Errorf("%s %s: the window missing and the one sent twice are not in %v", sampling, rail, f)
			}
			balanced(t, got)
		}
	}
}

func TestOfSumsTooManyNoneIsCountedAndTheRestOfTheirWindowIsLost(t *testing.T) {
	m, out := testMeter(t)
	m.beginStream()
	index := 0
	for at := 0; at < 40000; at += 20 {
		times := 1
		if at == 20000 {
			times = 16 // 300 samples from nowhere
		}
		for range times {
			feedRail(t, m, true, 0, uint64(index), 50e9+int64(at+20)*1e6, constant(20, 12), constant(20, 2))
			index += 20
		}
		m.endBatch()
	}
	m.endStream(Silent, "")
	points := out.points(t, "12v")
	balanced(t, points)
	f := last(points)
	if f["surplus"] != 300 || f["expected"] != 40000 || f["lost"] > 20 {
		t.Errorf("%v", f)
	}
	close2(t, "joules", f["joules"], 40*24, 0.1+24e-3*f["lost"])
}

func TestSumsThatCannotBeAreTheEndOfTheStream(t *testing.T) {
	whole := func(m *Meter) *srframe.Frame {
		return summed(&m.config, 0, 0, 50e9, constant(20, 12), constant(20, 2))
	}
	for what, spoil := range map[string]func(*srframe.Frame){
		"rail":     func(f *srframe.Frame) { f.Channel = 2 },
		"bytes":    func(f *srframe.Frame) { f.Payload = f.Payload[:len(f.Payload)-8] },
		"samples":  func(f *srframe.Frame) { f.N++ },
		"multiple": func(f *srframe.Frame) { f.First = 5 },
	} {
		m, _ := testMeter(t)
		m.beginStream()
		f := whole(m)
		spoil(f)
		if err := m.frame(f); err == nil {
			t.Errorf("%s: taken", what)
		}
		if err := m.frame(whole(m)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := m.frame(whole(m)); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("%s: the same repeated: %v", what, err)
		}
	}
}

func TestSrcapGetsTheRailsToAddUp(t *testing.T) {
	config := testConfig()
	config.Calibration = map[string]Correction{"CH2": {Gain: 1.25, Offset: -0.5}}
	m := newTestMeter(t, config, &lines{})
	if got, want := strings.Join(m.beginStream(), " "), "--rail CH1,CH2,1,0,1.25,-0.5 --rail CH3,CH4,1,0,1,0 --point 10"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	config.Calibration = nil
	config.Rails[1].Volts = "CH1"
	m = newTestMeter(t, config, &lines{})
	if got := m.beginStream(); len(got) != 0 {
		t.Errorf("a channel that two rails have: %s", got)
	}
}

// commands answers like srcap.
type commands struct {
	m    *Meter
	said bytes.Buffer
}

func (c *commands) Write(b []byte) (int, error) {
	if string(b) == "raw on\n" {
		payload := []byte(`{"event":"raw","on":true}`)
		go c.m.frame(&srframe.Frame{Type: srframe.Event, Payload: payload}) //nolint:errcheck
	}
	return c.said.Write(b)
}

func TestARecordingAsksForSamplesAndWaitsForThem(t *testing.T) {
	m, _ := testMeter(t)
	m.beginStream()
	said := &commands{m: m}
	m.takesCommands(said)
	if err := m.startRecording(filepath.Join(t.TempDir(), "w.parquet"), 1e6); err != nil {
		t.Fatal(err)
	}
	if _, err := m.stopRecording(); err != nil {
		t.Fatal(err)
	}
	if said.said.String() != "raw on\nraw off\n" {
		t.Errorf("said %q", said.said.String())
	}
}

func TestARecordingAskedForWhileSrcapStartsGetsItsSamples(t *testing.T) {
	m, _ := testMeter(t)
	if args := strings.Join(m.beginStream(), " "); strings.Contains(args, "--raw") {
		t.Fatalf("srcap is started with %s", args)
	}
	if err := m.startRecording(filepath.Join(t.TempDir(), "w.parquet"), 1e6); err != nil {
		t.Fatal(err)
	}
	said := &commands{m: m}
	m.takesCommands(said)
	if _, err := m.stopRecording(); err != nil {
		t.Fatal(err)
	}
	if said.said.String() != "raw on\nraw off\n" {
		t.Errorf("said %q", said.said.String())
	}
}

func TestARecordingOfARestartedStreamDoesNotWaitForTheOldOne(t *testing.T) {
	m, _ := testMeter(t)
	m.beginStream()
	m.takesCommands(&bytes.Buffer{})
	go func() {
		asked := func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.feed.(*streamed).recording != nil
		}
		if !wait.Until(5*time.Second, asked) {
			t.Error("no recording was asked for")
		}
		m.endStream(Silent, "")
		if args := strings.Join(m.beginStream(), " "); !strings.HasSuffix(args, "--raw") {
			t.Errorf("srcap is started with %s", args)
		}
		start := []byte(`{"event":"start","samplerate_hz":1000}`)
		if err := m.frame(&srframe.Frame{Type: srframe.Event, Payload: start}); err != nil {
			t.Error(err)
		}
	}()
	if err := m.startRecording(filepath.Join(t.TempDir(), "w.parquet"), 1e6); err != nil {
		t.Fatal(err)
	}
	if _, err := m.stopRecording(); err != nil {
		t.Fatal(err)
	}
}
