// SPDX-License-Identifier: GPL-3.0-or-later

package syncload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// witness makes the calls in the kernel and keeps which came, in order.
type witness struct {
	filesys.FS
	lock   sync.Mutex
	calls  []string
	flags  int
	writes []int64 // offsets
	delay  time.Duration
	loads  bool             // no layout any more
	fail   map[string]error // of the load, after the first call
}

func (w *witness) note(call string) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	seen := slices.Contains(w.calls, call)
	w.calls = append(w.calls, call)
	if seen && w.loads {
		return w.fail[call]
	}
	return nil
}

func (w *witness) Open(name filesys.Name, flags int, mode uint32) (int, error) {
	w.note("open")
	w.flags = flags
	return w.FS.Open(name, flags, mode)
}
func (w *witness) Close(d int) error { w.note("close"); return w.FS.Close(d) }
func (w *witness) Write(d int, data []byte) (int, error) {
	w.note("write")
	return w.FS.Write(d, data)
}
func (w *witness) Pwrite(d int, data []byte, offset int64) (int, error) {
	if err := w.note("pwrite"); err != nil {
		return -1, err
	}
	w.lock.Lock()
	w.writes = append(w.writes, offset)
	w.lock.Unlock()
	return w.FS.Pwrite(d, data, offset)
}
func (w *witness) Fsync(d int) error {
	time.Sleep(w.delay)
	if err := w.note("fsync"); err != nil {
		return err
	}
	return w.FS.Fsync(d)
}
func (w *witness) Fdatasync(d int) error { w.note("fdatasync"); return w.FS.Fdatasync(d) }
func (w *witness) Truncate(d int, bytes int64) error {
	w.note("truncate")
	return w.FS.Truncate(d, bytes)
}
func (w *witness) Stat(name filesys.Name) (int64, error) { w.note("stat"); return w.FS.Stat(name) }
func (w *witness) Fstat(d int) (int64, error)            { w.note("fstat"); return w.FS.Fstat(d) }

// counts says how often each call came: "2 fsync, 2 pwrite".
func (w *witness) counts() string {
	n := map[string]int{}
	for _, call := range w.calls {
		n[call]++
	}
	var all []string
	for call, count := range n {
		all = append(all, fmt.Sprint(count, " ", call))
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(a[strings.Index(a, " "):], b[strings.Index(b, " "):]) })
	return strings.Join(all, ", ")
}

func settings(change func(*Settings)) Settings {
	s := Settings{Mode: Overwrite, Call: Fsync, Block: 4096, FileBytes: 16 * 4096, Ops: 20, Threads: 1, Seed: 1}
	change(&s)
	return s
}

// run lays out and loads; only the calls of the load stay with the witness.
func run(t *testing.T, s Settings, w *witness) (measure.Result, error) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	kernel, err := filesys.OpenKernel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Release()
	w.FS = kernel
	load := New(s, w)
	if _, _, err := load.Layout(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	w.calls, w.writes, w.loads = nil, nil, true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	collector := measure.New(measure.Options{Classes: s.Classes(), Threads: s.Threads})
	collector.Begin(measure.Now())
	err = load.Run(ctx, collector)
	return collector.End(measure.Now()), err
}

func TestTheLoopMakesOnlyItsWritesAndSyncs(t *testing.T) {
	for _, c := range []struct {
		change func(*Settings)
		calls  string
	}{
		{func(*Settings) {}, "1 close, 20 fsync, 20 pwrite"},
		{func(s *Settings) { s.Call = Fdatasync }, "1 close, 20 fdatasync, 20 pwrite"},
		{func(s *Settings) { s.Call = None }, "1 close, 20 pwrite"},
		{func(s *Settings) { s.Threads = 4 }, "4 close, 20 fsync, 20 pwrite"},
		{func(s *Settings) { s.Pace = 1e-4 }, "1 close, 20 fsync, 20 pwrite"},
		{func(s *Settings) { s.Rate = 1e4 }, "1 close, 20 fsync, 20 pwrite"},
		{func(s *Settings) { s.Mode = Append }, "1 close, 20 fsync, 20 pwrite, 1 truncate"},
	} {
		w := &witness{}
		s := settings(c.change)
		result, err := run(t, s, w)
		if err != nil {
			t.Errorf("%+v: %v", s, err)
		}
		if got := w.counts(); got != c.calls {
			t.Errorf("%+v made %s, want %s", s, got, c.calls)
		}
		if result.WriteBytes != 20*4096 {
			t.Errorf("%+v: %d bytes written", s, result.WriteBytes)
		}
		if calls := int64(len(w.calls) - s.Threads); result.Ops != calls {
			t.Errorf("%+v: %d operations reported, %d calls made", s, result.Ops, calls)
		}
	}
}

