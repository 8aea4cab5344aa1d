// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"joulerig/collectors/internal/srframe"
)

// Exit codes of srcap.
const (
	exitUsage    = 2
	exitNotFound = 3
	exitSilent   = 4
)

const (
	firstPause = 250 * time.Millisecond
	longPause  = 5 * time.Second
	// A stream that lasted this long was a good one: the next attempt need not wait.
	goodStream = 5 * time.Second
	// How long srcap may take to stop when asked.
	stopGrace = 1500 * time.Millisecond
	// What a ring holds, and where srcap finds it: the first descriptor after the standard ones.
	ringSeconds = 2.0
	ringFD      = 3
)

// supervise runs srcap, or the meter's capturer, again and again, until ctx ends.
func supervise(ctx context.Context, m *Meter, srcap string) {
	pause := firstPause
	for {
		began := time.Now()
		state, reason := runOnce(ctx, m, srcap)
		m.endStream(state, reason)
		if ctx.Err() != nil {
			return
		}
		m.logf("%s: %s", state, reason)
		if time.Since(began) >= goodStream {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// command is what reads the meter: its capturer, or srcap, which writes its frames into a ring. The
// error is of a port that is not there.
func command(c *MeterConfig, srcap string, more []string) (*exec.Cmd, error) {
	driver := c.Driver
	if c.ConnectionLink != "" {
		target, err := filepath.EvalSymlinks(c.ConnectionLink)
		if err != nil {
			return nil, fmt.Errorf("%s is not there: unplugged?", c.ConnectionLink)
		}
		driver = strings.ReplaceAll(driver, linkPlace, target)
	}
	args := append(captureArguments(c, driver), more...)
	if len(c.Capturer) > 0 {
		return exec.Command(c.Capturer[0], append(slices.Clone(c.Capturer[1:]), args...)...), nil
	}
	return exec.Command(srcap, append(args, "--ring", strconv.Itoa(ringFD))...), nil
}

func captureArguments(c *MeterConfig, driver string) []string {
	args := []string{"--driver", driver, "--channels", strings.Join(c.channelNames(), ","),
		"--silence-seconds", strconv.FormatFloat(c.SilenceSeconds, 'g', -1, 64)}
	if c.OpenSeconds > 0 {
		args = append(args, "--open-seconds", strconv.FormatFloat(c.OpenSeconds, 'g', -1, 64))
	}
	if c.FixedSettings {
		args = append(args, "--fixed-settings")
	}
	keys := make([]string, 0, len(c.Set))
	for key := range c.Set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		args = append(args, "--set", key+"="+c.Set[key])
	}
	return args
}

// runOnce runs one capture to its end and says in what state that leaves the meter.
func runOnce(ctx context.Context, m *Meter, srcap string) (State, string) {
	cmd, err := command(&m.config, srcap, m.beginStream())
	if err != nil {
		return Silent, err.Error()
	}
	read := readStream
	if len(m.config.Capturer) == 0 {
		ring, err := srframe.NewRing(ringBytes(&m.config))
		if err != nil {
			return Failed, err.Error()
		}
		defer ring.Close()
		cmd.ExtraFiles = []*os.File{ring.File()}
		read = func(m *Meter, from io.Reader) error { return readRing(m, from, ring) }
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return Failed, err.Error()
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return Failed, err.Error()
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return Failed, err.Error()
	}
	if err := cmd.Start(); err != nil {
		return Failed, fmt.Sprintf("cannot start %s: %v", cmd.Path, err)
	}
	m.takesCommands(stdin)

	ended := make(chan struct{})
	kick := make(chan struct{})
	var once sync.Once
	kill := func() { once.Do(func() { close(kick) }) }
	go func() {
		select {
		case <-ctx.Done():
			_, _ = io.WriteString(stdin, "stop\n")
			select {
			case <-ended:
				return
			case <-time.After(stopGrace):
			}
		case <-kick:
		case <-ended:
			return
		}
		_ = cmd.Process.Kill()
	}()

	said := make(chan string, 1)
	go func() { said <- lastLine(stderr, m.logf) }()

	readErr := read(m, stdout)
	if readErr != nil {
		kill()
	}
	// srcap holds its end open until it leaves; with a bad stream it is being killed.
	_, _ = io.Copy(io.Discard, stdout)
	text := <-said
	waitErr := cmd.Wait()
	close(ended)

	if readErr != nil {
		return Failed, readErr.Error()
	}
	return verdict(waitErr, text)
}

// ringBytes is room for what a stream brings while powerd is not scheduled.
func ringBytes(c *MeterConfig) int {
	samples := c.SampleRateHz * ringSeconds * float64(len(c.channels))
	return int(math.Min(64<<20, 4*samples)) + 1<<18
}

// readStream takes the frames that a capturer writes to its stdout, until it has ended.
func readStream(m *Meter, from io.Reader) error {
	frames := srframe.NewReader(from)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // one that was killed ends within a frame; its exit code says the rest
		}
		if err != nil {
			return err
		}
		if err := m.frame(f); err != nil {
			return err
		}
		m.passOn(f)
		m.endBatch()
	}
}

// readRing takes the frames in the ring, each time that srcap says there are some, until it has
// ended.
func readRing(m *Meter, from io.Reader, ring *srframe.Ring) error {
	kicks := make([]byte, 64)
	for {
		_, ended := from.Read(kicks)
		for {
			f, err := ring.Next()
			if err != nil {
				return err
			}
			if f == nil {
				break
			}
			if err := m.frame(f); err != nil {
				return err
			}
			m.passOn(f)
		}
		m.endBatch()
		ring.Release()
		if errors.Is(ended, io.EOF) {
			return nil
		}
		if ended != nil {
			return ended
		}
	}
}

// lastLine passes the text on, line by line, and returns the last one.
func lastLine(from io.Reader, logf func(string, ...any)) string {
	last := ""
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		last = lines.Text()
		logf("%s", last)
	}
	_, _ = io.Copy(io.Discard, from)
	return last
}

// verdict is what srcap's end means: an instrument that does not answer is silent, all else has
// failed.
func verdict(err error, text string) (State, string) {
	var exit *exec.ExitError
	code := 0
	switch {
	case err == nil:
	case errors.As(err, &exit):
		code = exit.ExitCode()
	default:
		return Failed, err.Error()
	}
	if text == "" {
		text = fmt.Sprintf("the capture ended with code %d", code)
	}
	switch code {
	case exitNotFound, exitSilent:
		return Silent, text
	}
	return Failed, text
}
