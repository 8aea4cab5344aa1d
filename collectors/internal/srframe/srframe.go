// SPDX-License-Identifier: GPL-3.0-or-later

// Package srframe reads the frames that srcap writes (collectors/srcap/frames.md).
package srframe

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"
)

// Type says what a frame carries.
type Type uint16

// The types of frames.
const (
	Analog Type = 1
	Logic  Type = 2
	Event  Type = 3
	Rail   Type = 4
	// Register is an energy register's readings: watt hours, as float64.
	Register Type = 5
)

// NoChannel is the channel of a frame that belongs to no single one.
const NoChannel = 65535

// Quantities, as libsigrok numbers them (sr_mq).
const (
	Voltage = 10000
	Current = 10001
	Power   = 10010
)

// WattHour is a unit, as libsigrok numbers them (sr_unit).
const WattHour = 10020

const (
	magic       = 0x31465253
	headerBytes = 48
	// A second of one channel at 16 MS/s; anything longer is not a frame.
	maxPayload = 64 << 20
)

// Frame is one frame. Payload is only good until the next call of Next.
type Frame struct {
	Type        Type
	Channel     uint16
	Quantity    uint32
	Unit        uint32
	N           uint32
	First       uint64
	MonotonicNS int64
	RealtimeNS  int64
	Payload     []byte
}

// End is the index after the frame's last sample.
func (f *Frame) End() uint64 { return f.First + uint64(f.N) }

// Samples are the samples of an analog frame, where they lie: good for as long as Payload is. They
// are converted only where the machine's own floats are other than the payload's, or do not lie as
// it wants them.
func (f *Frame) Samples() []float32 {
	if f.N == 0 {
		return nil
	}
	at := unsafe.Pointer(unsafe.SliceData(f.Payload))
	if littleEndian && uintptr(at)%4 == 0 {
		return unsafe.Slice((*float32)(at), f.N)
	}
	return f.AppendSamples(nil)
}

// Registers are the readings of a register frame, watt hours.
func (f *Frame) Registers() []float64 {
	out := make([]float64, f.N)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(f.Payload[8*i:]))
	}
	return out
}

// Stretch is what consecutive samples of a rail come to; volts and amps are corrected by their
// calibration.
type Stretch struct {
	N                  int64
	Volts, Amps, Watts float64 // sums over the samples
	Min, Max           float64 // of the samples' watts
	First, Last        float64 // watts of the first sample and of the last
}

const (
	stretchBytes = 64
	markBytes    = 8
)

// Sums decodes the payload of a rail's frame: samples of the window by which it can be known again,
// volts and amps in turn, appended to marks[:0], and its stretches in their order, appended to
// stretches[:0].
func (f *Frame) Sums(marks []float32, stretches []Stretch) ([]float32, []Stretch, error) {
	le := binary.LittleEndian
	marks, stretches = marks[:0], stretches[:0]
	p := f.Payload
	if len(p) < 8 {
		return marks, stretches, fmt.Errorf("rail frame of %d bytes", len(p))
	}
	n, m := uint64(le.Uint32(p)), uint64(le.Uint32(p[4:]))
	if uint64(len(p)) != 8+m*markBytes+n*stretchBytes {
		return marks, stretches, fmt.Errorf("rail frame of %d stretches and %d marks has %d bytes", n, m, len(p))
	}
	for p = p[8:]; uint64(len(p)) > n*stretchBytes; p = p[4:] {
		marks = append(marks, math.Float32frombits(le.Uint32(p)))
	}
	samples := uint64(0)
	for ; len(p) > 0; p = p[stretchBytes:] {
		var v [stretchBytes/8 - 1]float64
		for i := range v {
			v[i] = math.Float64frombits(le.Uint64(p[8+8*i:]))
		}
		s := Stretch{int64(le.Uint64(p)), v[0], v[1], v[2], v[3], v[4], v[5], v[6]}
		samples += uint64(s.N)
		stretches = append(stretches, s)
	}
	if samples != uint64(f.N) {
		return marks, stretches, fmt.Errorf("rail frame of %d samples has stretches of %d", f.N, samples)
	}
	return marks, stretches, nil
}

// AppendSums appends the payload that Sums decodes.
func AppendSums(dst []byte, marks []float32, stretches []Stretch) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, uint32(len(stretches)))
	dst = le.AppendUint32(dst, uint32(len(marks)/2))
	for _, m := range marks {
		dst = le.AppendUint32(dst, math.Float32bits(m))
	}
	for _, s := range stretches {
		dst = le.AppendUint64(dst, uint64(s.N))
		for _, v := range []float64{s.Volts, s.Amps, s.Watts, s.Min, s.Max, s.First, s.Last} {
			dst = le.AppendUint64(dst, math.Float64bits(v))
		}
	}
	return dst
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// AppendSamples appends the samples of an analog frame to dst.
func (f *Frame) AppendSamples(dst []float32) []float32 {
	n := len(dst)
	need := n + int(f.N)
	if cap(dst) < need {
		grown := make([]float32, n, need+need/2)
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:need]
	out, in := dst[n:], f.Payload
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(in[i*4:]))
	}
	return dst
}

