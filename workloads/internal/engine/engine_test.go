// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"context"
	"fmt"
	"math"
	"testing"

	"joulerig/workloads"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/wml"
)

// unsynced is the kernel without its syncs: the tests' files are to be gone soon.
type unsynced struct{ *filesys.Kernel }

func (unsynced) Fsync(int) error { return nil }
func (unsynced) SyncAll() error  { return nil }

func temporary(t testing.TB) unsynced {
	t.Helper()
	k, err := filesys.OpenKernel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Release() })
	return unsynced{k}
}

func parse(t testing.TB, source string) *wml.Program {
	t.Helper()
	program, err := wml.Parse("test.f", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func personality(t testing.TB, name string, set map[string]string) *wml.Program {
	t.Helper()
	source, _ := workloads.Personality(name)
	program, err := wml.Parse(name+".f", source, set)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// endAfter has each thread's loop end with a look whether all threads together have done so many
// operations.
func endAfter(program *wml.Program, operations int64) {
	for _, process := range program.Processes {
		for _, thread := range process.Threads {
			thread.Flowops = append(thread.Flowops, &wml.Flowop{
				Kind: wml.FinishOnCount, Name: "end", Iterations: wml.Fixed(1), Value: wml.Fixed(float64(operations)),
			})
		}
	}
}

// run lays a program out and runs it. The result is there also with an error.
func run(t testing.TB, o Options) (*Engine, measure.Result, error) {
	t.Helper()
	return runUntil(t, context.Background(), o)
}

func runUntil(t testing.TB, ctx context.Context, o Options) (*Engine, measure.Result, error) {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.LayOut(context.Background(), false); err != nil {
		t.Fatal(err)
	}
	r, err := measured(ctx, e)
	return e, r, err
}

func measured(ctx context.Context, e *Engine) (measure.Result, error) {
	collector := measure.New(measure.Options{Classes: e.Classes(), Threads: e.Threads()})
	collector.Begin(measure.Now())
	err := e.Run(ctx, collector)
	return collector.End(measure.Now()), err
}

// done runs a program that ends without being stopped and gives its operations by class.
func done(t testing.TB, system filesys.FS, source string) (map[string]int64, measure.Result) {
	t.Helper()
	_, r, err := run(t, Options{Program: parse(t, source), System: system, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	ops := map[string]int64{}
	for _, c := range r.Classes {
		ops[c.Name] = c.Ops
	}
	return ops, r
}

// failure runs a program that is to fail.
func failure(t testing.TB, system filesys.FS, source string) (string, measure.Result) {
	t.Helper()
	_, r, err := run(t, Options{Program: parse(t, source), System: system, Seed: 1})
	if err == nil {
		t.Fatal("it did not fail")
	}
	return err.Error(), r
}

func expect(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, expected %v", what, got, want)
	}
}

func TestThePersonalitiesDoTheirOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: four times 30,000 operations")
	}
	const operations = 30000
	for _, c := range []struct {
		name      string
		threads   int
		loop      map[string]float64 // operations of one turn
		readWrite float64
	}{
		{"varmail", 16, map[string]float64{
			"delete": 1, "create": 1, "append": 2, "fsync": 2, "close": 3, "open": 2, "read": 2}, 1},
		{"fileserver", 50, map[string]float64{
			"create": 1, "write": 1, "close": 3, "open": 2, "append": 1, "read": 1, "delete": 1, "stat": 1}, 0.5},
		{"webserver", 100, map[string]float64{"open": 10, "read": 10, "close": 10, "append": 1}, 10},
		{"webproxy", 100, map[string]float64{
			"delete": 1, "create": 1, "append": 2, "close": 6, "open": 5, "read": 5}, 2.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			program := personality(t, c.name, map[string]string{
				"filesize": "cvar(type=cvar-gamma,parameters=mean:1024;gamma:1.5)", "nfiles": "2000"})
			endAfter(program, operations)
			e, r, err := run(t, Options{Program: program, System: temporary(t), Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			if e.Threads() != c.threads || r.Ops < operations {
				t.Errorf("%d threads did %d operations", e.Threads(), r.Ops)
			}
			turn, classes := 0.0, len(c.loop)
			for _, n := range c.loop {
				turn += n
			}
			for name, n := range c.loop {
				// Each thread may be within a turn, and opens its log once.
				tolerance := float64(c.threads) * (n + 1) / operations
				if math.Abs(r.Mix[name]-n/turn) > tolerance {
					t.Errorf("%s: %.4f of the operations, expected %.4f", name, r.Mix[name], n/turn)
				}
			}
			if len(r.Mix) != classes {
				t.Errorf("classes %v", r.Mix)
			}
			if math.Abs(*r.ReadWriteRatio/c.readWrite-1) > 0.05 {
				t.Errorf("%.3f reads a write, expected %v", *r.ReadWriteRatio, c.readWrite)
			}
		})
	}
}

func TestTheOtherPersonalitiesRun(t *testing.T) {
	for name, c := range map[string]struct {
		set     map[string]string
		classes []string
	}{
		"oltp": {map[string]string{"nreaders": "8", "nwriters": "2", "filesize": "1m", "logfilesize": "1m", "think": "1"},
			[]string{"read", "aiowrite", "aiowait", "open"}},
		"randomread":  {map[string]string{"filesize": "1m"}, []string{"read", "open"}},
		"randomwrite": {map[string]string{"filesize": "1m"}, []string{"write", "open"}},
	} {
		program := personality(t, name, c.set)
		endAfter(program, 3000)
		_, r, err := run(t, Options{Program: program, System: temporary(t), Seed: 1})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, class := range c.classes {
			if r.Mix[class] == 0 {
				t.Errorf("%s: no %s in %v", name, class, r.Mix)
			}
		}
		if len(r.Mix) != len(c.classes) {
			t.Errorf("%s: %v", name, r.Mix)
		}
	}
}
