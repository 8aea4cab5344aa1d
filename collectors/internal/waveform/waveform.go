// SPDX-License-Identifier: GPL-3.0-or-later

// Package waveform records the volts and amps of rails at the full sample rate into one Parquet
// file.
//
// # The table
//
// A row is one sample of one rail:
//
//	host, drive, rail  string   which rail
//	stream             int32    which unbroken stream of the instrument: indices restart with each
//	index              int64    the sample's index in its stream; a missing one was lost or dropped
//	volts, amps        float32  as Append got them: corrected, the very values that were integrated
//
// A row group holds about a second of one rail; of the first four columns it has one value, or
// consecutive ones, and they take next to no room. The file's metadata has one key, MetadataKey,
// with a JSON object: see Contents.
//
// # The time of a sample
//
// Clock gives pairs (index i, UTC u): at u the instrument had made i samples of the stream. Between
// two pairs time runs evenly, before the first pair and after the last it runs at the declared
// rate:
//
//	t(i) = u[k] + (i - i[k]) (u[k+1] - u[k]) / (i[k+1] - i[k])   for i[k] <= i <= i[k+1]
//	t(i) = u[0] - (i[0] - i) / rate,   t(i) = u[n] + (i - i[n]) / rate
//
// Sample i is the mean over [t(i), t(i+1)) of an instrument that averages over its window, and the
// value at t(i+1) of one that samples points. So t(i+1) is its time as `power` points have it: the
// end of the sample.
//
// # Crashes
//
// Parquet keeps its directory at the end of the file, so a file cut short has none. Here a small
// record stands before each row group, with the group's directory entry and checksums; readers of
// Parquet do not see the records. The file is PATH.partial while it grows. After a crash Recover
// drops what is incomplete behind the last whole row group and writes the directory. Nothing is
// synced before Close: a crash of the process costs the row groups not yet written (see groupRows:
// a second or ten of each rail and what was in the queue), one of the machine also what the kernel
// had not written back.
//
// # Bounds
//
// The capture is never kept waiting: Append copies, and what finds no room because the disk is
// slower than the samples is dropped, counted, and named as a gap. At maxBytes the recording ends.
// A disk that is full, or fails, ends it too; the file then holds what came before. Every sample
// offered is in exactly one of recorded, dropped and cut.
package waveform

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
)

// MetadataKey is the key of the JSON object (Contents) in the file's metadata.
const MetadataKey = "joulerig.waveform"

// PartialSuffix is at the end of the name while the file is being written.
const PartialSuffix = ".partial"

// MinBytes is the least bound that Create takes.
const MinBytes = 64 << 10

const (
	// What may wait for the disk: this long, or so many samples of each rail if that is more.
	queueSeconds = 4.0
	queueSamples = 1 << 16
	maxGroupRows = 1 << 20
	// A row group costs about 1.2 kB in addition to its samples; below this many rows that would be
	// too much of it.
	minGroupRows = 8192
	// The longest that samples of a slow instrument wait for their row group to fill.
	maxGroupSeconds = 10.0
	// The format counts row groups in 16 bits.
	maxGroups = math.MaxInt16
	// Gaps beyond are in the counters, and in the index column, but not in the list.
	maxGaps = 4096
)

var (
	// ErrFull is what Append says once maxBytes is reached.
	ErrFull = errors.New("the waveform file is full")
	// ErrClosed is what Append says after Close.
	ErrClosed = errors.New("the waveform file is closed")
)

// Channel is the origin of one of a rail's two columns. The correction is applied already: reading
// = (value - offset) / gain.
type Channel struct {
	Name        string  `json:"name"`
	Gain        float64 `json:"gain"`
	Offset      float64 `json:"offset"`                // in V or A
	Certificate string  `json:"certificate,omitempty"` // of the calibration
}

// RailMeta says which rail a number of Append is.
type RailMeta struct {
	Rail  string  `json:"rail"`
	Host  string  `json:"host"`
	Drive string  `json:"drive"`
	Volts Channel `json:"volts"`
	Amps  Channel `json:"amps"`
}

