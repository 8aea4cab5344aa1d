// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var classes = []Class{{"open", Other}, {"read", Read}, {"append", Write}, {"fsync", Sync}}

const (
	open = iota
	read
	write
	fsync
)

// measured returns the result of operations reported by one thread, in an hour-long interval.
func measured(record func(*Recorder)) Result {
	c := New(Options{Classes: classes, Threads: 1, Interval: time.Hour})
	begin := Now()
	c.Begin(begin)
	record(c.Recorder(0))
	return c.End(begin + int64(2*time.Second))
}

func classOf(t *testing.T, r Result, name string) ClassResult {
	t.Helper()
	for _, class := range r.Classes {
		if class.Name == name {
			return class
		}
	}
	t.Fatalf("no class %q in %v", name, r.Mix)
	return ClassResult{}
}

func expectNear(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s: got %v, want %v within %v of it", what, got, want, share)
	}
}

func TestKnownLatenciesGiveKnownQuantiles(t *testing.T) {
	r := measured(func(r *Recorder) {
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(10000) {
			r.Done(read, 0, int64(i+1)*1000, 1) // 1 us to 10 ms
		}
	})
	f := classOf(t, r, "read")
	expectNear(t, "p50", f.P50, 5.000e-3, 1e-3)
	expectNear(t, "p95", f.P95, 9.500e-3, 1e-3)
	expectNear(t, "p99", f.P99, 9.900e-3, 1e-3)
	expectNear(t, "p99.9", f.P999, 9.990e-3, 1e-3)
	expectNear(t, "sum", f.Seconds, 10000*10001/2*1e-6, 1e-12)
	if f.Max != 10e-3 {
		t.Errorf("max: got %v, want exactly 10 ms", f.Max)
	}
}

func TestNoQuantileIsAboveTheGreatestLatency(t *testing.T) {
	f := classOf(t, measured(func(r *Recorder) { r.Done(read, 0, 1_234_567, 0) }), "read")
	if f.P50 != f.Max || f.P999 != f.Max {
		t.Errorf("one latency of %v gives %+v", f.Max, f)
	}
}

func TestHistogramHoldsEveryOperationByItsUpperBound(t *testing.T) {
	latencies := []int64{7, 7, 1500, 2_000_000, 3 * int64(time.Hour)}
	f := classOf(t, measured(func(r *Recorder) {
		for _, ns := range latencies {
			r.Done(read, 0, ns, 0)
		}
	}), "read")
	n := int64(0)
	for bound, count := range f.Histogram {
		n += count
		if !slices.ContainsFunc(latencies, func(ns int64) bool {
			ns = min(ns, longestNS)
			return bound >= ns && float64(bound) <= float64(ns)*1.001
		}) {
			t.Errorf("a bucket up to %d ns holds %d: none of %v", bound, count, latencies)
		}
	}
	if n != int64(len(latencies)) || f.Histogram[7] != 2 {
		t.Errorf("got %v", f.Histogram)
	}
	if f.Max != 3*3600 {
		t.Errorf("a latency beyond the histogram's range: max %v s", f.Max)
	}
}

func TestResultCountsByKind(t *testing.T) {
	r := measured(func(r *Recorder) {
		r.Done(open, 0, 10, 0)
		r.Done(read, 0, 10, 3_000_000)
		r.Done(read, 0, 10, 1_000_000)
		r.Done(write, 0, 10, 2_000_000)
		r.Done(fsync, 0, 60, 0)
	})
	if r.Ops != 5 || r.ReadBytes != 4_000_000 || r.WriteBytes != 2_000_000 || r.Syncs != 1 || r.Seconds != 2 {
		t.Errorf("got %+v", r)
	}
	if r.OpsPerSecond != 2.5 || r.MBPerSecond != 3 || *r.ReadWriteRatio != 2 {
		t.Errorf("got %v ops/s, %v MB/s, ratio %v", r.OpsPerSecond, r.MBPerSecond, *r.ReadWriteRatio)
	}
	expectNear(t, "share of read", r.Mix["read"], 0.4, 1e-12)
	expectNear(t, "share of fsync", r.Mix["fsync"], 0.2, 1e-12)
	expectNear(t, "share of fsync's time", r.TimeShare["fsync"], 0.6, 1e-12)
}

func TestResultOfNothingIsJSON(t *testing.T) {
	r := measured(func(*Recorder) {})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if r.ReadWriteRatio != nil || r.CPUPerOp != 0 || len(r.Classes) != 0 {
		t.Errorf("got %s", text)
	}
}

func TestKindsAreReadAsTheyAreWritten(t *testing.T) {
	for _, kind := range []Kind{Other, Read, Write, Sync} {
		text, _ := kind.MarshalText()
		var got Kind
		if err := got.UnmarshalText(text); err != nil || got != kind {
			t.Errorf("%s became %v, %v", text, got, err)
		}
	}
	if err := new(Kind).UnmarshalText([]byte("flush")); err == nil {
		t.Error("flush is no kind")
	}
}

