// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"io"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/loadrunner"
	"joulerig/workloads/internal/syncload"
	"joulerig/workloads/internal/termination"
)

// syncLoad is `flowop sync`.
func syncLoad(args []string, stdout, stderr io.Writer) int {
	options, settings, seconds, err := syncArguments(args)
	if err != nil {
		return termination.Refuse(stderr, "flowop sync", err, termination.Usage)
	}
	system, err := filesys.OpenKernel(options.Directory)
	if err != nil {
		return termination.Refuse(stderr, "flowop sync", err, termination.Failed)
	}
	load := syncload.New(*settings, system)
	return options.Do(loadrunner.Load{
		Command: "sync", Workload: settings.Mode + "-" + settings.Call, Seed: settings.Seed,
		Parameters: map[string]any{
			"seconds": seconds, "ops": settings.Ops, "mode": settings.Mode, "call": settings.Call,
			"block": settings.Block, "file_bytes": settings.FileBytes, "pace_seconds": settings.Pace,
			"rate": settings.Rate, "direct": settings.Direct, "threads": settings.Threads,
		},
		Seconds: seconds, Classes: settings.Classes(), Threads: settings.Threads,
		Layout: load.Layout, Run: load.Run, Stamps: load.Stamps,
	}, stdout, stderr)
}

func syncArguments(args []string) (*loadrunner.Options, *syncload.Settings, float64, error) {
	options, s := &loadrunner.Options{}, &syncload.Settings{}
	flags := loadrunner.NewFlags("sync")
	options.Register(flags)
	seconds := flags.Float64("seconds", 0, "")
	flags.Int64Var(&s.Ops, "ops", 0, "")
	flags.StringVar(&s.Mode, "mode", syncload.Overwrite, "")
	flags.StringVar(&s.Call, "call", syncload.Fsync, "")
	flags.Int64Var(&s.Block, "block", 4096, "")
	flags.Int64Var(&s.FileBytes, "file-bytes", 32<<20, "")
	flags.Float64Var(&s.Pace, "pace-seconds", 0, "")
	flags.Float64Var(&s.Rate, "rate", 0, "")
	flags.BoolVar(&s.Direct, "direct", false, "")
	flags.IntVar(&s.Threads, "threads", 1, "")
	flags.Uint64Var(&s.Seed, "seed", 1, "")
	_, err := loadrunner.Parse(flags, args)
	if err == nil {
		err = options.Check()
	}
	if err == nil {
		err = s.Check()
	}
	if err == nil && *seconds <= 0 && s.Ops == 0 && !options.LayoutOnly {
		err = errors.New("--seconds: expected more than 0, or --ops")
	}
	return options, s, *seconds, err
}