// Meta is what is known when a recording begins.
type Meta struct {
	Meter        string     `json:"meter"`
	Session      string     `json:"session"`
	Instrument   string     `json:"instrument"`
	SampleRateHz float64    `json:"sample_rate_hz"` // declared
	Samples      string     `json:"samples"`        // "window-mean" or "point"
	Rails        []RailMeta `json:"rails"`
}

// ClockPoint is a pair of the sample clock.
type ClockPoint struct {
	Stream          int32   `json:"stream"`
	Index           uint64  `json:"index"`
	UTC             int64   `json:"utc_ns"`
	ResidualSeconds float64 `json:"residual_seconds"`
}

// Gap is a stretch of samples that came but found no room.
type Gap struct {
	Rail    int    `json:"rail"` // number in Meta.Rails
	Stream  int32  `json:"stream"`
	First   uint64 `json:"first"`
	Samples int64  `json:"samples"`
}

// Last is the end of what is recorded of a rail.
type Last struct {
	Rail   int    `json:"rail"` // number in Meta.Rails
	Stream int32  `json:"stream"`
	Index  uint64 `json:"index"` // of the last sample in the file
}

// Counts add up: each sample that Append was offered is in one of the three.
type Counts struct {
	Recorded int64 `json:"recorded"` // in the file
	Dropped  int64 `json:"dropped"`  // no room in the queue
	Cut      int64 `json:"cut"`      // after the bound was reached, or after the disk failed
}

// Summary is the result of a recording.
type Summary struct {
	Counts
	Bytes     int64  `json:"-"`               // of the file
	Truncated bool   `json:"truncated"`       // maxBytes was reached
	Error     string `json:"error,omitempty"` // why the recording ended early, if the disk was the reason
	Recovered bool   `json:"recovered"`       // made by Recover: the counts are those of the last row group
	Last      []Last `json:"last"`            // of each rail that has samples
}

// Contents is the JSON object in the file's metadata.
type Contents struct {
	Version int `json:"version"` // 1
	Meta
	Summary
	Clock []ClockPoint `json:"clock"`
	Gaps  []Gap        `json:"gaps"`
}

// Recorder records the rails of one meter. Its methods may be called from several goroutines, but
// one rail's samples come in order.
type Recorder struct {
	meta      Meta
	groupRows int
	maxOpen   int // groups, filling, queued and being written

	mu      sync.Mutex
	wake    chan struct{}
	done    chan struct{}
	filling []*group // by rail, nil: none
	queue   []*group
	free    []*group
	made    int
	stream  int32
	next    []uint64 // by rail: lowest index that may come
	clock   clock
	gaps    []Gap // not yet handed to the writer
	listed  int   // gaps so far
	counts  Counts
	stopped error // ErrFull, ErrClosed or what the disk said; nil: recording
	closing bool

	writer *writer // the writer goroutine's, and Close's after it
	result Summary
	err    error
}

// group is a row group in the making: runs of consecutive samples of one rail.
type group struct {
	rail        int
	stream      int32
	runs        []run
	volts, amps []float32
}

type run struct {
	first uint64
	n     int
}

// Create begins a recording at PATH.partial, which Close makes PATH; neither may exist. The file
// never exceeds maxBytes.
func Create(path string, meta Meta, maxBytes int64) (*Recorder, error) {
	if maxBytes < MinBytes {
		return nil, fmt.Errorf("waveform %s: a bound of %d bytes (allowed: at least %d)", path, maxBytes, MinBytes)
	}
	if !(meta.SampleRateHz > 0) || math.IsInf(meta.SampleRateHz, 0) {
		return nil, fmt.Errorf("waveform %s: a rate of %v Hz (allowed: above 0)", path, meta.SampleRateHz)
	}
	if len(meta.Rails) == 0 {
		return nil, fmt.Errorf("waveform %s: no rails (allowed: one or more)", path)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("waveform %s: %w", path, os.ErrExist)
	}
	file, err := os.OpenFile(path+PartialSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("waveform: %w", err)
	}
	// Recover must not take a file that is still growing.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("waveform %s: %w", file.Name(), err)
	}
	return start(file, path, meta, maxBytes)
}

