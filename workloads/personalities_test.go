// SPDX-License-Identifier: GPL-3.0-or-later

package workloads

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"joulerig/workloads/internal/wml"
)

func parsed(t *testing.T, name string) *wml.Program {
	t.Helper()
	source, is := Personality(name)
	if !is {
		t.Fatalf("%s is not there", name)
	}
	program, err := wml.Parse(name+".f", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// counts are the operations of one turn of a loop.
func counts(loop []*wml.Flowop) map[wml.Kind]int64 {
	sum := map[wml.Kind]int64{}
	for _, o := range loop {
		if o.Kind != wml.Composite {
			sum[o.Kind] += o.Iterations.Int(nil)
		}
		for kind, n := range counts(o.Inner) {
			sum[kind] += n * o.Iterations.Int(nil)
		}
	}
	return sum
}

func leaves(loop []*wml.Flowop) []*wml.Flowop {
	var all []*wml.Flowop
	for _, o := range loop {
		if o.Kind == wml.Composite {
			all = append(all, leaves(o.Inner)...)
		} else {
			all = append(all, o)
		}
	}
	return all
}

// The table of the published personalities: files, sizes, threads, loop.
func TestFileServingPersonalities(t *testing.T) {
	for _, c := range []struct {
		name             string
		files            int64
		width, depth     float64
		mean             float64
		threads, percent int64
		log              bool
		operations       int64
		loop             map[wml.Kind]int64
	}{
		{"varmail", 1000, 1000000, 0.5, 16384, 16, 80, false, 13, map[wml.Kind]int64{
			wml.DeleteFile: 1, wml.CreateFile: 1, wml.OpenFile: 2, wml.ReadWholeFile: 2,
			wml.AppendFileRand: 2, wml.Fsync: 2, wml.CloseFile: 3}},
		{"fileserver", 10000, 20, 3.1, 131072, 50, 80, false, 11, map[wml.Kind]int64{
			wml.CreateFile: 1, wml.WriteWholeFile: 1, wml.OpenFile: 2, wml.AppendFileRand: 1,
			wml.ReadWholeFile: 1, wml.CloseFile: 3, wml.DeleteFile: 1, wml.StatFile: 1}},
		{"webserver", 1000, 20, 2.3, 16384, 100, 100, true, 31, map[wml.Kind]int64{
			wml.OpenFile: 10, wml.ReadWholeFile: 10, wml.CloseFile: 10, wml.AppendFileRand: 1}},
		{"webproxy", 10000, 1000000, 0.7, 16384, 100, 80, true, 20, map[wml.Kind]int64{
			wml.DeleteFile: 1, wml.CreateFile: 1, wml.OpenFile: 5, wml.ReadWholeFile: 5,
			wml.CloseFile: 6, wml.AppendFileRand: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parsed(t, c.name)
			set := p.Filesets[0]
			if set.Entries != c.files || set.DirWidth.Mean() != c.width || set.PreallocPercent != c.percent {
				t.Errorf("files %d, width %v, prealloc %d", set.Entries, set.DirWidth.Mean(), set.PreallocPercent)
			}
			if math.Abs(set.MeanDepth()-c.depth) > 0.05 {
				t.Errorf("depth %v, want %v", set.MeanDepth(), c.depth)
			}
			if set.ReadOnly != (c.name == "webserver") {
				t.Errorf("read-only: %v", set.ReadOnly)
			}
			isGamma(t, set.Size, c.mean)
			if logs := len(p.Filesets) == 2 && p.Filesets[1].Entries == 1; logs != c.log {
				t.Errorf("a log file: %v", logs)
			}
			if len(p.Processes) != 1 || p.Processes[0].Instances != 1 || len(p.Processes[0].Threads) != 1 {
				t.Fatal("more than one loop")
			}
			thread := p.Processes[0].Threads[0]
			if thread.Instances != c.threads || p.Seconds != 60 {
				t.Errorf("%d threads for %d s", thread.Instances, p.Seconds)
			}
			hasLoop(t, thread.Flowops, c.loop, c.operations)
			hasSizes(t, thread.Flowops)
		})
	}
}

func hasLoop(t *testing.T, loop []*wml.Flowop, want map[wml.Kind]int64, operations int64) {
	t.Helper()
	got, total := counts(loop), int64(0)
	for _, n := range got {
		total += n
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || total != operations {
		t.Errorf("the loop has %v, %d in all; want %v, %d", got, total, want, operations)
	}
}

func hasSizes(t *testing.T, loop []*wml.Flowop) {
	t.Helper()
	for _, o := range leaves(loop) {
		want := map[wml.Kind]int64{
			wml.ReadWholeFile: 1 << 20, wml.WriteWholeFile: 1 << 20, wml.AppendFileRand: 16 << 10}[o.Kind]
		if o.Size.Int(nil) != want {
			t.Errorf("%s %s: iosize %d, want %d", o.Kind, o.Name, o.Size.Int(nil), want)
		}
	}
}

// isGamma checks mean and, by two of its quantiles, shape 1.5.
func isGamma(t *testing.T, size wml.Number, mean float64) {
	t.Helper()
	if size.IsFixed() {
		t.Fatal("the size is not drawn")
	}
	d, want := size.Distribution(), wml.Gamma(1.5, mean)
	for _, x := range []float64{mean / 4, mean, 2 * mean} {
		if d.Mean() != mean || math.Abs(d.CDF(x)-want.CDF(x)) > 1e-12 {
			t.Errorf("mean %v, CDF(%v) %v; want %v, %v", d.Mean(), x, d.CDF(x), mean, want.CDF(x))
		}
	}
}

func TestRandomPersonalities(t *testing.T) {
	for name, kind := range map[string]wml.Kind{"randomread": wml.Read, "randomwrite": wml.Write} {
		p := parsed(t, name)
		o := p.Processes[0].Threads[0].Flowops[0]
		if o.Kind != kind || !o.Random || o.Size.Int(nil) != 8192 || o.WorkingSet != 0 || o.Direct || o.HasFD {
			t.Errorf("%s: %+v", name, o)
		}
		if s := o.Fileset; !s.Single || s.Size.Int(nil) != 5<<30 || s.PreallocPercent != 100 || !s.Reuse || !s.Parallel {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestOLTPPersonality(t *testing.T) {
	p := parsed(t, "oltp")
	var instances []int64
	for _, process := range p.Processes {
		instances = append(instances, process.Instances)
	}
	if !slices.Equal(instances, []int64{1, 10, 200}) {
		t.Errorf("%v log writers, writers, readers", instances)
	}
	reader := p.Processes[2].Threads[0]
	hasLoop(t, reader.Flowops, map[wml.Kind]int64{wml.Read: 1, wml.Hog: 1, wml.SemPost: 2, wml.EventLimit: 1}, 5)
	hasLoop(t, p.Processes[1].Threads[0].Flowops,
		map[wml.Kind]int64{wml.AioWrite: 100, wml.Hog: 1, wml.SemBlock: 1, wml.AioWait: 1}, 103)
	if post := reader.Flowops[2]; post.Target != "log-idle" || !post.Blocking {
		t.Errorf("%+v", post)
	}
	if write := p.Processes[0].Threads[0].Flowops[0]; write.Size.Int(nil) != 256<<10 || !write.Sync || !write.Random {
		t.Errorf("%+v", write)
	}
}

func TestNames(t *testing.T) {
	want := []string{"fileserver", "oltp", "randomread", "randomwrite", "varmail", "webproxy", "webserver"}
	if got := Personalities(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, is := Personality("nosuch"); is {
		t.Error("a personality of no file")
	}
}
