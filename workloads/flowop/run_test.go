// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// small is varmail with little to lay out.
var small = []string{"run", "varmail", "--set", "nfiles=200", "--set", "$filesize=2k"}

func smallIn(directory string, more ...string) []string {
	return append(append(small[:len(small):len(small)], "--directory", directory), more...)
}

func TestRunUsage(t *testing.T) {
	directory := t.TempDir()
	bad := filepath.Join(directory, "bad.f")
	if err := os.WriteFile(bad, []byte("define process name=p {\n thread name=t {\n  flowop opnefile name=x\n } }"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"list", 0, "fileserver\noltp\n"},
		{"list all", 2, `flowop list: "all": unexpected argument`},
		{"run --directory d", 2, "flowop run: PERSONALITY or FILE.f: missing"},
		{"run varmail", 2, "flowop run: --directory: missing"},
		{"run varmial --directory d", 2, "flowop run: varmial: no such file: expected one of fileserver, oltp, "},
		{"run varmail --directory d --set nfiles", 2, `flowop run: invalid value "nfiles" for flag -set: expected NAME=VALUE`},
		{"run varmail --directory d --set nfile=3", 2, "flowop run: varmail.f:"},
		{"run varmail --directory d --seconds -1", 2, "flowop run: --seconds, --rate: expected 0 or more"},
		{"run varmail --directory /none/at/all", 1, "flowop run: directory /none/at/all: no such file or directory"},
		{"run " + bad + " --directory d", 2, `flowop run: bad.f:3: `},
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

func TestRunLaysOutOnceKeepsAndReports(t *testing.T) {
	directory := t.TempDir()
	laid := reported(t, 0, smallIn(directory, "--layout-only")...)
	if laid.Files < 140 || laid.Files > 180 || laid.BytesLaidOut != 2048*laid.Files || laid.Ops != 0 {
		t.Errorf("laid out: %+v", laid)
	}
	r := reported(t, 0, smallIn(directory, "--keep", "--seconds", "0.3")...)
	if r.Files != laid.Files || r.BytesLaidOut != 0 || r.Ops == 0 || r.Ended != "completed" {
		t.Errorf("kept: %+v", r)
	}
	// What the run has left is replaced.
	if again := reported(t, 0, smallIn(directory, "--layout-only")...); again.BytesLaidOut != laid.BytesLaidOut {
		t.Errorf("again: %+v", again)
	}
}

func TestRunAtARateReadsAUsersFile(t *testing.T) {
	directory := t.TempDir()
	own := filepath.Join(directory, "own.f")
	if err := os.WriteFile(own, []byte(`
set $dir=/tmp
define fileset name=set,path=$dir,size=1k,entries=10,dirwidth=10,prealloc=100
define process name=p { thread name=t,instances=2 { flowop statfile name=look,filesetname=set } }
run 1
`), 0o644); err != nil {
		t.Fatal(err)
	}
	r := reported(t, 0, "run", own, "--directory", directory, "--rate", "500", "--seconds", "0.5")
	if r.Mix["stat"] != 1 || r.Ops > 5000 || r.Ops < 50 { // without a rate it would be 100000
		t.Errorf("%+v", r)
	}
}

func TestRunWithoutSystemCallsNeedsNoFiles(t *testing.T) {
	directory := t.TempDir()
	r := reported(t, 0, smallIn(directory, "--null", "--seconds", "0.2")...)
	if left, _ := os.ReadDir(directory); r.Ops == 0 || len(left) != 0 {
		t.Errorf("%+v, left %v", r, left)
	}
}

func TestCtrlCEndsARunWithItsReport(t *testing.T) {
	intervals := filepath.Join(t.TempDir(), "intervals")
	var stdout bytes.Buffer
	command := flowop(t, smallIn(t.TempDir(), "--seconds", "3600", "--intervals", intervals)...)
	command.Stdout = &stdout
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	firstInterval(t, intervals)
	command.Process.Signal(os.Interrupt)
	command.Wait()
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Ended != "interrupted" || r.Ops == 0 {
		t.Errorf("%v: %+v", err, r)
	}
	if code := command.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit %d", code)
	}
}

func TestAVanishedDirectoryEndsTheRunWithItsReport(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	intervals := filepath.Join(t.TempDir(), "intervals")
	command := flowop(t, smallIn(directory, "--seconds", "3600", "--intervals", intervals)...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	firstInterval(t, intervals)
	for deadline := time.Now().Add(20 * time.Second); os.RemoveAll(directory) != nil && time.Now().Before(deadline); {
	}
	command.Wait()
	checkFailed(t, command, &stdout, &stderr, "no such file or directory")
}

func checkFailed(t *testing.T, command *exec.Cmd, stdout, stderr *bytes.Buffer, says string) {
	t.Helper()
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v: %q, %q", err, stdout.String(), stderr.String())
	}
	if code := command.ProcessState.ExitCode(); code != 1 || r.Ended != "failed" || r.Ops == 0 {
		t.Errorf("exit %d, %+v", code, r)
	}
	if !strings.Contains(r.Error, says) || stderr.String() != "flowop run: "+r.Error+"\n" {
		t.Errorf("error %q, stderr %q, want %q", r.Error, stderr.String(), says)
	}
}

// onTmpfs runs a script in which "$D" is a small file system in memory that no other process sees.
func onTmpfs(t *testing.T, size, script string) (command *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	command = exec.Command("sh", "-c",
		`mount -t tmpfs -o size=`+size+` none "$D" 2>/dev/null || { echo "no mount" >&2; exit 99; }; `+script)
	command.Env = append(os.Environ(), "FLOWOP=1", "F="+os.Args[0], "D="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	command.Stdout, command.Stderr = stdout, stderr
	if err := command.Run(); command.ProcessState == nil || command.ProcessState.ExitCode() == 99 {
		t.Skipf("no file system can be mounted here, not even in a namespace: %v %s", err, stderr)
	}
	return command, stdout, stderr
}

func TestAFullDiskEndsTheRunWithItsReport(t *testing.T) {
	command, stdout, stderr := onTmpfs(t, "2m",
		`exec "$F" run varmail --directory "$D" --set nfiles=400 --set filesize=3k --seconds 3600`)
	checkFailed(t, command, stdout, stderr, "no space left on device")
}

func TestALayoutThatDoesNotFitFailsBeforeTheRun(t *testing.T) {
	_, stdout, _ := onTmpfs(t, "1m",
		`exec "$F" run varmail --directory "$D" --set nfiles=1000 --set filesize=4k --seconds 3600`)
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || r.Ended != "failed" || r.Ops != 0 || r.BytesLaidOut == 0 ||
		!strings.Contains(r.Error, "no space left on device") {
		t.Errorf("%v %+v", err, r)
	}
}

func TestAReadOnlyFileSystemEndsTheRun(t *testing.T) {
	command, stdout, stderr := onTmpfs(t, "20m",
		`"$F" run varmail --directory "$D" --set nfiles=100 --set filesize=1k --layout-only >/dev/null &&
		 mount -o remount,ro "$D" && exec "$F" run varmail --directory "$D" --set nfiles=100 --set filesize=1k --keep --seconds 3600`)
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v: %q %q", err, stdout, stderr)
	}
	if code := command.ProcessState.ExitCode(); code != 1 || r.Ended != "failed" || !strings.Contains(r.Error, "read-only file system") {
		t.Errorf("exit %d, %+v", code, r)
	}
}
