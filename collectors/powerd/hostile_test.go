// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"joulerig/collectors/internal/srframe"
)

// TestHostileSignals measures signals that are hostile to a meter, for tests/bench/hostile: it does
// nothing without the folder that JOULERIG_HOSTILE names, into which it writes of each signal the
// points, the true joules, and what a lab would declare.
func TestHostileSignals(t *testing.T) {
	folder := os.Getenv("JOULERIG_HOSTILE")
	if folder == "" {
		t.Skip("for tests/bench/hostile, which sets JOULERIG_HOSTILE")
	}
	for _, s := range hostileSignals() {
		s.measure(t, folder)
	}
}

const (
	hostileSeconds = 70.0
	hostileRate    = 1000
	subSamples     = 40 // of the truth in a sample
	hostileBlock   = 20 // samples in a frame
	supplyAmps     = 5.0
	hostileBegin   = 50e9
)

// hostile is a signal, what an instrument makes of it, and what the lab declares.
type hostile struct {
	Name   string             `json:"name"`
	Chosen bool               `json:"chosen_after_the_code"`
	Timing string             `json:"timing"`
	Rate   float64            `json:"sample_rate_hz"`
	Points string             `json:"samples"`
	Class  map[string]float64 `json:"class"` // of volts and of amps; empty: not stated
	Full   float64            `json:"full_scale_amps"`
	Supply float64            `json:"supply_amps"` // 0: not declared
	Band   float64            `json:"bandwidth_hz"`
	Ohms   float64            `json:"ohms"`
	Watts  bool               `json:"register"` // an energy register
	Truth  []float64          `json:"truth"`    // joules, each millisecond from the begin on
	Begin  int64              `json:"begin_ns"`
	Steps  [][2]float64       `json:"clock_steps"` // second, and by how much CLOCK_REALTIME is set then

	amps    func(t float64) float64
	sample  func(k int, volts, amps float64) (float64, float64) // what the instrument reads
	lost    func(block int, amps []float64) string              // "", "marked", "silent"
	late    func(t float64) float64                             // seconds
	crystal float64
	lag     int // samples by which the volts are late
	pollAt  func(r *rand.Rand, k int) float64
	wattsAt func(k int, joules float64) float64 // of the register, J as read
}

// bursty is a drive: 0.3 A, and 1.6 A for 3 to 30 ms about nine times a second.
func bursty(seed uint64) func(float64) float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	busy := make([]bool, int(hostileSeconds*1000)+2000)
	for at := 0; at < len(busy); {
		at += 20 + int(r.ExpFloat64()*90)
		for n := 3 + r.IntN(28); n > 0 && at < len(busy); n-- {
			busy[at] = true
			at++
		}
	}
	return func(t float64) float64 {
		if busy[int(t*1000)] {
			return 1.6 + 0.05*math.Sin(t*977)
		}
		return 0.3 + 0.01*math.Sin(t*311)
	}
}

func pulses(hz, duty, low, high float64) func(float64) float64 {
	return func(t float64) float64 {
		if math.Mod(t*hz, 1) < duty {
			return high
		}
		return low
	}
}

func (s *hostile) defaults() {
	if s.Timing == "" {
		s.Timing, s.Rate, s.Points = Stream, hostileRate, "window-mean"
	}
	if s.amps == nil {
		s.amps = bursty(7)
	}
	if s.Class == nil {
		s.Class = map[string]float64{"gain_percent": 0.1, "offset": 0.001}
	}
	if s.Supply == 0 {
		s.Supply = supplyAmps
	}
	if s.Ohms == 0 {
		s.Ohms = 0.05
	}
	if s.Band > 0 {
		s.Points = "point"
	}
}