func TestEachWriteIsMadeDurableBeforeTheNext(t *testing.T) {
	w := &witness{}
	if _, err := run(t, settings(func(*Settings) {}), w); err != nil {
		t.Fatal(err)
	}
	for i, call := range w.calls[:40] {
		if want := []string{"pwrite", "fsync"}[i%2]; call != want {
			t.Fatalf("call %d is %s, want %s", i, call, want)
		}
	}
}

func TestASeedGivesItsBlocks(t *testing.T) {
	blocks := func(seed uint64) []int64 {
		w := &witness{}
		if _, err := run(t, settings(func(s *Settings) { s.Seed = seed }), w); err != nil {
			t.Fatal(err)
		}
		return w.writes
	}
	first, again, other := blocks(1), blocks(1), blocks(2)
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Errorf("seed 1 %v, again %v, seed 2 %v", first, again, other)
	}
	for _, offset := range first {
		if offset < 0 || offset%4096 != 0 || offset > 15*4096 {
			t.Errorf("offset %d of a file of 16 blocks", offset)
		}
	}
}

func TestAppendsFollowEachOtherAndStartOverAtTheFilesSize(t *testing.T) {
	w := &witness{}
	s := settings(func(s *Settings) { s.Mode, s.FileBytes, s.Ops = Append, 3*4096, 7 })
	if _, err := run(t, s, w); err != nil {
		t.Fatal(err)
	}
	if want := []int64{0, 4096, 8192, 0, 4096, 8192, 0}; !slices.Equal(w.writes, want) {
		t.Errorf("offsets %v, want %v", w.writes, want)
	}
}

func TestDirectOpensTheFileSo(t *testing.T) {
	w := &witness{}
	_, err := run(t, settings(func(s *Settings) { s.Direct = true }), w)
	if errors.Is(err, unix.EINVAL) {
		t.Skip("the file system of the test's directory has no O_DIRECT")
	}
	if err != nil || w.flags&unix.O_DIRECT == 0 {
		t.Errorf("%v, flags %#x", err, w.flags)
	}
}

func TestPaceKeepsWritesApart(t *testing.T) {
	result, err := run(t, settings(func(s *Settings) { s.Pace, s.Ops = 5e-3, 5 }), &witness{})
	if err != nil || result.Seconds < 4*5e-3 {
		t.Errorf("5 writes 5 ms apart took %v s, %v", result.Seconds, err)
	}
}

// A sync of 10 ms at 1000 a second: the n-th is n x 9 ms late where that counts from when it was
// due.
func TestLatenciesOfAnOpenLoopCountFromTheDueTime(t *testing.T) {
	greatest := func(change func(*Settings)) (write, sync float64) {
		result, err := run(t, settings(change), &witness{delay: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return result.Classes[0].Max, result.Classes[1].Max
	}
	write, sync := greatest(func(s *Settings) { s.Rate = 1000 })
	if write < 19*9e-3 || sync < 19*9e-3+10e-3 {
		t.Errorf("open loop: write %v s, sync %v s late at most", write, sync)
	}
	if _, sync := greatest(func(s *Settings) {}); sync < 10e-3 {
		t.Errorf("closed loop: a sync took %v s", sync)
	}
}

func TestAFailureEndsTheLoadAndNamesCallAndFile(t *testing.T) {
	for call, c := range map[string]struct {
		errno unix.Errno
		want  string
	}{
		"pwrite": {unix.ENOSPC, "write sync-0000: no space left on device"},
		"fsync":  {unix.EIO, "fsync sync-0000: input/output error"},
	} {
		w := &witness{fail: map[string]error{call: c.errno}}
		result, err := run(t, settings(func(s *Settings) { s.Ops = 0 }), w)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
		if result.Ops == 0 {
			t.Errorf("%s: what was done before is lost", call)
		}
	}
}

func TestWritesWhoseStampAdvancesAreCountedByTickAndBySecond(t *testing.T) {
	load, before := New(settings(func(*Settings) {}), nil), int64(0)
	for _, now := range []float64{5, 5, 5.004, 5.004, 5.9, 6.0, 6.001} {
		before = load.stamped(before, int64(now*1e9))
	}
	if got := load.Stamps(); got != (measure.Stamps{NewTick: 5, NewSecond: 2}) {
		t.Errorf("%+v", got)
	}
}

func TestEveryWriteSlowerThanTheTickAdvancesTheStamp(t *testing.T) {
	s := settings(func(s *Settings) { s.Pace = 0.03; s.Threads = 2 })
	kernel, err := filesys.OpenKernel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Release()
	load := New(s, kernel)
	if _, _, err := load.Layout(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	collector := measure.New(measure.Options{Classes: s.Classes(), Threads: s.Threads})
	collector.Begin(measure.Now())
	err = load.Run(t.Context(), collector)
	collector.End(measure.Now())
	if got := load.Stamps(); err != nil || got.NewTick != s.Ops || got.NewSecond < 2 || got.NewSecond > 4 {
		t.Errorf("%v, %+v of %d writes of two threads in 0.3 s", err, got, s.Ops)
	}
}