func start(file storage, path string, meta Meta, maxBytes int64) (*Recorder, error) {
	w, err := newWriter(file, path, meta, maxBytes)
	if err != nil {
		file.Close()
		os.Remove(path + PartialSuffix)
		return nil, fmt.Errorf("waveform %s: %w", path, err)
	}
	rows := groupRows(meta.SampleRateHz)
	perRail := int(math.Ceil(math.Max(queueSamples, queueSeconds*meta.SampleRateHz)/float64(rows))) + 1
	r := &Recorder{
		meta: meta, groupRows: rows, maxOpen: perRail*len(meta.Rails) + 1,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		filling: make([]*group, len(meta.Rails)), next: make([]uint64, len(meta.Rails)),
		clock: clock{spacing: uint64(math.Ceil(meta.SampleRateHz))}, writer: w,
	}
	go r.write()
	return r, nil
}

// groupRows is how many samples make a row group: a second's, but more of a slow instrument.
func groupRows(rateHz float64) int {
	least := math.Min(minGroupRows, maxGroupSeconds*rateHz)
	return max(1, int(math.Min(maxGroupRows, math.Max(least, rateHz))))
}

// Append takes consecutive samples of a rail (its number in Meta.Rails), from index first of the
// stream on. It copies them, and waits for no disk. An error says that they were not taken and why;
// the capture may go on and need not call again after ErrFull, ErrClosed or an error of the disk,
// though it may: what comes is counted.
func (r *Recorder) Append(rail int, first uint64, volts, amps []float32) error {
	if rail < 0 || rail >= len(r.filling) {
		return fmt.Errorf("waveform: rail %d, there are %d", rail, len(r.filling))
	}
	if len(volts) != len(amps) {
		return fmt.Errorf("waveform: %d volts and %d amps", len(volts), len(amps))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped != nil {
		r.counts.Cut += int64(len(volts))
		return r.stopped
	}
	if first < r.next[rail] {
		return fmt.Errorf("waveform: sample %d of rail %d comes again", first, rail)
	}
	r.next[rail] = first + uint64(len(volts))
	for len(volts) > 0 {
		g := r.filling[rail]
		if g == nil {
			if g = r.take(); g == nil {
				r.drop(rail, first, len(volts))
				return nil
			}
			g.rail, g.stream = rail, r.stream
			r.filling[rail] = g
		}
		n := min(len(volts), r.groupRows-len(g.volts))
		if k := len(g.runs) - 1; k >= 0 && g.runs[k].first+uint64(g.runs[k].n) == first {
			g.runs[k].n += n
		} else {
			g.runs = append(g.runs, run{first, n})
		}
		g.volts = append(g.volts, volts[:n]...)
		g.amps = append(g.amps, amps[:n]...)
		first, volts, amps = first+uint64(n), volts[n:], amps[n:]
		if len(g.volts) == r.groupRows {
			r.seal(rail)
		}
	}
	return nil
}

// Stream says that the instrument was started again: indices, of samples and of Clock, begin at 0.
func (r *Recorder) Stream() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped != nil {
		return
	}
	for rail := range r.filling {
		r.seal(rail)
		r.next[rail] = 0
	}
	r.clock.keepLatest()
	r.stream++
}

// Clock notes that at utcNS the instrument had made index samples of the stream under way. It may
// be called as often as one likes: of pairs less than a second apart the last is kept.
// residualSeconds is the uncertainty of the pair; without a finite one it is none.
func (r *Recorder) Clock(index uint64, utcNS int64, residualSeconds float64) {
	if residualSeconds-residualSeconds != 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped == nil {
		r.clock.add(ClockPoint{r.stream, index, utcNS, residualSeconds})
	}
}

