// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"joulerig/collectors/internal/srframe"
	"joulerig/tests/support/wait"
)

// The test program is the fake srcap too, when it is started with srcap's arguments.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "--driver" {
		os.Exit(fakeSrcap(strings.TrimPrefix(os.Args[2], "fake:")))
	}
	os.Exit(m.Run())
}

// fakeSrcap streams in real time what an instrument of 1 kS/s would, and dies as the scenario says.
func fakeSrcap(scenario string) int {
	ring, err := srframe.OpenRing(os.NewFile(ringFD, "ring"), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	stop := make(chan struct{})
	if scenario != "deaf" {
		go func() {
			in := bufio.NewScanner(os.Stdin)
			for in.Scan() {
				if in.Text() == "stop" {
					close(stop)
					return
				}
			}
		}()
	}
	stream := func(seconds float64) bool {
		for at := uint64(0); at < uint64(seconds*1000); at += 20 {
			select {
			case <-stop:
				return true
			case <-time.After(20 * time.Millisecond):
			}
			now := time.Now().UnixNano() // for both clocks: only differences matter
			for ch, v := range []float32{12, 2, 5, -1} {
				f := samples(uint16(ch), at, now, constant(20, v)...)
				f.RealtimeNS = now
				_ = ring.Write(srframe.Append(nil, f))
			}
		}
		return false
	}
	switch scenario {
	case "steady", "deaf":
		stream(60)
		return 0
	case "absent":
		fmt.Fprintln(os.Stderr, "srcap: no instrument answers at fake")
		return 3
	case "dies":
		if stream(0.5) {
			return 0
		}
		fmt.Fprintln(os.Stderr, "srcap: no samples for 1.0 s, giving up")
		return 4
	case "usage":
		fmt.Fprintln(os.Stderr, `srcap: --channels: the instrument has no "CH1" (allowed: A0)`)
		return 2
	case "garbage":
		_ = ring.Write([]byte(strings.Repeat("this is no frame ", 10)))
		<-stop
		return 0
	}
	return 99
}

type safeLines struct {
	mu sync.Mutex
	lines
}

func (l *safeLines) Write(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(b)
}

// watched runs the supervisor on a scenario until the condition holds, and returns how long its end
// took.
func watched(t *testing.T, scenario string, until func(MeterStatus) bool) (*Meter, MeterStatus, time.Duration) {
	t.Helper()
	config := testConfig()
	config.Driver = "fake:" + scenario
	m := newTestMeter(t, config, &safeLines{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); supervise(ctx, m, os.Args[0]) }()
	var seen MeterStatus
	reached := func() bool {
		seen, _, _ = m.status()
		return until(seen)
	}
	if !wait.Until(8*time.Second, reached) {
		t.Errorf("still %+v", seen)
	}
	asked := time.Now()
	cancel()
	<-done
	return m, seen, time.Since(asked)
}

func TestAnInstrumentThatDiesIsRestartedWithItsGapInTheLedger(t *testing.T) {
	m, s, _ := watched(t, "dies", func(s MeterStatus) bool { return s.Restarts >= 2 && s.State == Streaming && s.Samples > 1100 })
	if s.Reason != "" {
		t.Errorf("streaming, because of %q", s.Reason)
	}
	after, _, _ := m.status()
	// Two pauses, of 0.25 s and 0.5 s, and the starts.
	if after.GapSeconds < 0.7 || after.GapSeconds > 3 {
		t.Errorf("gap %g s", after.GapSeconds)
	}
	if off := after.Expected - after.Samples - after.Lost; off < -25 || off > 25 {
		t.Errorf("the ledger is off by %d: %+v", off, after)
	}
}

func TestExitCodesBecomeStates(t *testing.T) {
	for scenario, want := range map[string]struct {
		state  State
		reason string
	}{
		"absent":  {Silent, "no instrument answers"},
		"dies":    {Silent, "no samples for"},
		"usage":   {Failed, `has no "CH1"`},
		"garbage": {Failed, "not a frame of srcap"},
	} {
		_, s, took := watched(t, scenario, func(s MeterStatus) bool { return s.State == want.state && s.Restarts == 0 })
		if !strings.Contains(s.Reason, want.reason) {
			t.Errorf("%s: reason %q, want %q", scenario, s.Reason, want.reason)
		}
		if took > time.Second {
			t.Errorf("%s: %v to end", scenario, took)
		}
	}
}

func TestRetriesBecomeRarer(t *testing.T) {
	began := time.Now()
	watched(t, "absent", func(s MeterStatus) bool { return s.Restarts == 3 })
	if took := time.Since(began); took < 1700*time.Millisecond {
		t.Errorf("three retries within %v, want pauses of 0.25, 0.5 and 1 s", took)
	}
}

func TestStopIsAskedForBeforeItIsForced(t *testing.T) {
	_, _, took := watched(t, "steady", func(s MeterStatus) bool { return s.State == Streaming })
	if took > time.Second {
		t.Errorf("%v to stop", took)
	}
	_, _, took = watched(t, "deaf", func(s MeterStatus) bool { return s.State == Streaming })
	if took < stopGrace || took > stopGrace+time.Second {
		t.Errorf("%v to force the end, want %v", took, stopGrace)
	}
}

func TestSrcapGetsDriverChannelsAndSettings(t *testing.T) {
	c := testConfig()
	c.Driver, c.Set = "hameg-hmo:conn=tcp-raw/127.0.0.1/5025", map[string]string{"b": "2", "a": "1"}
	c.OpenSeconds, c.FixedSettings = 12, true
	if err := c.check("meters[0]"); err != nil {
		t.Fatal(err)
	}
	shared := []string{"--driver", "hameg-hmo:conn=tcp-raw/127.0.0.1/5025", "--channels", "CH1,CH2,CH3,CH4", "--silence-seconds", "1",
		"--open-seconds", "12", "--fixed-settings", "--set", "a=1", "--set", "b=2"}
	started := func(more ...string) []string {
		cmd, err := command(&c, "/build/srcap", more)
		if err != nil {
			t.Fatal(err)
		}
		return cmd.Args
	}
	got := started("--raw")
	if want := slices.Concat([]string{"/build/srcap"}, shared, []string{"--raw", "--ring", "3"}); !slices.Equal(got, want) {
		t.Errorf("srcap: %q", got)
	}
	c.Capturer = []string{"/usr/bin/python3", "-m", "capturers"}
	got = started()
	if want := slices.Concat(c.Capturer, shared); !slices.Equal(got, want) {
		t.Errorf("a capturer: %q", got)
	}
}

func TestALinkIsResolvedAtEachStart(t *testing.T) {
	dir := t.TempDir()
	c := testConfig()
	c.Driver, c.ConnectionLink = "korad-kaxxxxp:conn={link}:serialcomm=9600/8n1", filepath.Join(dir, "by-id")
	if err := c.check("meters[0]"); err != nil {
		t.Fatal(err)
	}
	if _, err := command(&c, "srcap", nil); err == nil || !strings.Contains(err.Error(), c.ConnectionLink) {
		t.Errorf("a port that is not there: %v", err)
	}
	for _, port := range []string{"ttyACM0", "ttyACM1"} {
		os.WriteFile(filepath.Join(dir, port), nil, 0o600)
		os.Remove(c.ConnectionLink)
		if err := os.Symlink(port, c.ConnectionLink); err != nil {
			t.Fatal(err)
		}
		cmd, err := command(&c, "srcap", nil)
		if err != nil || !strings.HasSuffix(cmd.Args[2], port+":serialcomm=9600/8n1") {
			t.Errorf("%s: %v, %v", port, cmd, err)
		}
	}
	c.ConnectionLink = ""
	if err := c.check("meters[0]"); err == nil || !strings.Contains(err.Error(), "connection_link") {
		t.Errorf("{link} without a link: %v", err)
	}
}

func TestASocketThatADeadProcessLeftIsReplacedALiveOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	syscall.Close(fd) // the file stays, without a listener
	l, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another powerd") {
		t.Errorf("second listener: %v", err)
	}
	file := filepath.Join(t.TempDir(), "f")
	os.WriteFile(file, []byte("precious"), 0o600)
	if _, err := listenUnix(file); err == nil {
		t.Error("a file was taken for a socket")
	}
	if b, _ := os.ReadFile(file); string(b) != "precious" {
		t.Error("a file that is no socket was removed")
	}
}
