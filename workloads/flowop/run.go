// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"joulerig/workloads"
	"joulerig/workloads/internal/engine"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/loadrunner"
	"joulerig/workloads/internal/termination"
	"joulerig/workloads/internal/wml"
)

// runArguments are what `flowop run` is asked for.
type runArguments struct {
	loadrunner.Options
	workload      string // a personality's name, or a file
	seconds, rate float64
	seed          uint64
	set           map[string]string
	null          bool
}

// runWorkload is `flowop run`.
func runWorkload(args []string, stdout, stderr io.Writer) int {
	const command = "flowop run"
	a, err := parseRun(args)
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Usage)
	}
	program, err := readWorkload(a.workload, a.set)
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Usage)
	}
	load, err := a.load(program)
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Failed)
	}
	return a.Do(load, stdout, stderr)
}

func parseRun(args []string) (*runArguments, error) {
	a := &runArguments{set: map[string]string{}}
	flags := loadrunner.NewFlags("run")
	a.Register(flags)
	flags.Float64Var(&a.seconds, "seconds", 0, "")
	flags.Float64Var(&a.rate, "rate", 0, "")
	flags.Uint64Var(&a.seed, "seed", 1, "")
	flags.BoolVar(&a.null, "null", false, "")
	flags.Func("set", "", func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return errors.New("expected NAME=VALUE")
		}
		a.set[strings.TrimPrefix(name, "$")] = value
		return nil
	})
	others, err := loadrunner.Parse(flags, args, "PERSONALITY or FILE.f")
	if err != nil {
		return nil, err
	}
	a.workload = others[0]
	if a.seconds < 0 || a.rate < 0 {
		return nil, errors.New("--seconds, --rate: expected 0 or more")
	}
	return a, a.Check()
}

// readWorkload reads a personality that ships, or a user's own file.
func readWorkload(workload string, set map[string]string) (*wml.Program, error) {
	if source, ships := workloads.Personality(workload); ships {
		return wml.Parse(workload+".f", source, set)
	}
	source, err := os.ReadFile(workload)
	if errors.Is(err, fs.ErrNotExist) {
		known := strings.Join(workloads.Personalities(), ", ")
		return nil, fmt.Errorf("%s: no such file: expected one of %s, or a workload's file", workload, known)
	}
	if err != nil {
		return nil, err
	}
	return wml.Parse(filepath.Base(workload), source, set)
}

func (a *runArguments) load(program *wml.Program) (loadrunner.Load, error) {
	system, err := a.system()
	if err != nil {
		return loadrunner.Load{}, err
	}
	e, err := engine.New(engine.Options{Program: program, System: system, Seed: a.seed, Rate: a.rate})
	if err != nil {
		return loadrunner.Load{}, err
	}
	if _, has := program.Variables["dir"]; has {
		program.Variables["dir"] = a.Directory
	}
	seconds := a.seconds
	if seconds == 0 {
		seconds = e.Seconds()
	}
	return loadrunner.Load{
		Command: "run", Workload: strings.TrimSuffix(program.File, ".f"), Seed: a.seed,
		Parameters: map[string]any{
			"seconds": seconds, "rate": a.rate, "threads": e.Threads(), "variables": program.Variables, "echo": program.Echo,
		},
		Seconds: seconds, Classes: e.Classes(), Threads: e.Threads(), Layout: e.LayOut, Run: e.Run,
	}, nil
}

func (a *runArguments) system() (filesys.FS, error) {
	if a.null {
		return filesys.Null{}, nil
	}
	return filesys.OpenKernel(a.Directory)
}

// list is `flowop list`: the personalities that ship.
func list(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		return termination.Refuse(stderr, "flowop list", fmt.Errorf("%q: unexpected argument", args[0]), termination.Usage)
	}
	for _, name := range workloads.Personalities() {
		fmt.Fprintln(stdout, name)
	}
	return termination.OK
}
