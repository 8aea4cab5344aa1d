// SPDX-License-Identifier: GPL-3.0-or-later

// Command flowop loads a file system and measures every operation: with personalities in
// Filebench's language, with traces, with overwrites or appends that are made durable one by one.
// See docs/reference/workloads.md.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"joulerig/workloads/internal/termination"
)

// commands are what the first argument may be; each gives the exit code.
var commands = map[string]func(args []string, stdout, stderr io.Writer) int{
	"check":         checkTrace,
	"generate":      generateTrace,
	"import-strace": importStrace,
	"list":          list,
	"replay":        replayLoad,
	"run":           runWorkload,
	"sync":          syncLoad,
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	known := strings.Join(slices.Sorted(maps.Keys(commands)), ", ")
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprintf(stdout, "usage: flowop COMMAND ...\ncommands: %s\noptions: docs/reference/workloads.md\n", known)
		return termination.OK
	}
	if len(args) == 0 || commands[args[0]] == nil {
		fmt.Fprintf(stderr, "flowop: %q: expected one of %s\n", slices.Concat(args, []string{""})[0], known)
		return termination.Usage
	}
	return commands[args[0]](args[1:], stdout, stderr)
}
