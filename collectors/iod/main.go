// SPDX-License-Identifier: GPL-3.0-or-later

// Command iod is the agent on a test host: it counts what the host's drives do, and spools and
// sends it to InfluxDB. See README.md in this folder.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"joulerig/collectors/internal/drives"
)

const usage = `usage: iod --config FILE            run the agent
       iod resolve --config FILE    print the drives of the file as found on this host (JSON)
`

const (
	exitNotFound = 1 // resolve: a drive is missing; agent: it cannot run
	exitUsage    = 2
)

func main() {
	// The agent shares the host with what is measured: one thread for Go code at a time, and a heap
	// that stays small (the buffers are a few hundred kB).
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(12 << 20)
	relaxTimers()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// timerSlack is how late the kernel may wake a sleeping thread so as to bundle wake-ups. The
// default of 50 us lets the Go runtime's monitor thread wake up about ten times in each tick, which
// is a third of the agent's CPU time. A tick may be late by as much; its points carry the time it
// really was.
const timerSlack = 2 * time.Millisecond

// relaxTimers sets the slack of all threads so far; later ones inherit it. Without the right to
// (CAP_SYS_NICE) the agent works the same, for more CPU.
func relaxTimers() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, thread := range threads {
		_ = os.WriteFile("/proc/"+thread.Name()+"/timerslack_ns", strconv.AppendInt(nil, int64(timerSlack), 10), 0)
	}
}

func run(args []string, stdout, stderr io.Writer) int {
	resolve := len(args) > 0 && args[0] == "resolve"
	if resolve {
		args = args[1:]
	}
	flags := flag.NewFlagSet("iod", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	path := flags.String("config", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "iod: %v: expected [resolve] --config FILE\n", err)
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "iod: %q: unexpected argument: expected [resolve] --config FILE\n", flags.Arg(0))
		return exitUsage
	case *path == "":
		fmt.Fprintln(stderr, "iod: --config: missing: expected [resolve] --config FILE")
		return exitUsage
	}
	c, err := readConfig(*path)
	if err != nil {
		fmt.Fprintf(stderr, "iod: %v\n", err)
		return exitUsage
	}
	if resolve {
		return printDrives(c, stdout, stderr)
	}
	// Before the socket is there: who has sent something may end the agent.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	a, err := newAgent(c, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "iod: %s: %v\n", *path, err)
		return exitUsage
	}
	if err := a.run(ctx); err != nil {
		fmt.Fprintf(stderr, "iod: %v\n", err)
		return exitNotFound
	}
	return 0
}

func printDrives(c *config, stdout, stderr io.Writer) int {
	found, err := drives.Resolve(c.roots(), c.Drives)
	if err != nil {
		fmt.Fprintf(stderr, "iod: find the drives: %v\n", err)
		return exitNotFound
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(map[string]any{"host": c.Host, "drives": found}); err != nil {
		fmt.Fprintf(stderr, "iod: %v\n", err)
		return exitNotFound
	}
	code := 0
	for _, f := range found {
		if f.Problem != "" {
			fmt.Fprintf(stderr, "iod: drive %s: %s\n", f.Name, f.Problem)
			code = exitNotFound
		}
	}
	return code
}