func (s *hostile) measure(t *testing.T, folder string) {
	t.Helper()
	s.defaults()
	s.Begin = hostileBegin + utcOffset
	config := MeterConfig{Name: "m", Driver: "fake", Timing: s.Timing, SampleRateHz: s.Rate, Samples: s.Points, BandwidthHz: s.Band, SilenceSeconds: 5,
		Rails: []RailConfig{{Rail: "12v", Host: "h", Drive: "d", Volts: "CH1", Amps: "CH2"}}}
	if s.Watts {
		config.Rails[0] = RailConfig{Rail: "12v", Host: "h", Drive: "d", WattHours: "CH1"}
	}
	if s.Supply > 0 {
		config.Rails[0].GreatestWatts = 12 * s.Supply
	}
	if s.Full > 0 {
		config.FullScale = map[string]float64{"CH2": s.Full}
	}
	out := &lines{}
	m := newTestMeter(t, config, out)
	m.logf = func(string, ...any) {}
	m.beginStream()
	if s.Timing == Poll {
		s.poll(t, m)
	} else {
		s.stream(t, m)
	}
	m.endStream(Silent, "")
	text, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, s.Name+".json"), text, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, s.Name+".lines"), out.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// volts are the supply's at so many amps.
func (s *hostile) volts(amps float64) float64 { return 12 - s.Ohms*amps }

// realtime is CLOCK_REALTIME less CLOCK_MONOTONIC.
func (s *hostile) realtime(t float64) int64 {
	offset := int64(utcOffset)
	for _, step := range s.Steps {
		if t >= step[0] {
			offset += int64(step[1] * 1e9)
		}
	}
	return offset
}

// record notes the true joules of a millisecond; it returns the mean volts and amps, and those of
// its end.
func (s *hostile) record(k int) (volts, amps, lastVolts, lastAmps float64) {
	if len(s.Truth) == 0 {
		s.Truth = append(s.Truth, 0)
	}
	joules := 0.0
	for sub := range subSamples {
		lastAmps = s.amps((float64(k) + (float64(sub)+0.5)/subSamples) / hostileRate)
		lastVolts = s.volts(lastAmps)
		volts += lastVolts / subSamples
		amps += lastAmps / subSamples
		joules += lastVolts * lastAmps / subSamples / hostileRate
	}
	s.Truth = append(s.Truth, s.Truth[k]+joules)
	return volts, amps, lastVolts, lastAmps
}

func (s *hostile) stream(t *testing.T, m *Meter) {
	first, dropped := uint64(0), 0
	var late []float64
	for block := range int(hostileSeconds*hostileRate) / hostileBlock {
		volts, amps, read := make([]float32, hostileBlock), make([]float32, hostileBlock), make([]float64, hostileBlock)
		for k := range hostileBlock {
			at := block*hostileBlock + k
			meanVolts, meanAmps, lastVolts, lastAmps := s.record(at)
			v, a := meanVolts, meanAmps
			if s.Points == "point" && s.Band == 0 {
				v, a = lastVolts, lastAmps
			}
			late = append(late, v)
			v = late[max(0, len(late)-1-s.lag)]
			if s.sample != nil {
				v, a = s.sample(at, v, a)
			}
			volts[k], amps[k], read[k] = float32(v), float32(a), a
		}
		end := float64((block+1)*hostileBlock) / hostileRate
		what := ""
		if s.lost != nil {
			what = s.lost(block, read)
		}
		if what != "" {
			dropped++
			if what == "marked" {
				first += hostileBlock
			}
			continue
		}
		delay := 0.0003 + 0.0002*math.Abs(math.Sin(float64(block*block)))
		if s.late != nil {
			delay = s.late(end)
		}
		mono := int64(hostileBegin) + int64((end*(1+s.crystal)+delay)*1e9)
		for ch, values := range [][]float32{volts, amps} {
			f := samples(uint16(ch), first, mono, values...)
			f.RealtimeNS = mono + s.realtime(end)
			give(t, m, f)
		}
		first += hostileBlock
		m.endBatch()
	}
}