// Counts are those up to now; samples that wait for being written are in none of them.
func (r *Recorder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Close writes what waits, and the file's directory, and gives the file its name. The error is that
// of a file that could not be completed; a recording that ended early because of its bound or a
// full disk is in the summary.
func (r *Recorder) Close() (Summary, error) {
	r.mu.Lock()
	if !r.closing {
		r.closing = true
		for rail := range r.filling {
			r.seal(rail)
		}
		r.clock.keepLatest()
		if r.stopped == nil {
			r.stopped = ErrClosed
		}
		r.signal()
	}
	r.mu.Unlock()
	<-r.done
	return r.result, r.err
}

// take returns an empty group, nil if there may be no more.
func (r *Recorder) take() *group {
	if n := len(r.free); n > 0 {
		g := r.free[n-1]
		r.free = r.free[:n-1]
		return g
	}
	if r.made == r.maxOpen {
		return nil
	}
	r.made++
	return &group{volts: make([]float32, 0, r.groupRows), amps: make([]float32, 0, r.groupRows)}
}

func (r *Recorder) seal(rail int) {
	if g := r.filling[rail]; g != nil {
		r.filling[rail] = nil
		r.queue = append(r.queue, g)
		r.signal()
	}
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Recorder) drop(rail int, first uint64, n int) {
	r.counts.Dropped += int64(n)
	for k := len(r.gaps) - 1; k >= 0; k-- {
		if g := &r.gaps[k]; g.Rail == rail {
			if g.Stream == r.stream && g.First+uint64(g.Samples) == first {
				g.Samples += int64(n)
				return
			}
			break
		}
	}
	if r.listed < maxGaps {
		r.listed++
		r.gaps = append(r.gaps, Gap{rail, r.stream, first, int64(n)})
	}
}

// write is the writer goroutine.
func (r *Recorder) write() {
	defer close(r.done)
	for {
		r.mu.Lock()
		var g *group
		if len(r.queue) > 0 {
			g = r.queue[0]
			r.queue = r.queue[1:]
		} else if r.closing {
			r.writer.take(r.clock.handOver(), r.handGaps(), r.counts)
			r.mu.Unlock()
			r.result, r.err = r.writer.finish()
			return
		}
		if g == nil {
			r.mu.Unlock()
			<-r.wake
			continue
		}
		r.writer.take(r.clock.handOver(), r.handGaps(), r.counts)
		r.mu.Unlock()

		err := r.writer.add(g)

		r.mu.Lock()
		r.counts.Recorded, r.counts.Cut = r.writer.counts.Recorded, r.counts.Cut+r.writer.handCut()
		if err != nil && (r.stopped == nil || errors.Is(r.stopped, ErrClosed)) {
			r.stop(err)
		}
		g.runs, g.volts, g.amps = g.runs[:0], g.volts[:0], g.amps[:0]
		r.free = append(r.free, g)
		r.mu.Unlock()
	}
}

// stop ends the recording; what waits is cut.
func (r *Recorder) stop(err error) {
	r.stopped = err
	for rail, g := range r.filling {
		if g != nil {
			r.counts.Cut += int64(len(g.volts))
			r.filling[rail] = nil
		}
	}
	for _, g := range r.queue {
		r.counts.Cut += int64(len(g.volts))
	}
	r.queue, r.free = nil, nil
}

func (r *Recorder) handGaps() []Gap {
	gaps := r.gaps
	r.gaps = nil
	return gaps
}

// clock thins the pairs to one a second, the last one always among them.
type clock struct {
	spacing uint64 // samples
	kept    []ClockPoint
	base    ClockPoint // the last one kept
	any     bool
	latest  ClockPoint // after base, if waiting
	waiting bool
}

func (c *clock) add(p ClockPoint) {
	if !c.any || p.Stream != c.base.Stream {
		c.keepLatest()
		c.keep(p)
		return
	}
	newest := c.base
	if c.waiting {
		newest = c.latest
	}
	if p.Index <= newest.Index || p.UTC <= newest.UTC {
		return
	}
	c.latest, c.waiting = p, true
	if p.Index-c.base.Index >= c.spacing {
		c.keepLatest()
	}
}

func (c *clock) keep(p ClockPoint) {
	c.kept = append(c.kept, p)
	c.base, c.any, c.waiting = p, true, false
}

func (c *clock) keepLatest() {
	if c.waiting {
		c.keep(c.latest)
	}
}

func (c *clock) handOver() []ClockPoint {
	kept := c.kept
	c.kept = nil
	return kept
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data of ours
	}
	return b
}