// Notice is the payload of an event frame.
type Notice struct {
	Event        string  `json:"event"`
	Driver       string  `json:"driver"`
	Vendor       string  `json:"vendor"`
	Model        string  `json:"model"`
	Version      string  `json:"version"`
	Serial       string  `json:"serial"`
	SamplerateHz uint64  `json:"samplerate_hz"`
	Seconds      float64 `json:"seconds"`
	Requested    bool    `json:"requested"`
	Key          string  `json:"key"`
	Value        string  `json:"value"`
	On           bool    `json:"on"`
	OK           bool    `json:"ok"`
	Error        string  `json:"error"`
	Reason       string  `json:"reason"`
	Channels     []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"channels"`
}

// Notice decodes the payload of an event frame.
func (f *Frame) Notice() (Notice, error) {
	var n Notice
	if err := json.Unmarshal(f.Payload, &n); err != nil {
		return n, fmt.Errorf("event frame: %w", err)
	}
	return n, nil
}

// Reader reads frames from a stream.
type Reader struct {
	in      *bufio.Reader
	header  [headerBytes]byte
	payload []byte
	frame   Frame
}

// NewReader reads from r in large pieces.
func NewReader(r io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 1<<18)}
}

// Next returns the next frame, which is only good until the call after. At the end of the stream
// between two frames the error is io.EOF; within a frame it is io.ErrUnexpectedEOF.
func (r *Reader) Next() (*Frame, error) {
	if _, err := io.ReadFull(r.in, r.header[:]); err != nil {
		return nil, err
	}
	f := &r.frame
	length, err := f.header(r.header[:])
	if err != nil {
		return nil, err
	}
	if cap(r.payload) < length {
		r.payload = make([]byte, length)
	}
	f.Payload = r.payload[:length]
	if _, err := io.ReadFull(r.in, f.Payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return f, nil
}

// header takes over what the first bytes of h say of a frame, and returns the length of its
// payload.
func (f *Frame) header(h []byte) (int, error) {
	le := binary.LittleEndian
	if m := le.Uint32(h); m != magic {
		return 0, fmt.Errorf("not a frame of srcap: magic %#08x", m)
	}
	length := le.Uint32(h[20:])
	if length > maxPayload {
		return 0, fmt.Errorf("frame of %d bytes, at most %d are allowed", length, maxPayload)
	}
	*f = Frame{
		Type:        Type(le.Uint16(h[4:])),
		Channel:     le.Uint16(h[6:]),
		Quantity:    le.Uint32(h[8:]),
		Unit:        le.Uint32(h[12:]),
		N:           le.Uint32(h[16:]),
		First:       le.Uint64(h[24:]),
		MonotonicNS: int64(le.Uint64(h[32:])),
		RealtimeNS:  int64(le.Uint64(h[40:])),
	}
	if f.Type == Register && uint64(length) != 8*uint64(f.N) {
		return 0, fmt.Errorf("register frame of %d readings has %d bytes", f.N, length)
	}
	if f.Type == Analog && uint64(length) != 4*uint64(f.N) {
		return 0, fmt.Errorf("analog frame of %d samples has %d bytes", f.N, length)
	}
	return int(length), nil
}

// Append appends f, encoded, to dst: what srcap does in C, for tests and replays.
func Append(dst []byte, f *Frame) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, magic)
	dst = le.AppendUint16(dst, uint16(f.Type))
	dst = le.AppendUint16(dst, f.Channel)
	dst = le.AppendUint32(dst, f.Quantity)
	dst = le.AppendUint32(dst, f.Unit)
	dst = le.AppendUint32(dst, f.N)
	dst = le.AppendUint32(dst, uint32(len(f.Payload)))
	dst = le.AppendUint64(dst, f.First)
	dst = le.AppendUint64(dst, uint64(f.MonotonicNS))
	dst = le.AppendUint64(dst, uint64(f.RealtimeNS))
	return append(dst, f.Payload...)
}

// AnalogPayload encodes samples as an analog frame's payload.
func AnalogPayload(samples []float32) []byte {
	out := make([]byte, 0, 4*len(samples))
	for _, s := range samples {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(s))
	}
	return out
}
