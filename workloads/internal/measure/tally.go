// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longestNS         = int64(time.Hour) // a longer latency counts as this in the histogram
	significantDigits = 3
)

// tally is what was counted of one class.
type tally struct {
	ops, bytes, latencyNS, maxNS int64
	histogram                    *hdrhistogram.Histogram // of latencies in ns
}

func newTallies(classes []Class) []tally {
	tallies := make([]tally, len(classes))
	for i := range tallies {
		tallies[i].histogram = hdrhistogram.New(1, longestNS, significantDigits)
	}
	return tallies
}

func (t *tally) add(s *sample) {
	t.ops++
	t.bytes += s.bytes
	t.latencyNS += s.latencyNS
	t.maxNS = max(t.maxNS, s.latencyNS)
	// Within its range, a histogram takes everything.
	_ = t.histogram.RecordValue(min(s.latencyNS, longestNS))
}

func (t *tally) merge(from *tally) {
	if from.ops == 0 {
		return
	}
	t.ops += from.ops
	t.bytes += from.bytes
	t.latencyNS += from.latencyNS
	t.maxNS = max(t.maxNS, from.maxNS)
	t.histogram.Merge(from.histogram)
}

func (t *tally) reset() {
	if t.ops == 0 {
		return
	}
	t.histogram.Reset()
	*t = tally{histogram: t.histogram}
}

var percentiles = []float64{50, 95, 99, 99.9}

func (t *tally) figures(class Class) ClassFigures {
	f := ClassFigures{
		Name: class.Name, Kind: class.Kind, Ops: t.ops, Bytes: t.bytes,
		Seconds: seconds(t.latencyNS), Max: seconds(t.maxNS),
	}
	// A bucket's upper bound may lie above the largest latency in it.
	for i, ns := range t.histogram.ValueAtPercentilesSlice(percentiles) {
		*[]*float64{&f.P50, &f.P95, &f.P99, &f.P999}[i] = seconds(min(ns, t.maxNS))
	}
	return f
}

// counts returns the histogram's operations by the upper bound of their bucket in ns, empty buckets
// left out.
func (t *tally) counts() map[int64]int64 {
	counts := map[int64]int64{}
	for _, bar := range t.histogram.Distribution() {
		if bar.Count > 0 {
			counts[bar.To] = bar.Count
		}
	}
	return counts
}
