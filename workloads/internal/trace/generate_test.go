// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"bytes"
	"math"
	"testing"
)

func synthetic(change func(*Synthetic)) *Synthetic {
	s := &Synthetic{Operations: 5000, WriteShare: 0.5, SyncShare: 0.3, Files: 50, Threads: 4, Rate: 1000, Seed: 1}
	s.FileBytes.Set("gamma:16384:1.5")
	s.IOBytes.Set("4096")
	change(s)
	return s
}

func generated(t *testing.T, s *Synthetic) (*Trace, string) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Generate(&out); err != nil {
		t.Fatal(err)
	}
	return parsed(t, out.String()), out.String()
}

func TestSharesOfASyntheticTraceAreThoseStated(t *testing.T) {
	for _, c := range []struct{ write, unlink, sync float64 }{
		{0.5, 0, 0.3}, {1, 0, 1}, {0, 0, 0}, {0.9, 0.1, 0.25}, {0.2, 0.05, 0}, {0.333, 0.1, 0.777},
	} {
		read, _ := generated(t, synthetic(func(s *Synthetic) { s.WriteShare, s.UnlinkShare, s.SyncShare = c.write, c.unlink, c.sync }))
		n := map[Call]float64{}
		for i, o := range read.Operations {
			n[o.Call]++
			if o.Call == Fsync {
				if before := read.Operations[i-1]; before.Call != Write || before.Path != o.Path || before.Thread != o.Thread {
					t.Fatalf("line %d: an fsync of what was not just written: %+v", o.Line, before)
				}
			}
		}
		all := n[Read] + n[Write] + n[Unlink]
		writes := math.Round(c.write * 5000)
		if all != 5000 || n[Write] != writes || n[Unlink] != math.Round(c.unlink*5000) || n[Fsync] != math.Round(c.sync*writes) {
			t.Errorf("%+v gave %v", c, n)
		}
		if _, err := NewReplay(read, nil, 0); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestASyntheticTraceDeclaresItsFiles(t *testing.T) {
	read, _ := generated(t, synthetic(func(s *Synthetic) { s.Files, s.Operations = 4000, 1 }))
	sum := 0.0
	for _, path := range read.Paths {
		if path.Declared < 1 {
			t.Fatalf("%+v", path)
		}
		sum += float64(path.Declared)
	}
	// The mean of 4000 draws: its standard error is 1.3 % of it.
	if mean := sum / 4000; math.Abs(mean-16384) > 0.05*16384 {
		t.Errorf("%d files of %v bytes in the mean", len(read.Paths), mean)
	}
}

func TestReadsAndWritesStayInTheirFile(t *testing.T) {
	read, _ := generated(t, synthetic(func(s *Synthetic) { s.IOBytes.Set("gamma:8192:2") }))
	for _, o := range read.Operations {
		if size := read.Paths[o.Path].Declared; o.Offset+o.Bytes > size {
			t.Fatalf("%+v of a file of %d bytes", o, size)
		}
	}
}

func TestASeedGivesItsTrace(t *testing.T) {
	_, first := generated(t, synthetic(func(*Synthetic) {}))
	_, again := generated(t, synthetic(func(*Synthetic) {}))
	_, other := generated(t, synthetic(func(s *Synthetic) { s.Seed = 2 }))
	if first != again || first == other {
		t.Errorf("alike with the same seed: %v, with another: %v", first == again, first == other)
	}
}

func TestAFewFilesThatAreAllUnlinkedAreMadeAgain(t *testing.T) {
	read, _ := generated(t, synthetic(func(s *Synthetic) { s.Files, s.WriteShare, s.UnlinkShare = 1, 0.1, 0.9 }))
	if _, err := NewReplay(read, nil, 0); err != nil {
		t.Error(err)
	}
}

func TestSizesSet(t *testing.T) {
	for _, text := range []string{"4096", "gamma:16384:1.5"} {
		var s Sizes
		if err := s.Set(text); err != nil || s.String() != text {
			t.Errorf("%s: %v, %s", text, err, s.String())
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "gamma:", "gamma:5", "gamma:5:", "gamma:0:1", "gamma:5:0", "gamma:NaN:1", "uniform:1:2"} {
		if err := new(Sizes).Set(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
