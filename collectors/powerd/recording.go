// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"time"

	"joulerig/collectors/internal/strictjson"
	"joulerig/collectors/internal/waveform"
)

// How long srcap may take to send samples where it sent sums.
const rawGrace = 5 * time.Second

// recording is a meter's waveform file while it is being written.
type recording struct {
	*waveform.Recorder
	path        string
	volts, amps []float32 // corrected samples on their way
}

// recordingRequest asks for a recording; the path is absolute, and below recordings_dir.
type recordingRequest struct {
	Meter    string `json:"meter"`
	Path     string `json:"path"`
	MaxBytes int64  `json:"max_bytes"`
}

// recordingAnswer is the result of one.
type recordingAnswer struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	waveform.Summary
}

func (m *Meter) startRecording(path string, maxBytes int64) error {
	s, streams := m.feed.(*streamed)
	if !streams {
		return fmt.Errorf("meter %s is polled: its readings are the points, there is no waveform in addition", m.config.Name)
	}
	answer, err := m.record(s, path, maxBytes)
	if err != nil || answer == nil {
		return err
	}
	select {
	case <-answer:
		return nil
	case <-time.After(rawGrace):
		_, _ = m.stopRecording()
		return fmt.Errorf("meter %s: srcap sends no samples", m.config.Name)
	}
}

// record begins a recording. The samples come once what it returns is closed; at once where that is
// nil.
func (m *Meter) record(s *streamed, path string, maxBytes int64) (<-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.recording != nil {
		return nil, fmt.Errorf("meter %s is being recorded to %s", m.config.Name, s.recording.path)
	}
	meta := waveform.Meta{
		Meter: m.config.Name, Session: m.session, Instrument: m.instrument.String(),
		SampleRateHz: m.config.SampleRateHz, Samples: m.config.Samples,
	}
	channel := func(name string) waveform.Channel {
		gain, offset := m.config.calibrated(name)
		return waveform.Channel{Name: name, Gain: gain, Offset: offset}
	}
	for _, r := range m.rails {
		c := r.config
		if c.Volts == "" {
			return nil, fmt.Errorf("meter %s: rail %s has no channels of volts and amps to record", m.config.Name, c.Rail)
		}
		meta.Rails = append(meta.Rails, waveform.RailMeta{Rail: c.Rail, Host: c.Host, Drive: c.Drive, Volts: channel(c.Volts), Amps: channel(c.Amps)})
	}
	recorder, err := waveform.Create(path, meta, maxBytes)
	if err != nil {
		return nil, err
	}
	s.recording = &recording{Recorder: recorder, path: path}
	if m.commands == nil || len(s.summed) == 0 || s.rings != nil {
		return nil, nil
	}
	m.rawAnswer = make(chan struct{})
	s.wantSamples(true)
	return m.rawAnswer, nil
}

// wantSamples asks the running srcap, if it adds rails up, whether their samples are wanted
// instead. A command that is not read is the end of that srcap, which others notice.
func (s *streamed) wantSamples(want bool) {
	if s.m.commands == nil || len(s.summed) == 0 {
		return
	}
	command := "raw off\n"
	if want {
		command = "raw on\n"
	}
	_, _ = io.WriteString(s.m.commands, command)
}

// stopRecording ends a recording, and returns its result; an error where there is none.
func (m *Meter) stopRecording() (recordingAnswer, error) {
	s, streams := m.feed.(*streamed)
	m.mu.Lock()
	var r *recording
	if streams {
		r, s.recording = s.recording, nil
		if r != nil && s.rings == nil {
			s.wantSamples(false)
		}
	}
	m.mu.Unlock()
	if r == nil {
		return recordingAnswer{}, fmt.Errorf("meter %s is not being recorded", m.config.Name)
	}
	summary, err := r.Close()
	return recordingAnswer{Path: r.path, Bytes: summary.Bytes, Summary: summary}, err
}

// take records samples as they are integrated.
func (r *recording) take(rail int, first uint64, volts, amps []float32, c *MeterConfig) {
	of := &c.Rails[rail]
	volts = corrected(&r.volts, volts, c, of.Volts)
	amps = corrected(&r.amps, amps, c, of.Amps)
	// Its errors are in the summary; the capture goes on.
	_ = r.Append(rail, first, volts, amps)
}

func corrected(into *[]float32, samples []float32, c *MeterConfig, channel string) []float32 {
	correction, is := c.Calibration[channel]
	if !is {
		return samples
	}
	out := (*into)[:0]
	for _, s := range samples {
		out = append(out, float32(correction.Gain*float64(s)+correction.Offset))
	}
	*into = out
	return out
}

// resolve returns path with the links of its folder resolved, and refuses one that is not below the
// folder dir then: a client of the socket writes no other files of powerd's user.
func resolve(dir, path string) (string, error) {
	if dir == "" {
		return "", errors.New("path: no recording is taken (recordings_dir is not configured)")
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("path: %q: not absolute (allowed: a file below %s)", path, dir)
	}
	top, err := filepath.Abs(dir)
	if err == nil {
		top, err = filepath.EvalSymlinks(top)
	}
	if err != nil {
		return "", fmt.Errorf("recordings_dir: %w", err)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	if inside, err := filepath.Rel(top, folder); err != nil || !filepath.IsLocal(inside) {
		return "", fmt.Errorf("path: %q (allowed: a file below %s)", path, dir)
	}
	return filepath.Join(folder, filepath.Base(path)), nil
}

// recordings serves POST /recordings, for files below dir, and DELETE /recordings/METER.
func recordings(mux *http.ServeMux, meters []*Meter, dir string) {
	refuse := func(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusBadRequest) }
	answer := func(w http.ResponseWriter, what any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(what)
	}
	mux.HandleFunc("POST /recordings", func(w http.ResponseWriter, request *http.Request) {
		var r recordingRequest
		err := strictjson.Decode(http.MaxBytesReader(w, request.Body, 1<<16), &r)
		var path string
		if err == nil {
			path, err = resolve(dir, r.Path)
		}
		var m *Meter
		if err == nil {
			m, err = find(meters, r.Meter)
		}
		if err == nil {
			// Compressing waveforms takes more than measuring: it must not stand in its way.
			runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
			err = m.startRecording(path, r.MaxBytes)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, r)
	})
	mux.HandleFunc("DELETE /recordings/{meter}", func(w http.ResponseWriter, request *http.Request) {
		m, err := find(meters, request.PathValue("meter"))
		if err != nil {
			refuse(w, err)
			return
		}
		became, err := m.stopRecording()
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, became)
	})
}
