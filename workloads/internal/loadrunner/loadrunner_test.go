// SPDX-License-Identifier: GPL-3.0-or-later

package loadrunner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/termination"
)

// load makes one operation, then does what it is given.
func load(then func(context.Context) error) Load {
	return Load{
		Command: "test", Workload: "w", Seed: 7, Parameters: map[string]any{"a": 1}, Threads: 1,
		Classes: []measure.Class{{Name: "write", Kind: measure.Write}},
		Layout:  func(context.Context, bool) (int64, int64, error) { return 3, 4096, nil },
		Run: func(ctx context.Context, c *measure.Collector) error {
			now := measure.Now()
			c.Recorder(0).Done(0, now-1000, now, 512)
			return then(ctx)
		},
	}
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// done runs the load and reads its report.
func done(t *testing.T, o Options, l Load) (code int, report Report, complaint string) {
	t.Helper()
	if o.Directory == "" {
		o.Directory = "."
	}
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code = o.Do(l, &stdout, &stderr)
	text := stdout.Bytes()
	if o.Output != "" {
		text, _ = os.ReadFile(o.Output)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatalf("report %q: %v (%s)", text, err, stderr.String())
	}
	return code, report, stderr.String()
}

func TestALoadThatEndsOfItselfIsCompleted(t *testing.T) {
	code, r, complaint := done(t, Options{}, load(func(context.Context) error { return nil }))
	if code != 0 || r.Ended != "completed" || r.Error != "" || complaint != "" {
		t.Errorf("exit %d, %+v, %q", code, r, complaint)
	}
	if r.Command != "test" || r.Workload != "w" || r.Seed != 7 || r.Parameters["a"] != 1.0 || r.Files != 3 || r.BytesLaidOut != 4096 {
		t.Errorf("report %+v", r)
	}
	if r.Ops != 1 || r.WriteBytes != 512 || r.Classes[0].Histogram == nil || r.Seconds <= 0 {
		t.Errorf("measured %+v", r.Result)
	}
	if now := time.Now().UnixNano(); r.BeginRealtimeNS > r.EndRealtimeNS || now-r.EndRealtimeNS > int64(time.Minute) {
		t.Errorf("from %d to %d, it is %d", r.BeginRealtimeNS, r.EndRealtimeNS, now)
	}
}

func TestTheTimeEndsALoad(t *testing.T) {
	l := load(untilDone)
	l.Seconds = 0.05
	code, r, _ := done(t, Options{}, l)
	if code != 0 || r.Ended != "completed" || r.Seconds < 0.05 {
		t.Errorf("exit %d, %s after %v s", code, r.Ended, r.Seconds)
	}
}

func TestASignalEndsALoadWithItsReport(t *testing.T) {
	for _, signal := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		code, r, _ := done(t, Options{}, load(func(ctx context.Context) error {
			unix.Kill(unix.Getpid(), signal)
			return untilDone(ctx)
		}))
		if code != 130 || r.Ended != "interrupted" || r.Ops != 1 {
			t.Errorf("%v: exit %d, %+v", signal, code, r)
		}
	}
}

func TestAFailureIsOneLineAndKeepsTheReport(t *testing.T) {
	failed := errors.New("write a/b:\nno space left on device")
	for what, l := range map[string]Load{
		"run": load(func(context.Context) error { return failed }),
		"run, while asked to end": load(func(ctx context.Context) error {
			unix.Kill(unix.Getpid(), unix.SIGTERM)
			<-ctx.Done()
			return failed
		}),
	} {
		code, r, complaint := done(t, Options{}, l)
		if code != 1 || r.Ended != "failed" || r.Error != "write a/b: no space left on device" || r.Ops != 1 {
			t.Errorf("%s: exit %d, %+v", what, code, r)
		}
		if complaint != "flowop test: write a/b: no space left on device\n" {
			t.Errorf("%s: stderr %q", what, complaint)
		}
	}
}

