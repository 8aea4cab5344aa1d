// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

func parsed(t *testing.T, text string) *Trace {
	t.Helper()
	read, err := Parse(strings.NewReader(text), "t")
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// calls makes the calls in the kernel and keeps those on files, in order.
type calls struct {
	*filesys.Kernel
	lock   sync.Mutex
	made   []string
	fail   map[string]error
	opened atomic.Int32
}

func (c *calls) note(words ...any) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.made = append(c.made, strings.TrimSpace(fmt.Sprintln(words...)))
	return c.fail[words[0].(string)]
}

func (c *calls) Open(name filesys.Name, flags int, mode uint32) (int, error) {
	call := "open"
	if flags&unix.O_CREAT != 0 {
		call = "create"
	}
	if err := c.note(call, name); err != nil {
		return -1, err
	}
	d, err := c.Kernel.Open(name, flags, mode)
	if err == nil {
		c.opened.Add(1)
	}
	return d, err
}
func (c *calls) Close(d int) error { c.note("close"); c.opened.Add(-1); return c.Kernel.Close(d) }
func (c *calls) Pread(d int, data []byte, offset int64) (int, error) {
	c.note("read", offset, len(data))
	return c.Kernel.Pread(d, data, offset)
}
func (c *calls) Pwrite(d int, data []byte, offset int64) (int, error) {
	if err := c.note("write", offset, len(data)); err != nil {
		return -1, err
	}
	return c.Kernel.Pwrite(d, data, offset)
}
func (c *calls) Fsync(d int) error     { c.note("fsync"); return c.Kernel.Fsync(d) }
func (c *calls) Fdatasync(d int) error { c.note("fdatasync"); return c.Kernel.Fdatasync(d) }
func (c *calls) Truncate(d int, bytes int64) error {
	c.note("truncate", bytes)
	return c.Kernel.Truncate(d, bytes)
}
func (c *calls) Unlink(name filesys.Name) error { c.note("unlink", name); return c.Kernel.Unlink(name) }
func (c *calls) Rename(from, to filesys.Name) error {
	c.note("rename", from, to)
	return c.Kernel.Rename(from, to)
}
func (c *calls) Stat(name filesys.Name) (int64, error) {
	c.note("stat", name)
	return c.Kernel.Stat(name)
}

// replayed lays out and replays a trace; the calls kept are the replay's.
func replayed(t *testing.T, text string, speed float64, c *calls) (measure.Result, string, error) {
	t.Helper()
	directory := t.TempDir()
	var err error
	if c.Kernel, err = filesys.OpenKernel(directory); err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	replay, err := NewReplay(parsed(t, text), c, speed)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := replay.Layout(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	c.made = nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	collector := measure.New(measure.Options{Classes: replay.Classes(), Threads: replay.Threads()})
	collector.Begin(measure.Now())
	err = replay.Run(ctx, collector)
	if left := c.opened.Load(); left != 0 {
		t.Errorf("%d descriptors left open", left)
	}
	return collector.End(measure.Now()), directory, err
}

func contents(t *testing.T, directory string) string {
	t.Helper()
	var all []string
	filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			info, _ := entry.Info()
			name, _ := filepath.Rel(directory, path)
			all = append(all, fmt.Sprintf("%s %d", name, info.Size()))
		}
		return err
	})
	return strings.Join(all, ", ")
}

const everyCall = `# all calls
0 1 create d/new
0 1 write d/new 0 1000
0 1 append d/new 24
0 1 fsync d/new
0 1 read d/new 0 1024
0 1 truncate d/new 512
0 1 fdatasync d/new
0 1 close d/new
0 1 stat d/new
0 1 rename d/new d/moved
0 1 open d/moved
0 1 append d/moved 8
0 1 close d/moved
0 1 read "with blank" 100 50
0 1 unlink "with blank"
0 1 fsync d/
`

func TestEveryCallIsMade(t *testing.T) {
	c := &calls{}
	result, directory, err := replayed(t, everyCall, 0, c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"create d/new", "write 0 1000", "write 1000 24", "fsync", "read 0 1024", "truncate 512", "fdatasync", "close",
		"stat d/new", "rename d/new d/moved", "open d/moved", "write 512 8", "close",
		"open with blank", "read 100 50", "unlink with blank", "close", "open d", "fsync", "close",
	}
	if !slices.Equal(c.made, want) {
		t.Errorf("made\n%q, want\n%q", c.made, want)
	}
	if got := contents(t, directory); got != "d/moved 520" {
		t.Errorf("left %s", got)
	}
	if result.Ops != 16 || result.ReadBytes != 1074 || result.WriteBytes != 1032 || result.Syncs != 3 {
		t.Errorf("%+v", result)
	}
	share := 0.0
	for _, class := range result.Classes {
		share += result.TimeShare[class.Name]
	}
	if share < 0.999 || share > 1.001 {
		t.Errorf("shares of the time add up to %v", share)
	}
}

