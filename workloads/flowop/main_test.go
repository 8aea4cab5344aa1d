// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/tests/support/wait"
)

// Started again as a process, the test's program is flowop.
func TestMain(m *testing.M) {
	if os.Getenv("FLOWOP") != "" {
		main()
	}
	os.Exit(m.Run())
}

func flowop(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "FLOWOP=1")
	return command
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, `flowop: "": expected one of `},
		{"dance", 2, `flowop: "dance": expected one of `},
		{"--help", 0, "usage: flowop COMMAND"},
		{"sync --directory d", 2, "flowop sync: --seconds: expected more than 0, or --ops"},
		{"sync --directory d --ops 1 --mode sideways", 2, `flowop sync: --mode: "sideways": expected overwrite or append`},
		{"sync --directory d --ops 1 --call sync", 2, `flowop sync: --call: "sync": expected fsync, fdatasync or none`},
		{"sync --directory d --ops 1 --direct --block 100", 2, "flowop sync: --block: 100: expected a multiple of 512 with --direct"},
		{"sync --directory d --ops 1 --block 8192 --file-bytes 4096", 2, "flowop sync: --file-bytes: 4096: expected at least the 8192 of a block"},
		{"sync --directory d --ops 1 --rate 5 --pace-seconds 1", 2, "flowop sync: --pace-seconds, --rate: expected one of them at most"},
		{"replay --directory d", 2, "flowop replay: TRACE: missing"},
		{"replay t --directory d --timed --speed 2", 2, "flowop replay: --timed, --speed: expected one of them at most"},
		{"check", 2, "flowop check: TRACE: missing"},
		{"check /none", 1, "flowop check: trace: open /none: no such file or directory"},
		{"replay /none --directory d", 1, "flowop replay: trace: open /none: no such file or directory"},
		{"generate --ops 0", 2, "flowop generate: --ops: 0: expected 1 or more"},
		{"generate --write-share 0.8 --unlink-share 0.3", 2, "flowop generate: --write-share, --unlink-share: 0.8, 0.3: expected 0 to 1, together too"},
		{"generate --sync-share 2", 2, "flowop generate: --sync-share: 2: expected 0 to 1"},
		{"generate --file-bytes many", 2, `flowop generate: invalid value "many" for flag -file-bytes: "many": expected bytes, or gamma:MEAN:SHAPE`},
		{"import-strace", 2, "flowop import-strace: FILE: missing"},
		{"import-strace f --root r", 2, `flowop import-strace: --root: "r": expected an absolute path`},
		{"import-strace /none", 1, "flowop import-strace: open /none: no such file or directory"},
		{"sync --directory /none/at/all --ops 1", 1, "flowop sync: directory /none/at/all: no such file or directory"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != c.code {
			t.Errorf("%q: exit %d, want %d", c.args, code, c.code)
		}
		if text := stdout.String() + stderr.String(); !strings.HasPrefix(text, c.says) {
			t.Errorf("%q: says %q, want %q", c.args, text, c.says)
		}
		if c.code != 0 && strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q: %q is not one line", c.args, stderr.String())
		}
	}
}

func TestATraceThatLeavesItsDirectoryIsRefusedWhenItIsChecked(t *testing.T) {
	for _, c := range []struct{ trace, says string }{
		{"file a/b 4096\n0 1 write a/b 0 4096\n", ""},
		{"0 1 write /dev/sda 0 4096\n", `:1: path "/dev/sda"`},
		{"0 1 write ../a 0 4096\n", `:1: path "../a"`},
		{"0 1 write a 0 4096\n1 1 rename a b/../../c\n", `:2: path "b/../../c"`},
		{"0 1 write \"a/../..\" 0 4096\n", `:1: path "a/../.."`},
		{"file /etc/passwd 4096\n0 1 read a 0 4096\n", `:1: path "/etc/passwd"`},
	} {
		path := filepath.Join(t.TempDir(), "t.trace")
		if err := os.WriteFile(path, []byte(c.trace), 0o644); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		code := run([]string{"check", path}, &stdout, &stderr)
		if refused := c.says != ""; (code != 0) != refused || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q: exit %d, says %q, want %q", c.trace, code, stderr.String(), c.says)
		}
	}
}

type report struct {
	Ended, Error string
	Ops, Syncs   int64
	Files        int64
	WriteBytes   int64 `json:"write_bytes"`
	BytesLaidOut int64 `json:"bytes_laid_out"`
	BeginNS      int64 `json:"begin_monotonic_ns"`
	Mix          map[string]float64
}

// firstInterval waits for the series' first line.
func firstInterval(t *testing.T, path string) {
	t.Helper()
	wait.For(t, 20*time.Second, "the first interval", func() bool {
		text, _ := os.ReadFile(path)
		return bytes.Contains(text, []byte("\n"))
	})
}