func TestAFailedLayoutNeverRuns(t *testing.T) {
	l := load(func(context.Context) error { t.Error("it ran"); return nil })
	l.Layout = func(context.Context, bool) (int64, int64, error) { return 1, 512, unix.ENOSPC }
	code, r, _ := done(t, Options{}, l)
	if code != 1 || r.Ended != "failed" || r.BytesLaidOut != 512 || r.Ops != 0 || r.Mix == nil || r.Classes == nil {
		t.Errorf("exit %d, %+v", code, r)
	}
}

func TestLayoutOnlyAndKeep(t *testing.T) {
	l := load(func(context.Context) error { t.Error("it ran"); return nil })
	if code, r, _ := done(t, Options{LayoutOnly: true}, l); code != 0 || r.Files != 3 || r.BeginRealtimeNS != 0 {
		t.Errorf("exit %d, %+v", code, r)
	}
	kept := false
	l = load(func(context.Context) error { return nil })
	l.Layout = func(_ context.Context, keep bool) (int64, int64, error) { kept = keep; return 0, 0, nil }
	if done(t, Options{Keep: true}, l); !kept {
		t.Error("--keep was not passed on")
	}
}

func TestOperationsThatHangDoNotHoldUpTheEnd(t *testing.T) {
	defer func(a, b time.Duration) { patience, patienceInterrupted = a, b }(patience, patienceInterrupted)
	never := make(chan struct{})
	defer close(never)
	hang := func(context.Context) error { <-never; return nil }

	patience = 10 * time.Millisecond
	l := load(hang)
	l.Seconds = 0.01
	if code, r, _ := done(t, Options{}, l); code != 1 || !strings.Contains(r.Error, "still in the kernel") || r.Ops != 1 {
		t.Errorf("exit %d, %+v", code, r)
	}
	patience, patienceInterrupted = time.Hour, 10*time.Millisecond
	l = load(func(ctx context.Context) error { unix.Kill(unix.Getpid(), unix.SIGTERM); return hang(ctx) })
	if code, r, _ := done(t, Options{}, l); code != 130 || r.Ended != "interrupted" || r.Ops != 1 {
		t.Errorf("exit %d, %+v", code, r)
	}
}

func TestTheSeriesGoesToFileAndHostAgent(t *testing.T) {
	directory := t.TempDir()
	agent := listen(t, filepath.Join(directory, "s"))
	o := Options{
		Output: filepath.Join(directory, "report.json"), Intervals: filepath.Join(directory, "intervals.jsonl"),
		points: "unix:" + filepath.Join(directory, "s"), host: "h", drive: "d", runTag: "r",
	}
	_, r, _ := done(t, o, load(func(context.Context) error { return nil }))

	text, err := os.ReadFile(o.Intervals)
	if err != nil {
		t.Fatal(err)
	}
	var i interval
	if err := json.Unmarshal(text, &i); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Fatalf("%q: %v", text, err)
	}
	if i.Classes[0].Ops != 1 || i.EndNS != r.EndNS || r.PointsLost != 0 {
		t.Errorf("interval %+v, report %+v", i, r)
	}
	if near := i.EndRealtimeNS - r.EndRealtimeNS; near < -int64(time.Second) || near > int64(time.Second) {
		t.Errorf("the interval ends at %d, the load at %d", i.EndRealtimeNS, r.EndRealtimeNS)
	}
	point := make([]byte, 4096)
	n, err := agent.Read(point)
	if err != nil || !strings.HasPrefix(string(point[:n]), "workload,host=h,drive=d,run=r ops=1i,read_bytes=0i,write_bytes=512i,class_write_ops=1i") {
		t.Errorf("%q, %v", point[:n], err)
	}
	left, _ := filepath.Glob(filepath.Join(directory, "*.partial"))
	if len(left) > 0 {
		t.Errorf("%v left", left)
	}
}

