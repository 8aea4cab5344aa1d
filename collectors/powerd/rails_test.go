// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"joulerig/collectors/internal/srframe"
)

// Rails other than the volts and amps of one instrument: stated volts, volts of another meter, and
// registers of double precision.

func statedConfig(timing string) MeterConfig {
	return MeterConfig{Name: "clamp", Driver: "fake", Timing: timing, SampleRateHz: 20, BandwidthHz: 10, Samples: "point", SilenceSeconds: 2,
		Rails: []RailConfig{{Rail: "5v", Host: "h", Drive: "d", Amps: "I1", ConstantVolts: 5, VoltsTolerance: 0.05, GreatestWatts: 20}}}
}

func ampsFrame(first uint64, ns int64, values ...float32) *srframe.Frame {
	f := samples(1, first, ns, values...)
	f.Channel = 0
	return f
}

func TestStatedVoltsGiveJoulesWhoseBoundsHoldTheirTolerance(t *testing.T) {
	for _, timing := range []string{Poll, Stream} {
		out := &lines{}
		m := newTestMeter(t, statedConfig(timing), out)
		m.beginStream()
		for k := range int64(201) {
			if err := m.frame(ampsFrame(uint64(k), 50e9+k*50e6, 2)); err != nil {
				t.Fatal(err)
			}
		}
		m.endStream(Silent, "")
		end := last(out.points(t, "5v"))
		close2(t, timing+" joules", end["joules"], 100, 1)
		if end["volts"] != 5 || math.Abs(end["amps"]-2) > 1e-9 || math.Abs(end["watts"]-10) > 1e-9 {
			t.Errorf("%s: %v", timing, end)
		}
		low, high := end["joules"]-end["joules_low"], end["joules_high"]-end["joules"]
		if timing == Stream {
			close2(t, "low", low, end["joules"]/100, 1e-6)
			close2(t, "high", high, end["joules"]/100, 1e-6)
		} else if high < 100+end["joules"]/100-1 || low < end["joules"]-1e-6 {
			t.Errorf("polled: bounds %v to %v of %v", end["joules_low"], end["joules_high"], end["joules"])
		}
	}
}

func TestTheToleranceOfStatedVoltsWidensTheBoundsOfARailThatFeedsBackToo(t *testing.T) {
	out := &lines{}
	m := newTestMeter(t, statedConfig(Stream), out)
	m.beginStream()
	for k := range int64(201) {
		give(t, m, ampsFrame(uint64(k), 50e9+k*50e6, -2))
	}
	m.endStream(Silent, "")
	end := last(out.points(t, "5v"))
	close2(t, "low", end["joules_low"]-end["joules"], end["joules"]/100, 1e-6)
	close2(t, "high", end["joules_high"]-end["joules"], -end["joules"]/100, 1e-6)
}

func TestACalibrationIsOfItsInstrumentAlone(t *testing.T) {
	config := testConfig()
	config.CalibrationSerial = "J0001"
	for serial, ok := range map[string]bool{"J0001": true, "": true, "J0002": false} {
		err := started(t, newTestMeter(t, config, &lines{}), `{"event":"start","serial":"`+serial+`"}`)
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), `the calibration is of serial "J0001"`) {
			t.Errorf("serial %q: %v", serial, err)
		}
	}
}

