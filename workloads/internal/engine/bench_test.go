// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// drive is one on which an fsync takes its time in the kernel, and the rest takes none.
type drive struct {
	filesys.Null
	fsync time.Duration
}

func (d drive) Fsync(int) error {
	sleep := unix.NsecToTimespec(d.fsync.Nanoseconds())
	_ = unix.Nanosleep(&sleep, nil) // the Go runtime's signals may end it early
	return nil
}

// How many of the Go runtime's processors 16 threads need that wait for a drive: operations a
// second, the 99th percentile of fsync, and CPU time.
func BenchmarkProcessors(b *testing.B) {
	for _, fsync := range []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond} {
		for _, processors := range []int{2, 18} {
			b.Run(fmt.Sprintf("fsync=%v/processors=%d", fsync, processors), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
				e, err := New(Options{Program: personality(b, "varmail", nil), System: drive{fsync: fsync}, Seed: 1})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				collector := measure.New(measure.Options{Classes: e.Classes(), Threads: e.Threads()})
				collector.Begin(measure.Now())
				if err := e.Run(ctx, collector); ctx.Err() == nil {
					b.Error(err)
				}
				r := collector.End(measure.Now())
				b.ReportMetric(r.OpsPerSecond, "ops/s")
				b.ReportMetric(1e6*r.CPUPerOp, "cpu-us/op")
				for _, class := range r.Classes {
					if class.Name == "fsync" {
						b.ReportMetric(1e6*class.P99, "p99-us")
					}
				}
			})
		}
	}
}