func TestAReportGoesIntoAPipeAndNotInItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan []byte, 1)
	go func() {
		text, _ := os.ReadFile(path)
		read <- text
	}()
	out, err := (&Options{Output: path}).openOutputs(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.report(Report{}); err != nil {
		t.Fatal(err)
	}
	out.close()
	if text := <-read; !strings.HasPrefix(string(text), "{") {
		t.Errorf("%q came through the pipe", text)
	}
	if there, err := os.Stat(path); err != nil || there.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is now %v, %v", there, err)
	}
}

func listen(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	agent, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	agent.SetReadDeadline(time.Now().Add(10 * time.Second))
	return agent
}

func TestAHostAgentThatIsGoneLosesPointsNotTheLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	agent := listen(t, path)
	code, r, _ := done(t, Options{points: "unix:" + path, host: "h", drive: "d"}, load(func(context.Context) error {
		return agent.Close()
	}))
	if code != 0 || r.PointsLost != 1 {
		t.Errorf("exit %d, %+v", code, r)
	}
}

func TestARestartedHostAgentGetsPoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	agent := listen(t, path)
	_, r, _ := done(t, Options{points: "unix:" + path, host: "h", drive: "d"}, load(func(context.Context) error {
		agent.Close()
		os.Remove(path)
		listen(t, path)
		return nil
	}))
	if r.PointsLost != 0 {
		t.Errorf("%+v", r)
	}
}

func TestASeriesThatCannotBeWrittenIsAFailure(t *testing.T) {
	code, r, complaint := done(t, Options{Intervals: "/dev/full"}, load(func(context.Context) error { return nil }))
	if code != 1 || r.Ended != "failed" || r.Ops != 1 || !strings.Contains(complaint, "no space left") {
		t.Errorf("exit %d, %+v, %q", code, r, complaint)
	}
}

func TestOutputsThatCannotBeAreRefusedBeforeTheLayout(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none", "x")
	for want, o := range map[string]Options{
		"--output": {Output: missing}, "--intervals": {Intervals: missing}, "--points": {socket: missing},
	} {
		l := load(nil)
		l.Layout = func(context.Context, bool) (int64, int64, error) { t.Error(want, "it laid out"); return 0, 0, nil }
		var stderr bytes.Buffer
		if code := o.Do(l, &bytes.Buffer{}, &stderr); code != termination.Usage {
			t.Errorf("%s: exit %d", want, code)
		}
		if text := stderr.String(); !strings.HasPrefix(text, "flowop test: "+want+": ") || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: %q", want, text)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args  string
		names []string
		want  string // the others, or the error
	}{
		{"--directory d", nil, "[]"},
		{"x.f --directory d", []string{"FILE"}, "[x.f]"},
		{"--directory d x.f --keep", []string{"FILE"}, "[x.f]"},
		{"--directory d", []string{"FILE"}, "FILE: missing"},
		{"--directory d x y", []string{"FILE"}, `"y": unexpected argument`},
		{"--directory d --never", nil, "flag provided but not defined: -never"},
	} {
		var o Options
		flags := NewFlags("test")
		o.Register(flags)
		others, err := Parse(flags, strings.Fields(c.args), c.names...)
		got := fmt.Sprint(others)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.args, got, c.want)
		}
	}
}

func TestCheckNamesTheOption(t *testing.T) {
	for want, o := range map[string]Options{
		"--directory: missing":                                {},
		"--layout-only, --keep: expected one of them at most": {Directory: "d", LayoutOnly: true, Keep: true},
		`--points: "tcp:1": expected unix:SOCKET`:             {Directory: "d", points: "tcp:1"},
		"--points: expected --host and --drive with it":       {Directory: "d", points: "unix:s", host: "h"},
		`--points: "unix:": expected unix:SOCKET`:             {Directory: "d", points: "unix:"},
	} {
		if err := o.Check(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