func (s *hostile) poll(t *testing.T, m *Meter) {
	r := rand.New(rand.NewPCG(3, 5))
	for k := range int(hostileSeconds * hostileRate) {
		s.record(k)
	}
	for k := 0; ; k++ {
		at := float64(k) / s.Rate
		if s.pollAt != nil {
			at = s.pollAt(r, k)
		}
		if at >= hostileSeconds-1e-3 {
			return
		}
		ns := int64(hostileBegin) + int64(at*1e9)
		if s.Watts {
			joules := s.Truth[int(at*1000)]
			if s.wattsAt != nil {
				joules = s.wattsAt(k, joules)
			}
			payload := binary.LittleEndian.AppendUint64(nil, math.Float64bits(joules/3600))
			give(t, m, &srframe.Frame{Type: srframe.Register, Unit: srframe.WattHour, N: 1, MonotonicNS: ns, RealtimeNS: ns + s.realtime(at), Payload: payload})
			continue
		}
		amps := s.amps(at)
		v, a := s.volts(amps), amps
		if s.sample != nil {
			v, a = s.sample(k, v, a)
		}
		reading(t, m, 0, ns, v)
		reading(t, m, 1, ns+100e3, a)
	}
}

// jittered are instants with a random pause after each, as collectors/capturers/sysfs.py has them.
func jittered(hz float64) func(*rand.Rand, int) float64 {
	at := 0.0
	return func(r *rand.Rand, _ int) float64 {
		at += (0.7 + 0.6*r.Float64()) / hz
		return at
	}
}

func rounded(value, step float64) float64 { return math.Round(value/step) * step }

