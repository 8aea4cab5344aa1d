// SPDX-License-Identifier: GPL-3.0-or-later

package srframe

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
)

func openBoth(t *testing.T, bytes int) (*Ring, *RingWriter, *os.File) {
	t.Helper()
	ring, err := NewRing(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ring.Close() })
	kicked, kick, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w, err := OpenRing(ring.File(), kick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kicked.Close(); kick.Close() })
	return ring, w, kicked
}

func TestFramesOfAllSizesComeThroughTheRingInOrder(t *testing.T) {
	ring, w, kicked := openBoth(t, 1<<18)
	random := rand.New(rand.NewPCG(1, 2))
	const frames = 3000
	sizes := make([]int, frames)
	for k := range sizes {
		sizes[k] = random.IntN(20000)
	}
	sample := func(k, i int) float32 { return float32((k*7 + i) % 1000) }
	go func() {
		for k, n := range sizes {
			values := make([]float32, n)
			for i := range values {
				values[i] = sample(k, i)
			}
			f := Frame{Type: Analog, Channel: uint16(k % 4), N: uint32(n), First: uint64(k), MonotonicNS: int64(k), Payload: AnalogPayload(values)}
			if w.Write(Append(nil, &f)) != nil {
				return
			}
		}
	}()
	kicks := make([]byte, 64)
	for k := 0; k < frames; {
		if _, err := kicked.Read(kicks); err != nil {
			t.Fatal(err)
		}
		for {
			f, err := ring.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f == nil {
				break
			}
			got := f.Samples()
			if f.First != uint64(k) || len(got) != sizes[k] {
				t.Fatalf("frame %d of %d samples where frame %d of %d was due", f.First, len(got), k, sizes[k])
			}
			for i := range got {
				if got[i] != sample(k, i) {
					t.Fatalf("frame %d, sample %d: %g", k, i, got[i])
				}
			}
			k++
		}
		ring.Release()
	}
}

func TestSamplesLieWhereTheyCame(t *testing.T) {
	ring, w, _ := openBoth(t, 1<<18)
	f := Frame{Type: Analog, N: 100, Payload: AnalogPayload(make([]float32, 100))}
	if err := w.Write(Append(nil, &f)); err != nil {
		t.Fatal(err)
	}
	got, err := ring.Next()
	if err != nil || got == nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { got.Samples() }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestARingThatIsDamagedIsNoCrash(t *testing.T) {
	for _, damage := range [][]byte{
		bytes.Repeat([]byte("this is no frame"), 8),
		Append(nil, &Frame{Type: Analog, N: 1 << 20, Payload: make([]byte, 16)}),
	} {
		ring, w, _ := openBoth(t, 1<<18)
		if err := w.Write(damage); err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Next(); err == nil {
			t.Error("damage is taken for a frame")
		}
		ring.written.Store(1 << 40)
		if _, err := ring.Next(); err == nil {
			t.Error("more than the ring holds is taken for frames")
		}
	}
}
