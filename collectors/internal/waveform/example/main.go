// SPDX-License-Identifier: GPL-3.0-or-later

// Command example writes a waveform file of known samples, for the tests of those who read it:
//
//	example FILE
//
// Sample k of rail 12v is 12 - (k mod 1000)/1024 V and (k mod 333)/256 - 0.25 A, of rail 5v the
// same with 5 V for 12 V; all are exact in float32. Two streams of 3000 samples at 1 kHz, the first
// without samples 1000 to 1499. stdout: the joules of each rail by package energy, as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"joulerig/collectors/internal/energy"
	"joulerig/collectors/internal/waveform"
)

const (
	rate  = 1000
	begin = int64(1700000000123456789)
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "example: one argument is needed, the file to write")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "example: %v\n", err)
		os.Exit(1)
	}
}

func write(path string) error {
	meta := waveform.Meta{Meter: "tap1a", Session: "0123456789ab", Instrument: "R&S RTA4004", SampleRateHz: rate, Samples: "window-mean"}
	joules := map[string]float64{}
	var counters []*energy.Rail
	volts := []float32{12, 5}
	for i, name := range []string{"12v", "5v"} {
		meta.Rails = append(meta.Rails, waveform.RailMeta{
			Rail: name, Host: "vhost1", Drive: "nvme-plp",
			Volts: waveform.Channel{Name: fmt.Sprintf("CH%d", 2*i+1), Gain: 1.0005, Offset: -0.001, Certificate: "K-2026-1"},
			Amps:  waveform.Channel{Name: fmt.Sprintf("CH%d", 2*i+2), Gain: 1},
		})
		counters = append(counters, energy.NewRail(energy.WindowMean, rate, 10, energy.NoScale, energy.NoRange, func(p energy.Point) { joules[name] += p.Joules }))
	}
	r, err := waveform.Create(path, meta, 1<<30)
	if err != nil {
		return err
	}
	for stream := range int64(2) {
		if stream > 0 {
			r.Stream()
			for _, c := range counters {
				c.Break()
			}
		}
		r.Clock(0, begin+stream*10e9, 10e-6)
		for first := 0; first < 3000; first += 500 {
			if stream == 0 && first == 1000 {
				continue
			}
			for rail := range volts {
				v, a := make([]float32, 500), make([]float32, 500)
				for k := range v {
					v[k] = volts[rail] - float32((first+k)%1000)/1024
					a[k] = float32((first+k)%333)/256 - 0.25
				}
				if err := r.Append(rail, uint64(first), v, a); err != nil {
					return err
				}
				counters[rail].Add(uint64(first), v, a, nil)
			}
			// The crystal is slow by 100 ppm in the first stream and not at all in the second.
			r.Clock(uint64(first+500), begin+stream*10e9+int64(first+500)*(1_000_100-100*stream), 20e-6)
		}
	}
	for _, c := range counters {
		c.Break()
	}
	if _, err := r.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(joules)
}
