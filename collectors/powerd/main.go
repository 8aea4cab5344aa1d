// SPDX-License-Identifier: GPL-3.0-or-later

// Command powerd measures energy: it runs one srcap for each meter, integrates volts and amps of
// each rail sample by sample, and writes cumulative joules to InfluxDB. See README.md.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/labclock"
	"joulerig/collectors/internal/sntp"
)

const (
	// How long the last points may take to reach InfluxDB at the end.
	flushGrace = 3 * time.Second
	// In state_dir; the controller reads it (docs/reference/protocols/powerd.md).
	sessionsFile = "sessions"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("powerd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "", "configuration file (JSON, docs/reference/protocols/powerd.md)")
	if err := flags.Parse(args); err != nil || *path == "" || flags.NArg() > 0 {
		if err == nil {
			err = errors.New("--config FILE is needed, and nothing else")
		}
		fmt.Fprintf(stderr, "powerd: %v (allowed: powerd --config FILE)\n", err)
		return exitUsage
	}
	config, err := readConfig(*path)
	if err != nil {
		fmt.Fprintf(stderr, "powerd: %v\n", err)
		return exitUsage
	}
	// All meters together are a few percent of one processor: more threads would only wake each
	// other up.
	runtime.GOMAXPROCS(1)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	code, err := serve(ctx, config, stderr)
	if code == exitUsage {
		err = fmt.Errorf("%s: %w", *path, err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "powerd: %v\n", err)
	}
	return code
}

// serve runs until ctx ends. Nothing is started before all that the configuration asks for has been
// found to be there.
func serve(ctx context.Context, config *Config, stderr io.Writer) (int, error) {
	srcap, err := exec.LookPath(config.Srcap)
	if err != nil {
		return exitUsage, fmt.Errorf("srcap: %w (allowed: the path of the srcap program)", err)
	}
	labTime, err := labclock.FromEnvironment()
	if err != nil {
		return exitUsage, fmt.Errorf("%s: %w", labclock.Environment, err)
	}
	if err := os.MkdirAll(config.StateDir, 0o755); err != nil {
		return exitUsage, fmt.Errorf("state_dir: %w", err)
	}
	if err := os.MkdirAll(stateDir(config), 0o755); err != nil {
		return exitUsage, fmt.Errorf("state_dir: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(config.StatusSocket), 0o755); err != nil {
		return exitUsage, fmt.Errorf("status_socket: %w", err)
	}
	listener, err := listenUnix(config.StatusSocket)
	if err != nil {
		return exitUsage, err
	}
	defer listener.Close()
	var clock net.PacketConn
	if config.ClockListen != "" {
		if clock, err = net.ListenPacket("udp", config.ClockListen); err != nil {
			return exitUsage, fmt.Errorf("clock_listen: %w (allowed: ADDRESS:PORT that is free)", err)
		}
		defer clock.Close()
	}
	writer, err := influx.Open(config.Influx)
	if err != nil {
		return exitUsage, err
	}

	logger := log.New(stderr, "powerd: ", 0)
	var meters []*Meter
	for _, mc := range config.Meters {
		logf := func(format string, args ...any) { logger.Printf("%s: %s", mc.Name, fmt.Sprintf(format, args...)) }
		meter := newMeter(mc, config.PointsPerSecond, writer, logf)
		meter.clock = labTime
		meters = append(meters, meter)
	}
	lend(meters)
	session, err := openState(meters, stateDir(config), newSession())
	if err != nil {
		return exitUsage, err
	}

	if err := recordSession(filepath.Join(config.StateDir, sessionsFile), session); err != nil {
		return exitUsage, err
	}

	server := &http.Server{
		Handler:           handler(meters, config.RecordingsDir, func() Status { return collectStatus(session, meters, writer.Stats) }),
		ReadHeaderTimeout: 5 * time.Second,
	}
	go func() { _ = server.Serve(listener) }()
	if clock != nil {
		go func() {
			if err := sntp.Serve(clock, labTime.Now); err != nil {
				logger.Printf("clock_listen: %v", err)
			}
		}()
	}
	logger.Printf("session %s: %d meters, status at %s", session, len(meters), config.StatusSocket)

	var running sync.WaitGroup
	for _, m := range meters {
		running.Add(1)
		go func() {
			defer running.Done()
			supervise(ctx, m, srcap)
		}()
	}
	<-ctx.Done() // without a meter there is still a clock to serve
	running.Wait()
	for _, m := range meters {
		if became, err := m.stopRecording(); became.Path != "" {
			logger.Printf("%s: the recording to %s ends with powerd: %+v, %v", m.config.Name, became.Path, became.Counts, err)
		}
	}

	ending, cancel := context.WithTimeout(context.Background(), flushGrace)
	defer cancel()
	if err := writer.Close(ending); err != nil {
		// In the spool they are safe, and the next start sends them.
		logger.Printf("%v", err)
	}
	_ = server.Shutdown(ending)
	return 0, nil
}

// newSession names what joules are counted from 0 within.
func newSession() string {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b[:])
}
