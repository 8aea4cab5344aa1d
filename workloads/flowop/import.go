// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"io"
	"os"
	"path"

	"joulerig/workloads/internal/loadrunner"
	"joulerig/workloads/internal/termination"
	"joulerig/workloads/internal/trace"
)

// importStrace is `flowop import-strace`.
func importStrace(args []string, stdout, stderr io.Writer) int {
	const command = "flowop import-strace"
	flags := loadrunner.NewFlags("import-strace")
	root := flags.String("root", "/", "")
	output := flags.String("output", "", "")
	files, err := loadrunner.Parse(flags, args, "FILE")
	if err == nil && !path.IsAbs(*root) {
		err = fmt.Errorf("--root: %q: expected an absolute path", *root)
	}
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Usage)
	}
	in, err := os.Open(files[0])
	if err != nil {
		return termination.Refuse(stderr, command, err, termination.Failed)
	}
	defer in.Close()
	var imported *trace.Imported
	err = writeTo(*output, stdout, func(out io.Writer) error {
		imported, err = trace.ImportStrace(in, out, *root)
		return err
	})
	if err != nil {
		return termination.Refuse(stderr, command, fmt.Errorf("%s: %w", files[0], err), termination.Failed)
	}
	fmt.Fprintf(stderr, "%s: %s: %s\n", command, files[0], imported)
	return termination.OK
}

// writeTo writes a file, or stdout where there is no path.
func writeTo(path string, stdout io.Writer, write func(io.Writer) error) error {
	if path == "" {
		return write(stdout)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