func hostileSignals() []*hostile {
	none := map[string]float64{}
	steady := func(float64) float64 { return 0.3 }
	every := func(n int) func(int, []float64) string {
		return func(block int, _ []float64) string {
			if block%n == n/2 {
				return "silent"
			}
			return ""
		}
	}
	busyLost := func(block int, amps []float64) string {
		if amps[0] > 1 && block%9 == 0 {
			return "marked"
		}
		return ""
	}
	tall := func(t float64) float64 { // of each 2.1 s, 20 ms at 4 A
		if math.Mod(t, 2.1) < 0.02 {
			return 4
		}
		return 0.3 + 0.01*math.Sin(t*311)
	}
	tallLost := func(_ int, amps []float64) string {
		if amps[0] > 3 {
			return "silent"
		}
		return ""
	}
	underLoad := func(t float64) float64 { // latency
		if t > 20 && t < 60 {
			return 0.012
		}
		return 0.0003
	}
	quantised := func(step float64) func(int, float64, float64) (float64, float64) {
		return func(_ int, v, a float64) (float64, float64) { return v, rounded(a, step) }
	}
	noisy := rand.New(rand.NewPCG(11, 12))
	return []*hostile{
		{Name: "baseline"},
		{Name: "realtime set by +50 ms", Steps: [][2]float64{{30, 0.05}}},
		{Name: "crystal 90 ppm slow", crystal: 90e-6},
		{Name: "arrivals stall for 0.4 s", late: func(t float64) float64 {
			if m := math.Mod(t, 5); m < 0.4 {
				return 0.4 - m + 0.0003
			}
			return 0.0003
		}},
		{Name: "50 Hz periodic", amps: pulses(50, 0.3, 0.3, 1.6)},
		{Name: "499.9 Hz square", amps: pulses(499.9, 0.5, 0.1, 4)},
		{Name: "5 kHz square, 0.3 ohms", amps: pulses(5003, 0.5, 0.1, 4), Ohms: 0.3},
		{Name: "volts 5 samples late", lag: 5, Ohms: 0.3},
		{Name: "points, 1000.005 Hz pulses", Points: "point", Timing: Stream, Rate: hostileRate, amps: pulses(1000.005, 0.05, 0.1, 4)},
		{Name: "points, 12.5 kHz pulses", Points: "point", Timing: Stream, Rate: hostileRate, amps: pulses(12500, 0.3, 0.1, 4)},
		{Name: "points, no supply", Points: "point", Timing: Stream, Rate: hostileRate, Supply: -1, amps: pulses(1000.005, 0.05, 0.1, 4)},
		{Name: "points of a filter", Band: 400},
		{Name: "busy blocks lost, marked", lost: busyLost},
		{Name: "the tallest bursts lost, silent", amps: tall, lost: tallLost},
		{Name: "trickle, a block of 4 s", lost: every(200)},
		{Name: "trickle, a block of 0.5 s", lost: every(25)},
		{Name: "realtime set back by 1 s", Steps: [][2]float64{{30, -1}}},
		{Name: "latency of 12 ms under load", late: underLoad},
		{Name: "clipped, declared", Full: 1.5, sample: func(_ int, v, a float64) (float64, float64) { return v, math.Min(a, 1.5) }},
		{Name: "quiet, steps of 1 mA", amps: func(float64) float64 { return 0.05042 }, sample: quantised(1e-3), Class: map[string]float64{"gain_percent": 0.1, "offset": 0.0005, "resolution": 1e-3}},
		{Name: "device clock off by 2000 ppm", crystal: 2000e-6},
		{Name: "register of 10 mWh", Timing: Poll, Rate: 10, Points: "point", Watts: true, Class: none, wattsAt: func(_ int, j float64) float64 { return math.Floor(j/36) * 36 }},
		{Name: "register that wraps", Timing: Poll, Rate: 10, Points: "point", Watts: true, Class: none, wattsAt: func(_ int, j float64) float64 { return math.Mod(j, 150) }},
		{Name: "polled, steady", Timing: Poll, Rate: 10, Points: "point", amps: steady},
		{Name: "polled, steady, no supply", Timing: Poll, Rate: 10, Points: "point", amps: steady, Supply: -1},
		{Name: "polled, bursts between readings", Timing: Poll, Rate: 10, Points: "point", amps: pulses(2, 0.06, 0.3, 2)},
		// From here on chosen after the code was finished.
		{Name: "glitches of 10 kA", Chosen: true, sample: func(k int, v, a float64) (float64, float64) {
			if k%3331 == 17 {
				return v, 1e4
			}
			return v, a
		}},
		{Name: "register that reads 0 at times", Chosen: true, Timing: Poll, Rate: 10, Points: "point", Watts: true, Class: none, wattsAt: func(k int, j float64) float64 {
			if k%83 == 40 {
				return 0
			}
			return j
		}},
		{Name: "register that reads ten times at times", Chosen: true, Timing: Poll, Rate: 10, Points: "point", Watts: true, Class: none, wattsAt: func(k int, j float64) float64 {
			if k%83 == 40 {
				return 10*j + 1e5
			}
			return j
		}},
		{Name: "one in 97 samples no number", Chosen: true, sample: func(k int, v, a float64) (float64, float64) {
			if k%97 == 3 {
				return v, math.NaN()
			}
			return v, a
		}},
		{Name: "a rail that feeds back", Chosen: true, amps: func(t float64) float64 { return 0.2 + 0.6*math.Sin(t*40) }},
		{Name: "a ramp over the load", Chosen: true, amps: func(t float64) float64 { return 0.1 + t/50 }},
		{Name: "amps 20 % noise", Chosen: true, sample: func(_ int, v, a float64) (float64, float64) { return v, a * (1 + 0.2*noisy.NormFloat64()) }},
		{Name: "gain at its limit", Chosen: true, sample: func(_ int, v, a float64) (float64, float64) { return v * 1.001, a*1.001 + 0.001 }},
		{Name: "offset at its limit, 20 mA", Chosen: true, amps: func(float64) float64 { return 0.02 }, sample: func(_ int, v, a float64) (float64, float64) { return v, a - 0.001 }},
		{Name: "blocks lost at random, marked", Chosen: true, lost: func(block int, _ []float64) string {
			if noisy.Float64() < 0.01 {
				return "marked"
			}
			return ""
		}},
		{Name: "a second lost at once, marked", Chosen: true, lost: func(block int, _ []float64) string {
			if block > 2000 && block <= 2050 {
				return "marked"
			}
			return ""
		}},
		{Name: "250 Hz square at a soft supply", Chosen: true, amps: pulses(250.7, 0.2, 0.05, 4.5), Ohms: 0.5},
		{Name: "polled at random, bursts", Chosen: true, Timing: Poll, Rate: 20, Points: "point", pollAt: jittered(20)},
	}
}