func TestLayoutIsWhatTheTraceImplies(t *testing.T) {
	for _, c := range []struct{ what, trace, want string }{
		{"a read shows the size", "0 1 read a 100 28", "a 128"},
		{"the furthest read", "0 1 read a 100 28\n0 1 read a 0 10", "a 128"},
		{"what the trace wrote before is not needed", "0 1 write a 0 4096\n0 1 read a 0 4096", ""},
		{"a read beyond it is", "0 1 write a 0 4096\n0 1 read a 4096 1", "a 4097"},
		{"a write beyond the end known", "0 1 write a 0 10\n0 1 write a 1000 10", "a 1000"},
		{"writes on end", "0 1 write a 0 10\n0 1 write a 10 10", ""},
		{"an open file was there", "0 1 open a\n0 1 write a 0 10\n0 1 close a", "a 0"},
		{"a created one was not", "0 1 create a\n0 1 read a 0 10\n0 1 close a", ""},
		{"one unlinked was there", "0 1 unlink d/a", "d/a 0"},
		{"one made again is another", "0 1 unlink a\n0 1 write a 0 5\n0 1 read a 0 99", "a 0"},
		{"one emptied is another", "0 1 truncate a 0\n0 1 read a 0 99", "a 0"},
		{"a renamed file keeps its content", "0 1 rename a b\n0 1 read b 0 99", "a 99"},
		{"its old name is free", "0 1 rename a b\n0 1 write a 0 5\n0 1 read a 0 99", "a 0"},
		{"a declared size", "file a 500\n0 1 write a 0 5", "a 500"},
		{"and a read beyond it", "file a 500\n0 1 read a 500 12", "a 512"},
		{"a synced file was there", "0 1 fsync a", "a 0"},
		{"a folder is no file", "0 1 fsync d\n0 1 read d/a 0 1", "d/a 1"},
	} {
		directory, files, bytes := laidOut(t, t.TempDir(), c.trace)
		if got := contents(t, directory); got != c.want {
			t.Errorf("%s: laid out %q, want %q", c.what, got, c.want)
		}
		if reported := fmt.Sprint(files, " files, ", bytes, " bytes"); reported != total(t, directory) {
			t.Errorf("%s: reported %s, there are %s", c.what, reported, total(t, directory))
		}
	}
}

func TestWhatAnEarlierReplayLeftIsGone(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(directory, name), make([]byte, 7777), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	laidOut(t, directory, "0 1 write a 0 5\n0 1 read b 0 5")
	if got := contents(t, directory); got != "b 5, c 7777" {
		t.Errorf("left %s", got)
	}
}

func laidOut(t *testing.T, directory, text string) (_ string, files, bytes int64) {
	t.Helper()
	system, err := filesys.OpenKernel(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer system.Release()
	replay, err := NewReplay(parsed(t, text), system, 0)
	if err != nil {
		t.Fatal(err)
	}
	if files, bytes, err = replay.Layout(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return directory, files, bytes
}

func total(t *testing.T, directory string) string {
	t.Helper()
	files, bytes := 0, 0
	for _, file := range strings.Split(contents(t, directory), ", ") {
		var size int
		if _, err := fmt.Sscan(file[strings.LastIndex(file, " ")+1:], &size); err == nil {
			files++
			bytes += size
		}
	}
	return fmt.Sprint(files, " files, ", bytes, " bytes")
}

func TestAPathsOperationsKeepTheirOrderAcrossThreads(t *testing.T) {
	var text strings.Builder
	// Each thread takes the file over from the one before: any other order fails.
	for round := range 50 {
		maker, taker := 2*round%7, (2*round+1)%7+7
		fmt.Fprintf(&text, "0 %d create f\n0 %d write f 0 100\n0 %d close f\n", maker, maker, maker)
		fmt.Fprintf(&text, "0 %d open f\n0 %d read f 0 100\n0 %d close f\n0 %d unlink f\n", taker, taker, taker, taker)
	}
	c := &calls{}
	result, _, err := replayed(t, text.String(), 0, c)
	if err != nil {
		t.Fatal(err)
	}
	if result.Ops != 350 || result.ReadBytes != 5000 {
		t.Errorf("%d operations, %d bytes read", result.Ops, result.ReadBytes)
	}
}

func TestAFileThatAWriteMakesIsThereForOtherThreads(t *testing.T) {
	var text strings.Builder
	for round := range 100 {
		fmt.Fprintf(&text, "0 %d write f 0 100\n0 %d read f 0 1\n0 %d stat f\n0 %d unlink f\n", round%5, (round+1)%5, (round+2)%5, (round+3)%5)
	}
	if result, _, err := replayed(t, text.String(), 0, &calls{}); err != nil || result.Ops != 400 {
		t.Errorf("%v, %d operations", err, result.Ops)
	}
}

func TestAThreadsOperationsKeepTheirOrder(t *testing.T) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "0 1 write f%d 0 %d\n", i%3, i+1)
	}
	c := &calls{}
	if _, _, err := replayed(t, text.String(), 0, c); err != nil {
		t.Fatal(err)
	}
	var writes []string
	for _, call := range c.made {
		if strings.HasPrefix(call, "write") {
			writes = append(writes, call)
		}
	}
	for i, call := range writes {
		if want := fmt.Sprintf("write 0 %d", i+1); call != want {
			t.Errorf("write %d is %q", i, call)
		}
	}
}

