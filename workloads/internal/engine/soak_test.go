// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// held is what a process holds.
type held struct{ residentBytes, descriptors, goroutines int }

func holds(t *testing.T) held {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(statm)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return held{pages * os.Getpagesize(), len(open), runtime.NumGoroutine()}
}

// soakSeconds is how long the soak lasts: a moment, or what JOULERIG_SOAK_SECONDS says.
func soakSeconds(t *testing.T) float64 {
	t.Helper()
	text, asked := os.LookupEnv("JOULERIG_SOAK_SECONDS")
	if !asked {
		return 3
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds <= 0 {
		t.Fatalf("JOULERIG_SOAK_SECONDS: %q: expected a number of seconds", text)
	}
	return seconds
}

// memoryTempDir is a directory in memory where there is one, gone after the test.
func memoryTempDir(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("/dev/shm", "soak-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return directory
}

// A load of any length holds what it held when it had just begun.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs for seconds")
	}
	// The heap between two collections, buffers touched late, the race detector's own: in ten
	// minutes a byte lost by each operation is more.
	const growthBytes = 24 << 20
	system, err := filesys.OpenKernel(memoryTempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	defer system.Release()
	before := holds(t)
	e, err := New(Options{Program: personality(t, "varmail", nil), System: system, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.LayOut(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	seconds := soakSeconds(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*float64(time.Second)))
	defer cancel()
	var samples []held
	collector := measure.New(measure.Options{
		Classes: e.Classes(), Threads: e.Threads(), Interval: min(time.Second, time.Duration(seconds*1e9/20)),
		Emit: func(measure.Interval) { samples = append(samples, holds(t)) },
	})
	collector.Begin(measure.Now())
	err = e.Run(ctx, collector)
	r := collector.End(measure.Now())
	if ctx.Err() == nil {
		t.Fatal(err)
	}
	settled := samples[len(samples)/10:]
	first, last := settled[0], settled[len(settled)-1]
	t.Logf("%.0f s, %d operations, %.0f a second; at first %+v, at last %+v",
		r.Seconds, r.Ops, r.OpsPerSecond, first, last)
	for i, now := range settled {
		switch {
		case now.residentBytes > first.residentBytes+growthBytes:
			t.Fatalf("interval %d of %d: %d bytes resident, %d at first", i, len(settled), now.residentBytes, first.residentBytes)
		case now.descriptors > before.descriptors+e.Threads()+4:
			t.Fatalf("interval %d of %d: %d descriptors, %d before the load", i, len(settled), now.descriptors, before.descriptors)
		case now.goroutines > before.goroutines+e.Threads()+4:
			t.Fatalf("interval %d of %d: %d goroutines, %d before the load", i, len(settled), now.goroutines, before.goroutines)
		}
	}
	if after := holds(t); after.descriptors > before.descriptors+2 || after.goroutines > before.goroutines+2 {
		t.Errorf("after the load %+v, before it %+v", after, before)
	}
}
