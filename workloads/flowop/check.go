// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"io"
	"os"

	"joulerig/workloads/internal/loadrunner"
	"joulerig/workloads/internal/termination"
	"joulerig/workloads/internal/trace"
)

// checkTrace is `flowop check`: whether a trace can be replayed, on a machine that need not.
func checkTrace(args []string, _, stderr io.Writer) int {
	const command = "flowop check"
	files, err := loadrunner.Parse(loadrunner.NewFlags("check"), args, "TRACE")
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Usage)
	}
	if _, err := readTrace(files[0]); err != nil {
		return termination.Refuse(stderr, command, err, termination.Failed)
	}
	return termination.OK
}

func readTrace(path string) (*trace.Trace, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer file.Close()
	return trace.Parse(file, path)
}
