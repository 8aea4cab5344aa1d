// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"io"
	"path/filepath"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/loadrunner"
	"joulerig/workloads/internal/termination"
	"joulerig/workloads/internal/trace"
)

// replayLoad is `flowop replay`.
func replayLoad(args []string, stdout, stderr io.Writer) int {
	options := &loadrunner.Options{}
	flags := loadrunner.NewFlags("replay")
	options.Register(flags)
	timed := flags.Bool("timed", false, "")
	speed := flags.Float64("speed", 0, "")
	files, err := loadrunner.Parse(flags, args, "TRACE")
	if err == nil {
		err = options.Check()
	}
	if err == nil && (*speed < 0 || (*timed && *speed > 0)) {
		err = errors.New("--timed, --speed: expected one of them at most, a speed of more than 0")
	}
	if err != nil {
		return termination.Refuse(stderr, "flowop replay", err, termination.Usage)
	}
	if *timed {
		*speed = 1
	}
	load, err := replayOf(files[0], options.Directory, *speed)
	if err != nil {
		return termination.Refuse(stderr, "flowop replay", err, termination.Failed)
	}
	return options.Do(*load, stdout, stderr)
}

func replayOf(path, directory string, speed float64) (*loadrunner.Load, error) {
	read, err := readTrace(path)
	if err != nil {
		return nil, err
	}
	system, err := filesys.OpenKernel(directory)
	if err != nil {
		return nil, err
	}
	replay, err := trace.NewReplay(read, system, speed)
	if err != nil {
		return nil, err
	}
	return &loadrunner.Load{
		Command: "replay", Workload: filepath.Base(path),
		Parameters: map[string]any{"speed": speed, "operations": len(read.Operations), "threads": replay.Threads()},
		Classes:    replay.Classes(), Threads: replay.Threads(),
		Layout: replay.Layout, Run: replay.Run,
	}, nil
}
