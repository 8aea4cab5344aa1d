// SPDX-License-Identifier: GPL-3.0-or-later

// Package loadrunner runs a load from its options to its report: lays out its files, runs and
// measures it, sends its series, and ends it in time.
package loadrunner

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/termination"
)

// Load is what a command loads a directory with.
type Load struct {
	Command, Workload string
	Seed              uint64
	Parameters        map[string]any // as the report has them
	Seconds           float64        // how long; 0: until the load ends
	Classes           []measure.Class
	Threads           int

	// Layout makes the files that the load needs, or, if keep, takes the existing ones. It gives
	// how many there are and the bytes that it wrote.
	Layout func(ctx context.Context, keep bool) (files, bytes int64, err error)
	// Run loads until it is done or ctx is, and returns when all its threads have; that ctx was
	// done is no error. Recorders receive every operation.
	Run func(ctx context.Context, collector *measure.Collector) error
	// Stamps are those of its writes so far; nil where the load does not count them.
	Stamps func() measure.Stamps
}

// Report is what is left of a load. Times of nothing that was measured are 0.
type Report struct {
	Command         string         `json:"command"`
	Workload        string         `json:"workload"`
	Seed            uint64         `json:"seed"`
	Parameters      map[string]any `json:"parameters"`
	Files           int64          `json:"files"`
	BytesLaidOut    int64          `json:"bytes_laid_out"`
	BeginRealtimeNS int64          `json:"begin_realtime_ns"`
	EndRealtimeNS   int64          `json:"end_realtime_ns"`
	measure.Result
	Stamps     *measure.Stamps `json:"stamps,omitempty"`
	PointsLost int64           `json:"points_lost"` // intervals that the host agent did not take
	Ended      string          `json:"ended"`       // completed, interrupted or failed
	Error      string          `json:"error"`       // of a load that failed
}

// How long operations may stay in the kernel after the load's end, and after a caller asked it to
// end.
var patience, patienceInterrupted = time.Minute, 5 * time.Second

// Do runs the load and gives the command's exit code. The report goes to --output or stdout, also
// of a load that failed or was interrupted.
func (o *Options) Do(load Load, stdout, stderr io.Writer) int {
	command := "flowop " + load.Command
	ctx, release, err := termination.Context(o.WithParent)
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Failed)
	}
	defer release()
	out, err := o.openOutputs(stdout)
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Usage)
	}
	defer out.close()

	report := Report{
		Command: load.Command, Workload: load.Workload, Seed: load.Seed, Parameters: load.Parameters,
		Result: measure.NoResult(),
	}
	err = o.layOutAndRun(ctx, load, out, &report)
	report.PointsLost = out.lost
	var failure error
	report.Ended, failure = termination.Classify(ctx, err)
	if failure == nil && out.failure != nil {
		report.Ended, failure = termination.EndedFailed, out.failure
	}
	if failure != nil {
		report.Error = termination.OneLine(failure)
		termination.Refuse(stderr, command, failure, termination.Failed)
	}
	if err := out.report(report); err != nil {
		return termination.Refuse(stderr, command, err, termination.Failed)
	}
	return termination.Code(report.Ended)
}

func (o *Options) layOutAndRun(ctx context.Context, load Load, out *outputs, report *Report) (err error) {
	report.Files, report.BytesLaidOut, err = load.Layout(ctx, o.Keep)
	if err != nil || o.LayoutOnly || ctx.Err() != nil {
		return err
	}
	collector := measure.New(measure.Options{Classes: load.Classes, Threads: load.Threads, Emit: out.interval})
	begin := measure.Now()
	report.BeginRealtimeNS = begin + measure.RealtimeOffset()
	collector.Begin(begin)
	err = run(ctx, load, collector)
	end := measure.Now()
	report.EndRealtimeNS = end + measure.RealtimeOffset()
	report.Result = collector.End(end)
	if load.Stamps != nil {
		stamps := load.Stamps()
		report.Stamps = &stamps
	}
	return err
}

// run runs the load for its time. A thread that does not come back from the kernel holds up neither
// the report nor the process's end.
func run(ctx context.Context, load Load, collector *measure.Collector) error {
	loading, cancel := ctx, context.CancelFunc(func() {})
	if load.Seconds > 0 {
		loading, cancel = context.WithTimeout(ctx, time.Duration(load.Seconds*1e9))
	}
	defer cancel()
	// A processor for each thread, in the Go runtime's sense: one that waits in the kernel keeps
	// its own, and holds up no other for the moment until the runtime notices
	// (docs/reference/workloads.md, "The engine").
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), load.Threads+2))
	done := make(chan error, 1)
	go func() { done <- load.Run(loading, collector) }()
	select {
	case err := <-done:
		return err
	case <-loading.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("operations are still in the kernel %v after the load's end", patience)
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patienceInterrupted):
		return termination.ErrInterrupted
	}
}