func TestRailsThatCannotBeAreRefused(t *testing.T) {
	for want, change := range map[string]func(*RailConfig){
		"constant_volts: -5": func(r *RailConfig) { r.ConstantVolts = -5 },
		"volts_tolerance: 5": func(r *RailConfig) { r.VoltsTolerance = 5 },
		"with amps alone":    func(r *RailConfig) { r.Volts = "V1" },
		"constant_volts: 0":  func(r *RailConfig) { r.ConstantVolts = 0 },
		"amps of a meter with t": func(r *RailConfig) {
			*r = RailConfig{Rail: "r", Host: "h", Drive: "d", Volts: "V", Amps: "I", VoltsMeter: "dmm"}
		},
	} {
		c := statedConfig(Stream)
		change(&c.Rails[0])
		if err := c.check("meters[0]"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// twoMeters are a clamp's amps and a multimeter's or a tap's volts.
func twoMeters(t *testing.T, out sink, voltsTiming string) (amps, volts *Meter) {
	t.Helper()
	clamp := statedConfig(Poll)
	clamp.Rails[0].ConstantVolts, clamp.Rails[0].VoltsTolerance = 0, 0
	clamp.Rails[0].Volts, clamp.Rails[0].VoltsMeter = "I1", "dmm" // channels' names are of their meters alone
	dmm := MeterConfig{Name: "dmm", Driver: "fake", Timing: voltsTiming, SampleRateHz: 20, Samples: "point", SilenceSeconds: 2}
	config := Config{StateDir: t.TempDir(), Srcap: "srcap", PointsPerSecond: 100, Meters: []MeterConfig{clamp, dmm}}
	if err := config.check(); err != nil {
		t.Fatal(err)
	}
	amps = newMeter(config.Meters[0], 100, out, t.Logf)
	volts = newMeter(config.Meters[1], 100, out, t.Logf)
	lend([]*Meter{amps, volts})
	amps.beginStream()
	volts.beginStream()
	return amps, volts
}

func give(t *testing.T, m *Meter, f *srframe.Frame) {
	t.Helper()
	if err := m.frame(f); err != nil {
		t.Fatal(err)
	}
	m.passOn(f)
	m.endBatch()
}

func TestARailOfTwoInstrumentsTakesTheVoltsAtTheInstantOfTheAmps(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Poll)
	// The volts come a second late, as from a srcap that wakes powerd once a second.
	for second := range int64(10) {
		for k := range int64(20) {
			give(t, amps, ampsFrame(0, 50e9+second*1e9+k*50e6, float32(2+0.1*float64(k%2))))
		}
		for k := range int64(20) {
			at := second*1e9 + k*50e6 + 25e6
			give(t, volts, samples(0, 0, 50e9+at, float32(5-float64(at)*1e-11))) // falls by 0.1 V in 10 s
		}
	}
	amps.endStream(Silent, "")
	points := out.points(t, "5v")
	end := last(points)
	close2(t, "joules", end["joules"], 2.05*(5-0.05)*9.9, 0.15)
	close2(t, "volts", end["volts"], 4.9, 0.002)
	if end["lost"] != 0 || end["over_range"] != 0 {
		t.Errorf("%v", end)
	}
	balanced(t, points)
	s, _, _ := volts.status()
	if _, err := json.Marshal(s); err != nil || s.Samples != 0 || s.Rails == nil {
		t.Errorf("the meter that lends its volts: %+v, %v", s, err)
	}
}

func TestVoltsOfAStreamAreTheMeansOfItsFrames(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Stream)
	for k := range int64(40) {
		give(t, volts, samples(0, uint64(k*4), 50e9+k*200e6, 5, 5.2, 5, 5.2))
		for n := range int64(4) {
			give(t, amps, ampsFrame(0, 50e9+k*200e6+n*50e6, 2))
		}
	}
	amps.endStream(Silent, "")
	end := last(out.points(t, "5v"))
	close2(t, "volts", end["volts"], 5.1, 1e-6)
	close2(t, "watts", end["watts"], 10.2, 1e-5)
}

func TestWhereTheOtherInstrumentIsSilentTheRailHasAGap(t *testing.T) {
	out := &lines{}
	amps, volts := twoMeters(t, out, Poll)
	for k := range int64(200) {
		at := 50e9 + k*50e6
		give(t, amps, ampsFrame(0, at, 2))
		if k < 60 || k >= 160 { // nothing for five seconds
			give(t, volts, samples(0, 0, at+1e6, 5))
		}
	}
	amps.endStream(Silent, "")
	points := out.points(t, "5v")
	end := last(points)
	if end["gap_seconds"] < 4.9 || end["gap_seconds"] > 5.2 || end["lost"] < 95 {
		t.Errorf("%v", end)
	}
	balanced(t, points)
}

func TestARegisterOfDoublePrecisionCountsMillijoulesAboveMegajoules(t *testing.T) {
	out := &lines{}
	config := statedConfig(Poll)
	config.Rails[0] = RailConfig{Rail: "5v", Host: "h", Drive: "d", WattHours: "E"}
	m := newTestMeter(t, config, out)
	m.beginStream()
	for k := range int64(100) {
		joules := 1e8 + float64(k)*1e-3
		payload := binary.LittleEndian.AppendUint64(nil, math.Float64bits(joules/3600))
		f := &srframe.Frame{Type: srframe.Register, Unit: srframe.WattHour, N: 1, MonotonicNS: 50e9 + k*50e6, RealtimeNS: 50e9 + k*50e6, Payload: payload}
		if err := m.frame(f); err != nil {
			t.Fatal(err)
		}
	}
	m.endStream(Silent, "")
	close2(t, "joules", last(out.points(t, "5v"))["joules"], 0.099, 1e-5)
	stream := newTestMeter(t, testConfig(), out)
	stream.beginStream()
	if err := stream.frame(&srframe.Frame{Type: srframe.Register, Unit: srframe.WattHour, N: 1, Payload: make([]byte, 8)}); err == nil {
		t.Error("a register was taken for volts")
	}
}

func started(t *testing.T, m *Meter, event string) error {
	t.Helper()
	m.beginStream()
	return m.frame(&srframe.Frame{Type: srframe.Event, Payload: []byte(event)})
}

func TestAnInstrumentThatIsNotTheDeclaredOneIsRefused(t *testing.T) {
	tap := Expected{SerialPattern: "-[AB]$", Otherwise: "an oscilloscope is no power tap"}
	for _, c := range []struct {
		expected Expected
		serial   string
		refused  string
	}{
		{Expected{}, "1", ""},
		{Expected{Serial: "1"}, "1", ""},
		{Expected{Serial: "1"}, "", ""}, // it reports none
		{Expected{Serial: "1"}, "2", `serial "2", and serial "1" is declared`},
		{tap, "J0001-A", ""},
		{tap, "102030", "oscilloscope is no power tap"},
	} {
		config := testConfig()
		config.Expected = c.expected
		err := started(t, newTestMeter(t, config, &lines{}), `{"event":"start","vendor":"Rohde&Schwarz","model":"RTA4004","serial":"`+c.serial+`"}`)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%+v, serial %q: %v", c.expected, c.serial, err)
		}
	}
}

func TestALogicChannelIsNoRails(t *testing.T) {
	m := newTestMeter(t, testConfig(), &lines{})
	err := started(t, m, `{"event":"start","channels":[{"name":"CH1","type":"analog"},{"name":"D0","type":"logic"}]}`)
	if err == nil || !strings.Contains(err.Error(), "D0 is a logic channel") {
		t.Errorf("%v", err)
	}
}

func TestWhatASettingOfTheInstrumentMakesUselessIsTheMetersReason(t *testing.T) {
	m := newTestMeter(t, testConfig(), &lines{})
	if err := started(t, m, `{"event":"flags","channel":"P1","reason":"P1 shows AC: not taken"}`); err != nil {
		t.Fatal(err)
	}
	if s, _, _ := m.status(); s.Reason != "P1 shows AC: not taken" {
		t.Errorf("%+v", s)
	}
}
