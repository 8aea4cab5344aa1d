// SPDX-License-Identifier: GPL-3.0-or-later

package measure

// ClassFigures are the figures of one class of operations in a span of time. Latencies are in
// seconds, exact to three digits, the greatest and the sum exact; they mean nothing where Ops is 0.
type ClassFigures struct {
	Name    string  `json:"name"`
	Kind    Kind    `json:"kind"`
	Ops     int64   `json:"ops"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"` // sum of the latencies of all threads
	P50     float64 `json:"p50_seconds"`
	P95     float64 `json:"p95_seconds"`
	P99     float64 `json:"p99_seconds"`
	P999    float64 `json:"p999_seconds"`
	Max     float64 `json:"max_seconds"`
}

// Interval is what ended in [StartNS, EndNS), CLOCK_MONOTONIC; an operation that its thread
// reported late is in the interval after. All classes are there.
type Interval struct {
	StartNS int64          `json:"start_ns"`
	EndNS   int64          `json:"end_ns"`
	Classes []ClassFigures `json:"classes"`
}

// ClassResult are the figures of one class over all.
type ClassResult struct {
	ClassFigures
	Histogram map[int64]int64 `json:"histogram"` // operations by the upper bound of their latency in ns
}

// Result is what was measured from Begin to End. Classes without an operation are left out.
type Result struct {
	BeginNS        int64              `json:"begin_monotonic_ns"`
	EndNS          int64              `json:"end_monotonic_ns"`
	Seconds        float64            `json:"seconds"`
	Ops            int64              `json:"ops"` // of all kinds
	OpsPerSecond   float64            `json:"ops_per_second"`
	ReadBytes      int64              `json:"read_bytes"`
	WriteBytes     int64              `json:"write_bytes"`
	MBPerSecond    float64            `json:"mb_per_second"`    // read and written, 10^6 bytes
	ReadWriteRatio *float64           `json:"read_write_ratio"` // read operations by write operations; null without a write
	Syncs          int64              `json:"syncs"`
	Mix            map[string]float64 `json:"mix"`        // share of the operations by class
	TimeShare      map[string]float64 `json:"time_share"` // share of the summed latencies by class
	Classes        []ClassResult      `json:"classes"`
	CPUSeconds     float64            `json:"cpu_seconds"` // of the whole process, user and kernel
	CPUPerOp       float64            `json:"cpu_seconds_per_op"`
	OverheadPerOp  float64            `json:"overhead_seconds_per_op"` // CPU time outside of system calls
}

func (c *Collector) interval(startNS, endNS int64) Interval {
	i := Interval{StartNS: startNS, EndNS: endNS, Classes: make([]ClassFigures, len(c.spare))}
	for class := range c.spare {
		i.Classes[class] = c.spare[class].figures(c.options.Classes[class])
	}
	return i
}

// NoResult is that of a load that never began.
func NoResult() Result {
	return Result{Mix: map[string]float64{}, TimeShare: map[string]float64{}, Classes: []ClassResult{}}
}

func (c *Collector) result(used cpuTime) Result {
	r := NoResult()
	r.BeginNS, r.EndNS, r.Seconds = c.beginNS, c.lastNS, seconds(c.lastNS-c.beginNS)
	r.CPUSeconds = used.total()
	for class := range c.total {
		if t := &c.total[class]; t.ops > 0 {
			r.Classes = append(r.Classes, ClassResult{t.figures(c.options.Classes[class]), t.counts()})
		}
	}
	sums := sum(r.figures())
	r.Ops, r.ReadBytes, r.WriteBytes, r.Syncs = sums.ops, sums.bytes[Read], sums.bytes[Write], sums.opsOf[Sync]
	if sums.opsOf[Write] > 0 {
		ratio := float64(sums.opsOf[Read]) / float64(sums.opsOf[Write])
		r.ReadWriteRatio = &ratio
	}
	if r.Seconds > 0 {
		r.OpsPerSecond = float64(r.Ops) / r.Seconds
		r.MBPerSecond = float64(r.ReadBytes+r.WriteBytes) / 1e6 / r.Seconds
	}
	if r.Ops > 0 {
		r.CPUPerOp, r.OverheadPerOp = used.total()/float64(r.Ops), used.user/float64(r.Ops)
	}
	for _, class := range r.Classes {
		r.Mix[class.Name] = float64(class.Ops) / float64(r.Ops)
		if sums.seconds > 0 {
			r.TimeShare[class.Name] = class.Seconds / sums.seconds
		}
	}
	return r
}

func (r *Result) figures() []ClassFigures {
	figures := make([]ClassFigures, len(r.Classes))
	for i, class := range r.Classes {
		figures[i] = class.ClassFigures
	}
	return figures
}

// sums are figures of several classes together, also by kind.
type sums struct {
	ops          int64
	seconds      float64
	opsOf, bytes [len(kindNames)]int64
}

func sum(classes []ClassFigures) (s sums) {
	for _, class := range classes {
		s.ops += class.Ops
		s.seconds += class.Seconds
		s.opsOf[class.Kind] += class.Ops
		s.bytes[class.Kind] += class.Bytes
	}
	return s
}