func TestCtrlCLeavesNoProcessAndAReport(t *testing.T) {
	directory := t.TempDir()
	intervals := filepath.Join(directory, "intervals")
	var stdout bytes.Buffer
	command := flowop(t, "sync", "--directory", directory, "--seconds", "3600", "--intervals", intervals)
	command.Stdout = &stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	firstInterval(t, intervals)
	command.Process.Signal(os.Interrupt)
	command.Wait()
	if code := command.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d", code)
	}
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Ended != "interrupted" || r.Syncs == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestALoadEndsWithItsParent(t *testing.T) {
	directory := t.TempDir()
	intervals, output := filepath.Join(directory, "intervals"), filepath.Join(directory, "report")
	// A shell that outlives nothing: it writes the load's number, and waits to be killed.
	parent := exec.Command("sh", "-c", `"$@" & echo $!; wait`, "sh", os.Args[0], "sync", "--directory", directory,
		"--seconds", "3600", "--intervals", intervals, "--output", output, "--with-parent")
	parent.Env = append(os.Environ(), "FLOWOP=1")
	pipe, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(pipe).ReadString('\n')
	load, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	firstInterval(t, intervals)
	parent.Process.Kill()
	parent.Wait()
	gone := func() bool {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(load) + "/stat")
		return err != nil || bytes.Contains(state, []byte(") Z"))
	}
	if !wait.Until(20*time.Second, gone) {
		unix.Kill(load, unix.SIGKILL)
		t.Fatal("the load goes on without its parent")
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil || r.Ended != "interrupted" || r.Syncs == 0 {
		t.Errorf("%v: %+v", err, r)
	}
}

// reported runs flowop in this process and reads its report.
func reported(t *testing.T, want int, args ...string) (r report) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, &stdout, &stderr); code != want {
		t.Fatalf("%v: exit %d: %s", args, code, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%q: %v", stdout.String(), err)
	}
	return r
}

func TestSyncLaysOutOnceAndKeeps(t *testing.T) {
	directory := t.TempDir()
	small := []string{"sync", "--directory", directory, "--threads", "2", "--file-bytes", "65536"}
	r := reported(t, 0, append(small, "--layout-only")...)
	if r.Files != 2 || r.BytesLaidOut != 2*65536 || r.Ops != 0 || r.BeginNS != 0 {
		t.Errorf("layout only: %+v", r)
	}
	r = reported(t, 0, append(small, "--keep", "--ops", "10")...)
	if r.BytesLaidOut != 0 || r.Ops != 20 || r.Syncs != 10 || r.WriteBytes != 10*4096 || r.Mix["fsync"] != 0.5 {
		t.Errorf("kept: %+v", r)
	}
	r = reported(t, 1, append(small, "--keep", "--ops", "10", "--file-bytes", "131072")...)
	if want := "sync-0000: 65536 bytes: expected 131072; lay it out again, without --keep"; r.Error != want {
		t.Errorf("%q, want %q", r.Error, want)
	}
}

func TestASyntheticTraceIsReplayedWhole(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "trace")
	var none bytes.Buffer
	if code := run(strings.Fields("generate --ops 500 --files 20 --unlink-share 0.1 --threads 3 --output "+path), &none, &none); code != 0 {
		t.Fatal(none.String())
	}
	for _, speed := range []string{"--speed=0", "--speed=100", "--timed"} {
		r := reported(t, 0, "replay", path, "--directory", directory, speed)
		if r.Ended != "completed" || r.Ops != 575 || r.Syncs != 75 || r.Files != 20 {
			t.Errorf("%s: %+v", speed, r)
		}
	}
	// Files are where the trace's end left them, so a replay that keeps them fails, and says where.
	r := reported(t, 1, "replay", path, "--directory", directory, "--keep")
	if r.Ended != "failed" || !strings.HasPrefix(r.Error, path+":") {
		t.Errorf("%+v", r)
	}
}

func TestAFullDiskEndsASyncAndAReplayWithTheirReports(t *testing.T) {
	for says, script := range map[string]string{
		"write sync-0000: no space left on device": `exec "$F" sync --directory "$D" --mode append --file-bytes 100000000 --seconds 3600`,
		": write a: no space left on device": `seq 0 4096 8000000 | sed 's/.*/0 1 write a & 4096/' > "$D.trace"
			exec "$F" replay "$D.trace" --directory "$D"`,
	} {
		command, stdout, stderr := onTmpfs(t, "2m", script)
		var r report
		if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
			t.Fatalf("%v: %q, %q", err, stdout, stderr)
		}
		if code := command.ProcessState.ExitCode(); code != 1 || r.Ended != "failed" || r.Ops == 0 || !strings.HasSuffix(r.Error, says) {
			t.Errorf("exit %d, %+v, want %s", code, r, says)
		}
		if strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%q is not one line", stderr)
		}
	}
}
