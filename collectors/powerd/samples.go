// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

const (
	// The last samples of a rail that are kept while they are asked for.
	keptSeconds = 5
	mostKept    = 1 << 17
	// They are kept for so long after they were last asked for.
	keptFor = 10 * time.Second
)

// ring is a rail's last samples of both channels, as they came, by index. What did not come is NaN.
type ring struct {
	volts, amps []float32
	first, end  uint64 // indices of the samples held
}

func newRing(rate float64) *ring {
	n := min(int(math.Ceil(keptSeconds*rate)), mostKept)
	return &ring{volts: make([]float32, n), amps: make([]float32, n)}
}

// restart forgets the samples: indices begin again.
func (r *ring) restart() { r.first, r.end = 0, 0 }

// put takes samples from index `first` on.
func (r *ring) put(first uint64, volts, amps []float32) {
	size := uint64(len(r.volts))
	if r.end == r.first || first < r.end || first-r.end >= size {
		r.first, r.end = first, first
	}
	for ; r.end < first; r.end++ {
		r.volts[r.end%size], r.amps[r.end%size] = float32(math.NaN()), float32(math.NaN())
	}
	if n := uint64(len(volts)); n > size { // only the last ones stay
		volts, amps, first = volts[n-size:], amps[n-size:], first+n-size
		r.first = first
	}
	at := first % size
	n := copy(r.volts[at:], volts)
	copy(r.volts, volts[n:])
	n = copy(r.amps[at:], amps)
	copy(r.amps, amps[n:])
	r.end = first + uint64(len(volts))
	if r.end-r.first > size {
		r.first = r.end - size
	}
}

// last returns copies of the last n samples, and the index of the first of them.
func (r *ring) last(n int) (first uint64, volts, amps []float32) {
	first = r.end - min(r.end-r.first, uint64(n))
	size := uint64(len(r.volts))
	for at := first; at < r.end; at++ {
		volts, amps = append(volts, r.volts[at%size]), append(amps, r.amps[at%size])
	}
	return first, volts, amps
}

// column is samples in JSON; a NaN is null.
type column []float32

// MarshalJSON writes seven digits at most: what a float32 has.
func (c column) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 9*len(c)+2), '[')
	for i, v := range c {
		if i > 0 {
			out = append(out, ',')
		}
		if v != v || math.IsInf(float64(v), 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, float64(v), 'g', -1, 32)
		}
	}
	return append(out, ']'), nil
}

// railSamples are a rail's last samples. Volts and amps, or what it has of them: the amps alone
// where its volts are stated, watts where the instrument measures those.
type railSamples struct {
	Meter        string  `json:"meter"`
	Rail         string  `json:"rail"`
	SampleRateHz float64 `json:"sample_rate_hz"`
	// UTC of the first sample; 0 while there is none, or its time is not known.
	StartNS       int64   `json:"start_ns"`
	Complete      bool    `json:"complete"` // as many as were asked for, or as are kept at most
	ConstantVolts float64 `json:"constant_volts,omitempty"`
	Volts         column  `json:"volts,omitempty"`
	Amps          column  `json:"amps,omitempty"`
	Watts         column  `json:"watts,omitempty"`
}

// lastSamples returns the last samples of a drive's rails of this meter. They are kept from the
// first time on that they are asked for: srcap adds rails up, and sends samples only on request.
func (m *Meter) lastSamples(host, drive string, seconds float64) ([]railSamples, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := []railSamples{}
	for number, r := range m.rails {
		if r.config.Host != host || r.config.Drive != drive {
			continue
		}
		s, streams := m.feed.(*streamed)
		if !streams {
			return nil, fmt.Errorf("meter %s is polled: its readings are the points", m.config.Name)
		}
		s.keepSamples()
		found = append(found, s.samplesOf(number, seconds))
	}
	return found, nil
}

// keepSamples has the last samples kept from now on.
func (s *streamed) keepSamples() {
	s.ringsUntil = s.m.clock.Now().Add(keptFor)
	if s.rings != nil {
		return
	}
	for range s.rails {
		s.rings = append(s.rings, newRing(s.m.config.SampleRateHz))
	}
	if s.recording == nil {
		s.wantSamples(true)
	}
}

// dropSamples keeps samples no longer once nothing has asked for them for a while.
func (s *streamed) dropSamples() {
	if s.rings == nil || !s.m.lastSeen.After(s.ringsUntil) {
		return
	}
	s.rings = nil
	if s.recording == nil {
		s.wantSamples(false)
	}
}

func (s *streamed) samplesOf(number int, seconds float64) railSamples {
	r, kept, c := s.rails[number], s.rings[number], &s.m.config
	wanted := min(int(math.Ceil(seconds*c.SampleRateHz)), len(kept.volts))
	first, volts, amps := kept.last(wanted)
	found := railSamples{
		Meter: c.Name, Rail: r.config.Rail, SampleRateHz: c.SampleRateHz, Complete: len(volts) == wanted,
		ConstantVolts: r.config.ConstantVolts,
	}
	if len(volts) > 0 && s.fit.Ready() {
		found.StartNS = s.fit.At(first) + s.m.offset
	}
	var scratch []float32
	switch {
	case r.config.Watts != "":
		found.Watts = corrected(&scratch, volts, c, r.config.Watts)
	case r.config.ConstantVolts > 0:
		found.Amps = corrected(&scratch, volts, c, r.config.Amps)
	default:
		found.Volts = corrected(&scratch, volts, c, r.config.Volts)
		var more []float32
		found.Amps = corrected(&more, amps, c, r.config.Amps)
	}
	return found
}

// lastOfDrive serves GET /samples?host=H&drive=D&seconds=S.
func lastOfDrive(mux *http.ServeMux, meters []*Meter) {
	mux.HandleFunc("GET /samples", func(w http.ResponseWriter, request *http.Request) {
		query := request.URL.Query()
		seconds, err := strconv.ParseFloat(query.Get("seconds"), 64)
		if err != nil || !(seconds > 0 && seconds <= keptSeconds) {
			http.Error(w, fmt.Sprintf("seconds: %q (allowed: over 0, up to %d)", query.Get("seconds"), keptSeconds), http.StatusBadRequest)
			return
		}
		rails := []railSamples{}
		for _, m := range meters {
			more, err := m.lastSamples(query.Get("host"), query.Get("drive"), seconds)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			rails = append(rails, more...)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct {
			Rails []railSamples `json:"rails"`
		}{rails})
	})
}