func TestTimedKeepsTheTracesTimeAtItsSpeed(t *testing.T) {
	const text = "100.0 1 write a 0 1\n100.2 1 write a 0 1\n"
	for speed, want := range map[float64]float64{1: 0.2, 4: 0.05} {
		result, _, err := replayed(t, text, speed, &calls{})
		if err != nil {
			t.Fatal(err)
		}
		if result.Seconds < want || (speed == 4 && result.Seconds > 0.2) {
			t.Errorf("speed %v took %v s", speed, result.Seconds)
		}
	}
}

func TestAFailedCallNamesTheTracesLine(t *testing.T) {
	const text = "0 1 stat b\n\n0 1 open a\n0 2 write b 0 1\n0 1 close a\n"
	for call, c := range map[string]struct {
		errno error
		want  string
	}{
		"open":  {unix.EIO, "t:3: open a: input/output error"},
		"write": {unix.ENOSPC, "t:4: write b: no space left on device"},
	} {
		if _, _, err := replayed(t, text, 0, &calls{fail: map[string]error{call: c.errno}}); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestAThreadThatWaitsForOneThatFailedEnds(t *testing.T) {
	const text = "0 1 write a 0 1\n0 1 unlink a\n0 2 create a\n0 2 close a\n"
	_, _, err := replayed(t, text, 0, &calls{fail: map[string]error{"write": unix.EROFS}})
	if want := "t:1: write a: read-only file system"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestTooManyFilesToKeepOpenAreOpenedEachTime(t *testing.T) {
	system, err := filesys.OpenKernel(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer system.Release()
	c := &calls{Kernel: system}
	replay, err := NewReplay(parsed(t, "0 1 write a 0 1\n0 1 write b 0 1\n0 1 write b 0 1\n0 1 write a 0 1\n"), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	replay.most = 1
	collector := measure.New(measure.Options{Classes: replay.Classes(), Threads: 1})
	collector.Begin(measure.Now())
	if err := replay.Run(t.Context(), collector); err != nil {
		t.Fatal(err)
	}
	collector.End(measure.Now())
	want := []string{
		"create a", "write 0 1", "create b", "write 0 1", "close", "create b", "write 0 1", "close", "write 0 1", "close",
	}
	if !slices.Equal(c.made, want) {
		t.Errorf("made %q, want %q", c.made, want)
	}
}

func TestTracesThatCannotBe(t *testing.T) {
	for text, want := range map[string]string{
		"0 1 close a":                      "t:1: close a: it is not open",
		"0 1 unlink a\n0 1 unlink a":       "t:2: unlink a: the trace has removed it before",
		"0 1 rename a b\n0 1 read a 0 1":   "t:2: read a: the trace has removed it before",
		"0 1 read d 0 1\n0 1 read d/a 0 1": "t:1: read d: it is a folder: expected open, close, fsync, fdatasync or stat",
		"0 1 rename a a":                   "t:1: rename a: to itself: expected another path",
		"0 1 rename a d/":                  "t:1: rename a: to d: it is a folder",
	} {
		if _, err := NewReplay(parsed(t, text), nil, 0); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestAnUnlinkedFileIsUsedWhileItIsOpen(t *testing.T) {
	c := &calls{}
	_, directory, err := replayed(t, "0 1 create a\n0 1 unlink a\n0 1 write a 0 9\n0 1 read a 0 9\n0 1 fsync a\n0 1 close a\n", 0, c)
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, directory); got != "" {
		t.Errorf("left %s", got)
	}
}
