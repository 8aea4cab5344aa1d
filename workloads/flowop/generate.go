// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"io"

	"joulerig/workloads/internal/loadrunner"
	"joulerig/workloads/internal/termination"
	"joulerig/workloads/internal/trace"
)

// generateTrace is `flowop generate`.
func generateTrace(args []string, stdout, stderr io.Writer) int {
	s := &trace.Synthetic{}
	// The defaults are sizes that Set takes.
	_ = s.FileBytes.Set("gamma:16384:1.5")
	_ = s.IOBytes.Set("4096")
	flags := loadrunner.NewFlags("generate")
	flags.Int64Var(&s.Operations, "ops", 10000, "")
	flags.Float64Var(&s.WriteShare, "write-share", 0.5, "")
	flags.Float64Var(&s.UnlinkShare, "unlink-share", 0, "")
	flags.Float64Var(&s.SyncShare, "sync-share", 0.3, "")
	flags.IntVar(&s.Files, "files", 100, "")
	flags.Var(&s.FileBytes, "file-bytes", "")
	flags.Var(&s.IOBytes, "io-bytes", "")
	flags.IntVar(&s.Threads, "threads", 1, "")
	flags.Float64Var(&s.Rate, "rate", 1000, "")
	flags.Uint64Var(&s.Seed, "seed", 1, "")
	output := flags.String("output", "", "")
	_, err := loadrunner.Parse(flags, args)
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		return termination.Refuse(stderr, "flowop generate", err, termination.Usage)
	}
	if err := writeTo(*output, stdout, s.Generate); err != nil {
		return termination.Refuse(stderr, "flowop generate", err, termination.Failed)
	}
	return termination.OK
}