func TestCountsAreExactWhileIntervalsTurn(t *testing.T) {
	const threads, round = 8, 4_000 // a round has each class equally often
	var intervals []Interval
	var turned, done atomic.Int64
	c := New(Options{
		Classes: classes, Threads: threads, Interval: time.Millisecond,
		Emit: func(i Interval) { intervals = append(intervals, i); turned.Add(1) },
	})
	begin := Now()
	c.Begin(begin)
	var working sync.WaitGroup
	for thread := range threads {
		working.Go(func() {
			r := c.Recorder(thread)
			for turned.Load() < 3 {
				for i := range round {
					now := Now()
					r.Done(i%len(classes), now-int64(i), now, 3)
				}
				done.Add(round)
			}
		})
	}
	working.Wait()
	result := c.End(Now())

	ops := done.Load()
	var series sums
	at := begin
	for _, i := range intervals {
		if i.StartNS != at || i.EndNS <= i.StartNS {
			t.Fatalf("interval from %d to %d after one that ended at %d", i.StartNS, i.EndNS, at)
		}
		at = i.EndNS
		s := sum(i.Classes)
		series.ops += s.ops
		series.bytes[Read] += s.bytes[Read]
	}
	if at != result.EndNS {
		t.Errorf("the series ends at %d, the result at %d", at, result.EndNS)
	}
	if series.ops != ops || series.bytes[Read] != 3*ops/4 {
		t.Errorf("the series has %d operations, %d bytes read", series.ops, series.bytes[Read])
	}
	if result.Ops != ops || result.Syncs != ops/4 {
		t.Errorf("the result has %d operations, %d syncs", result.Ops, result.Syncs)
	}
	for _, class := range result.Classes {
		n := int64(0)
		for _, count := range class.Histogram {
			n += count
		}
		if n != class.Ops {
			t.Errorf("%s: %d operations, %d in the histogram", class.Name, class.Ops, n)
		}
	}
}

func TestAnOperationIsInTheIntervalInWhichItEnded(t *testing.T) {
	var intervals []Interval
	c := New(Options{Classes: classes, Threads: 1, Emit: func(i Interval) { intervals = append(intervals, i) }})
	r := c.Recorder(0)
	for _, end := range []int64{50, 99, 100, 150} {
		r.Done(read, 0, end, 0)
	}
	c.rotate(100, 100)
	c.rotate(200, 200)
	for n, want := range []int64{2, 2} {
		if got := intervals[n].Classes[read].Ops; got != want {
			t.Errorf("interval %d has %d operations, want %d", n, got, want)
		}
	}
	if got := intervals[0].Classes[read].Max; got != 99e-9 {
		t.Errorf("the first interval's greatest latency is %v s", got)
	}
}

// The threads end after the time is up: what they were about then counts.
func TestAnOperationThatEndsAfterTheLastInstantCounts(t *testing.T) {
	r := measured(func(r *Recorder) {
		now := Now()
		r.Done(read, now, now+int64(time.Second), 7)
		r.Done(read, now, now+int64(time.Hour), 8)
	})
	if r.Ops != 2 || r.ReadBytes != 15 || r.Seconds != 2 {
		t.Errorf("%d operations of %d bytes in %v s", r.Ops, r.ReadBytes, r.Seconds)
	}
}

func TestTheResultIsOfAllIntervalsAndTheGreatestLatencyOfAny(t *testing.T) {
	var intervals []Interval
	c := New(Options{Classes: classes, Threads: 1, Interval: time.Hour, Emit: func(i Interval) { intervals = append(intervals, i) }})
	c.Begin(Now())
	r := c.Recorder(0)
	for _, latency := range []int64{1000, 5000, 3000} {
		begin := c.lastNS
		r.Done(write, begin, begin+latency, 10)
		c.rotate(begin+10_000, begin+10_000)
	}
	result := c.End(c.lastNS + 1)
	f := classOf(t, result, "append")
	if f.Ops != 3 || f.Bytes != 30 || f.Max != 5000e-9 || f.Seconds != 9000e-9 {
		t.Errorf("all: %+v", f)
	}
	for n, most := range []float64{1000e-9, 5000e-9, 3000e-9, 0} {
		got := intervals[n].Classes[write]
		if got.Max != most || got.Seconds != most || n < 3 && (got.Ops != 1 || got.Bytes != 10) {
			t.Errorf("interval %d: %+v, greatest latency %v", n, got, most)
		}
	}
}

// Clocks of two processors may differ by a little.
func TestNoLatencyIsNegative(t *testing.T) {
	f := classOf(t, measured(func(r *Recorder) { r.Done(read, 1000, 900, 0) }), "read")
	if f.Seconds != 0 || f.Max != 0 || f.Ops != 1 {
		t.Errorf("%+v", f)
	}
}

func TestMemoryDoesNotGrowWithTime(t *testing.T) {
	c := New(Options{Classes: classes, Threads: 1, Emit: func(Interval) {}})
	r := c.Recorder(0)
	ns := int64(0)
	perInterval := testing.AllocsPerRun(20, func() {
		for range 10 * ringSamples {
			ns += 1000
			r.Done(write, ns-500, ns, 1)
		}
		c.rotate(ns, ns)
	})
	// The figures of one interval, and nothing for its 2560 operations.
	if perInterval > 50 {
		t.Errorf("%v allocations an interval", perInterval)
	}
}

func TestNowIsTheMonotonicClock(t *testing.T) {
	for range 100 {
		before := clockNS(1)
		now := Now()
		after := clockNS(1)
		if now < before-10_000 || now > after+10_000 {
			t.Fatalf("Now is %d, CLOCK_MONOTONIC went from %d to %d", now, before, after)
		}
	}
	if utc := Now() + RealtimeOffset(); math.Abs(float64(utc-time.Now().UnixNano())) > 1e8 {
		t.Errorf("Now + RealtimeOffset is %d, it is %d", utc, time.Now().UnixNano())
	}
}

func BenchmarkDone(b *testing.B) {
	c := New(Options{Classes: classes, Threads: 1})
	r := c.Recorder(0)
	b.ReportAllocs()
	begin := usedCPU()
	for i := range b.N {
		r.Done(i&3, 0, int64(i&0xfffff), 4096)
	}
	// Others may use the machine too: what counts is the CPU time.
	b.ReportMetric(usedCPU().since(begin).total()*1e9/float64(b.N), "cpu-ns/op")
}

func BenchmarkNow(b *testing.B) {
	for range b.N {
		Now()
	}
}
