// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/wml"
)

// failing is a file system on which one call fails after some successes.
type failing struct {
	filesys.FS
	call  string
	after int64
	errno unix.Errno
	calls *atomic.Int64
}

func (f failing) fails(call string) bool { return call == f.call && f.calls.Add(1) > f.after }

func (f failing) Open(n filesys.Name, flags int, mode uint32) (int, error) {
	call := "open"
	if flags&unix.O_CREAT != 0 {
		call = "create"
	}
	if f.fails(call) {
		return -1, f.errno
	}
	return f.FS.Open(n, flags, mode)
}

func (f failing) Write(d int, data []byte) (int, error) {
	if f.fails("write") {
		return -1, f.errno
	}
	return f.FS.Write(d, data)
}

func (f failing) Fsync(d int) error {
	if f.fails("fsync") {
		return f.errno
	}
	return f.FS.Fsync(d)
}

func (f failing) Unlink(n filesys.Name) error {
	if f.fails("unlink") {
		return f.errno
	}
	return f.FS.Unlink(n)
}

func TestAFileSystemThatFailsEndsTheLoadWithOneErrorAndItsResult(t *testing.T) {
	for _, c := range []struct {
		what, call string
		errno      unix.Errno
		says       string
	}{
		{"a full disk", "write", unix.ENOSPC, "append mails/"},
		{"a file system that became read-only", "create", unix.EROFS, "open mails/"},
		{"a file system that became read-only", "unlink", unix.EROFS, "unlink mails/"},
		{"a directory that vanished", "open", unix.ENOENT, "open mails/"},
		{"a drive that is gone", "fsync", unix.EIO, "fsync mails/"},
	} {
		program := personality(t, "varmail", map[string]string{"nfiles": "200", "filesize": "1000"})
		e, err := New(Options{Program: program, System: temporary(t), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.LayOut(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		calls := &atomic.Int64{}
		for _, thread := range e.threads {
			thread.system = failing{thread.system, c.call, 50, c.errno, calls}
		}
		r, err := measured(context.Background(), e)
		if err == nil || !errors.Is(err, c.errno) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.what, err)
		}
		if r.Ops < 50 {
			t.Errorf("%s: %d operations are kept", c.what, r.Ops)
		}
	}
}

// lateFailure fails the first sync, but not before the run's time is up.
type lateFailure struct {
	filesys.Null
	ctx context.Context
}

func (l lateFailure) Fsync(int) error {
	<-l.ctx.Done()
	return unix.EIO
}

func TestAFailureCountsAlsoWhenTheTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, _, err := runUntil(t, ctx, Options{Program: personality(t, "varmail", nil), System: lateFailure{ctx: ctx}, Seed: 1})
	if !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

func TestAnAsynchronousWriteThatFailsEndsTheLoad(t *testing.T) {
	says, _ := failure(t, failingPwrite{temporary(t)}, one(`flowop aiowrite name=a,filesetname=full,iosize=100,random`))
	if want := `test.f:7: flowop "a": write full/00000001/00000001: no space left on device`; says != want {
		t.Errorf("%s, expected %s", says, want)
	}
}

type failingPwrite struct{ filesys.FS }

func (failingPwrite) Pwrite(int, []byte, int64) (int, error) { return -1, unix.ENOSPC }

const manyThreads = `
set $mode=0
define fileset name=set,path=/x,size=1000,entries=100,dirwidth=10,prealloc=50
define process name=p { thread name=t,instances=4 {
%s
} }`

func TestAShortageOfFilesEndsTheLoadAsTheModeSays(t *testing.T) {
	create := fmt.Sprintf(manyThreads, `flowop createfile name=new,filesetname=set,fd=1
flowop closefile name=done,fd=1`)
	says, r := failure(t, temporary(t), create)
	if want := `test.f:5: flowop "new": fileset set has no free file left: give it more entries, or run for a shorter time`; says != want {
		t.Errorf("%s, expected %s", says, want)
	}
	free := int64(r.Mix["create"]*float64(r.Ops) + 0.5)
	if free < 25 || free > 75 {
		t.Errorf("%d files created", free)
	}
	for _, mode := range []string{"firstdone", "alldone"} {
		ops, _ := done(t, temporary(t), "set mode quit "+mode+create)
		if ops["create"] != free {
			t.Errorf("%s: %d files created, expected %d", mode, ops["create"], free)
		}
	}
}

func TestAllDoneWaitsForEveryThread(t *testing.T) {
	ops, _ := done(t, temporary(t), "set mode quit alldone"+fmt.Sprintf(manyThreads, `flowop statfile name=stat,filesetname=set
flowop finishoncount name=end,target=stat,value=10`))
	expect(t, "operations", ops, map[string]int64{"stat": 40})
	ops, _ = done(t, temporary(t), "set mode quit firstdone"+fmt.Sprintf(manyThreads, `flowop statfile name=stat,filesetname=set
flowop finishoncount name=end,target=stat,value=10`))
	if ops["stat"] < 10 || ops["stat"] > 40 {
		t.Errorf("%d operations until the first thread has done 10", ops["stat"])
	}
}

func TestFinishOnBytesCountsAllThreads(t *testing.T) {
	_, r := done(t, temporary(t), "set mode quit alldone"+fmt.Sprintf(manyThreads, `flowop appendfile name=grow,filesetname=set,iosize=1000
flowop finishonbytes name=end,value=100000`))
	if r.WriteBytes <= 100000 || r.WriteBytes > 105000 {
		t.Errorf("%d bytes", r.WriteBytes)
	}
}

// recording notes what each descriptor's file is asked for; one thread only.
type recording struct {
	filesys.FS
	lock  sync.Mutex
	calls []string
}

func (r *recording) note(format string, arguments ...any) {
	r.lock.Lock()
	r.calls = append(r.calls, fmt.Sprintf(format, arguments...))
	r.lock.Unlock()
}

func (r *recording) Open(n filesys.Name, flags int, mode uint32) (int, error) {
	r.note("open %s %x", n, flags)
	return r.FS.Open(n, flags, mode)
}

func (r *recording) Write(d int, data []byte) (int, error) {
	r.note("write %d %x", len(data), data[:min(8, len(data))])
	return r.FS.Write(d, data)
}

func (r *recording) Pwrite(d int, data []byte, offset int64) (int, error) {
	r.note("pwrite %d at %d", len(data), offset)
	return r.FS.Pwrite(d, data, offset)
}

func (r *recording) Unlink(n filesys.Name) error {
	r.note("unlink %s", n)
	return r.FS.Unlink(n)
}

func TestTheSameSeedGivesTheSameOperations(t *testing.T) {
	sequence := func(seed uint64) string {
		program := personality(t, "varmail", map[string]string{"nthreads": "1", "nfiles": "50"})
		endAfter(program, 2000)
		system := &recording{FS: filesys.Null{}}
		if _, _, err := run(t, Options{Program: program, System: system, Seed: seed}); err != nil {
			t.Fatal(err)
		}
		calls := system.calls
		for i, call := range calls { // the layout is in parallel
			if strings.HasPrefix(call, "unlink") {
				return strings.Join(calls[i:], "\n")
			}
		}
		return ""
	}
	first := sequence(1)
	if strings.Count(first, "\n") < 500 {
		t.Fatal(first)
	}
	if sequence(1) != first {
		t.Error("one seed, two sequences")
	}
	if sequence(2) == first {
		t.Error("two seeds, one sequence")
	}
}

// Alongside other threads a thread writes the same lengths and contents, though to other files.
func TestWhatAThreadDrawsDoesNotDependOnTheOthers(t *testing.T) {
	writes := func(threads string) (writes []string) {
		program := personality(t, "varmail", map[string]string{"nthreads": threads})
		own := program.Processes[0].Threads[0]
		own.Flowops = append(own.Flowops, &wml.Flowop{
			Kind: wml.FinishOnCount, Name: "end", Target: "fetch", Iterations: wml.Fixed(1), Value: wml.Fixed(100),
		})
		program.Quit = wml.QuitAllDone
		e, err := New(Options{Program: program, System: filesys.Null{}, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		first := &recording{FS: filesys.Null{}}
		e.threads[0].system = first
		if _, err := measured(context.Background(), e); err != nil {
			t.Fatal(err)
		}
		for _, call := range first.calls {
			if strings.HasPrefix(call, "write") {
				writes = append(writes, call)
			}
		}
		return writes
	}
	alone := writes("1")
	if len(alone) < 190 {
		t.Fatalf("%d writes", len(alone))
	}
	expect(t, "writes", writes("16"), alone)
}

func TestRandomAccessIsAlignedAndWithinTheWorkingSet(t *testing.T) {
	system := &recording{FS: filesys.Null{}}
	done(t, system, `
set mode quit firstdone
define file name=big,path=/x,size=1m,prealloc
define process name=p { thread name=t {
flowop write name=w,filesetname=big,random,iosize=4k,workingset=64k
flowop finishoncount name=end,value=1000
} }`)
	offsets := map[string]int{}
	for _, call := range system.calls {
		if strings.HasPrefix(call, "pwrite") {
			offsets[call]++
		}
	}
	for block := range 16 {
		if n := offsets[fmt.Sprintf("pwrite 4096 at %d", 4096*block)]; n < 20 {
			t.Errorf("block %d was written %d times of 1000", block, n)
		}
	}
	if len(offsets) != 16 {
		t.Errorf("%d places", len(offsets))
	}
}

func TestAttributesBecomeFlags(t *testing.T) {
	system := &recording{FS: filesys.Null{}}
	done(t, system, one(`flowop openfile name=a,filesetname=full,fd=1,dsync
flowop openfile name=b,filesetname=full,fd=2,directio
flowop openfile name=c,filesetname=ro,fd=3`))
	var opened []string
	for _, call := range system.calls {
		if !strings.HasSuffix(call, fmt.Sprintf("%x", unix.O_CREAT|unix.O_WRONLY)) && !strings.Contains(call, "write") &&
			!strings.HasSuffix(call, fmt.Sprintf("%x", unix.O_DIRECTORY|unix.O_NOFOLLOW)) {
			opened = append(opened, call[strings.LastIndex(call, " ")+1:])
		}
	}
	expect(t, "flags", opened, []string{
		fmt.Sprintf("%x", unix.O_RDWR|unix.O_SYNC), fmt.Sprintf("%x", unix.O_RDWR|unix.O_DIRECT), "0"})
}

// stalling stops the world once, for the given time.
type stalling struct {
	filesys.Null
	once  *sync.Once
	stall time.Duration
}

func (s stalling) Stat(filesys.Name) (int64, error) {
	s.once.Do(func() { time.Sleep(s.stall) })
	return 0, nil
}

func TestAnOpenLoopHoldsItsRateAndCountsAStallForAllThatWaited(t *testing.T) {
	const rate, stall = 2000, 200 * time.Millisecond
	stat := `
set mode quit firstdone
define fileset name=set,path=/x,size=1000,entries=10,dirwidth=10,prealloc=100
define process name=p { thread name=t {
flowop statfile name=stat,filesetname=set
flowop finishoncount name=end,value=1000
} }`
	late := func(rate float64) (waited int64, seconds float64) {
		_, r, err := run(t, Options{Program: parse(t, stat), System: stalling{once: &sync.Once{}, stall: stall}, Seed: 1, Rate: rate})
		if err != nil {
			t.Fatal(err)
		}
		for bound, n := range r.Classes[0].Histogram {
			if bound > int64(stall/2) {
				waited += n
			}
		}
		return waited, r.Seconds
	}
	open, seconds := late(rate)
	// Those due in the stall's first half waited for more than half of it.
	if want := int64(rate * stall.Seconds() / 2); open < want*9/10 {
		t.Errorf("%d operations waited, expected about %d", open, want)
	}
	if seconds < 1000.0/rate*0.99 {
		t.Errorf("1000 operations at %d a second took %v s", rate, seconds)
	}
	if closed, _ := late(0); closed != 1 {
		t.Errorf("in a closed loop %d operations waited, expected one", closed)
	}
}

func TestEventsLimitARate(t *testing.T) {
	const events = 500
	for name, flowop := range map[string]string{
		"eventlimit": "eventlimit name=limit", "opslimit": "opslimit name=limit", "target": "opslimit name=limit,target=stat",
	} {
		_, r := done(t, temporary(t), fmt.Sprintf("set mode quit firstdone\neventgen rate=%d\n", events)+
			fmt.Sprintf(manyThreads, `flowop statfile name=stat,filesetname=set
flowop `+flowop+`
flowop finishoncount name=end,value=200`))
		if least := 0.95 * (200 - 4) / events; r.Seconds < least {
			t.Errorf("%s: 200 operations took %.3f s, expected %.3f or more", name, r.Seconds, least)
		}
	}
}

func TestALoadEndsWhileItsThreadsWait(t *testing.T) {
	for name, flowops := range map[string]string{
		"semblock":   "flowop semblock name=wait,value=1,highwater=1",
		"sempost":    "flowop sempost name=post,target=wait,value=2,blocking\nflowop semblock name=wait,value=9,highwater=1",
		"block":      "flowop block name=wait",
		"delay":      "flowop delay name=wait,value=3600",
		"eventlimit": "flowop eventlimit name=wait",
		"hog":        "flowop hog name=busy,value=1g,iters=1k",
		"operations": "flowop statfile name=stat,filesetname=set",
	} {
		source := fmt.Sprintf("eventgen rate=1\n"+manyThreads, flowops)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		_, _, err := runUntil(t, ctx, Options{Program: parse(t, source), System: filesys.Null{}, Seed: 1})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSemaphoresLetThroughWhatWasPosted(t *testing.T) {
	ops, _ := done(t, temporary(t), `
set mode quit firstdone
define fileset name=set,path=/x,size=1000,entries=10,dirwidth=10,prealloc=100
define process name=p {
thread name=maker {
flowop statfile name=made,filesetname=set
flowop sempost name=post,target=wait,value=1,blocking
}
thread name=taker {
flowop semblock name=wait,value=5,highwater=10
flowop openfile name=taken,filesetname=set,fd=1
flowop closefile name=closed,fd=1
flowop finishoncount name=end,target=taken,value=20
} }`)
	if ops["open"] != 20 || ops["stat"] < 100 || ops["stat"] > 100+10+1+5 {
		t.Errorf("%v: five posts for each of 20, and no more than highwater ahead", ops)
	}
}

func TestAWakeupWakesWhoIsBlocked(t *testing.T) {
	ops, _ := done(t, temporary(t), `
set mode quit firstdone
define fileset name=set,path=/x,size=1000,entries=10,dirwidth=10,prealloc=100
define process name=p {
thread name=alarm { flowop wakeup name=ring,target=asleep }
thread name=sleeper {
flowop block name=asleep
flowop statfile name=stat,filesetname=set
flowop finishoncount name=end,target=stat,value=5
} }`)
	expect(t, "operations", ops, map[string]int64{"stat": 5})
}

func TestAWorkloadWithoutThreadsIsRefused(t *testing.T) {
	_, err := New(Options{Program: &wml.Program{File: "x.f"}, System: filesys.Null{}})
	expect(t, "error", err, "x.f: no thread: expected a process with a thread that has flowops")
}

func TestMissingKeptFilesAreReported(t *testing.T) {
	e, err := New(Options{Program: personality(t, "varmail", nil), System: temporary(t), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	files, bytes, err := e.LayOut(context.Background(), true)
	if err != nil || bytes != 0 || files < 700 || files > 900 {
		t.Errorf("%d files, %d bytes, %v", files, bytes, err)
	}
	if _, err := measured(context.Background(), e); err == nil || !strings.Contains(err.Error(), "--keep") {
		t.Error(err)
	}
}
