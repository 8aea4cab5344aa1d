// SPDX-License-Identifier: GPL-3.0-or-later

package srframe

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func analog(channel uint16, first uint64, samples ...float32) *Frame {
	return &Frame{Type: Analog, Channel: channel, Quantity: Voltage, Unit: 10000, N: uint32(len(samples)), First: first,
		MonotonicNS: 12, RealtimeNS: 34, Payload: AnalogPayload(samples)}
}

func TestFramesComeBackAsWritten(t *testing.T) {
	var stream []byte
	stream = Append(stream, &Frame{Type: Event, Channel: NoChannel, Payload: []byte(`{"event":"start","model":"RTA4004","new":1}`)})
	stream = Append(stream, analog(1, 20, 3.25, -0.5))
	r := NewReader(bytes.NewReader(stream))

	f, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Notice()
	if err != nil || n.Event != "start" || n.Model != "RTA4004" {
		t.Fatalf("notice %+v, %v", n, err)
	}
	f, err = r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if f.Channel != 1 || f.First != 20 || f.End() != 22 || f.Quantity != Voltage || f.MonotonicNS != 12 || f.RealtimeNS != 34 {
		t.Errorf("frame %+v", f)
	}
	if got := f.AppendSamples([]float32{7}); !slices.Equal(got, []float32{7, 3.25, -0.5}) {
		t.Errorf("samples %v", got)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestAStreamCutInsideAFrameIsNotAnEnd(t *testing.T) {
	whole := Append(nil, analog(0, 0, 1, 2, 3))
	for _, cut := range []int{1, headerBytes - 1, headerBytes, len(whole) - 1} {
		_, err := NewReader(bytes.NewReader(whole[:cut])).Next()
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	good := Append(nil, analog(0, 0, 1, 2))
	for name, c := range map[string]struct {
		at   int
		to   byte
		want string
	}{
		"magic":         {0, 'X', "magic"},
		"huge length":   {23, 0xff, "at most"},
		"sample count":  {16, 3, "3 samples"},
		"length is off": {20, 4, "4 bytes"},
	} {
		bad := slices.Clone(good)
		bad[c.at] = c.to
		_, err := NewReader(bytes.NewReader(bad)).Next()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkReadAndDecode(b *testing.B) {
	stream := Append(nil, &Frame{Type: Analog, N: 20000, Payload: make([]byte, 80000)})
	var samples []float32
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	in := bytes.NewReader(stream)
	r := NewReader(in)
	for b.Loop() {
		in.Reset(stream)
		r.in.Reset(in)
		f, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		samples = f.AppendSamples(samples[:0])
	}
}
