// SPDX-License-Identifier: GPL-3.0-or-later

// Package filelayout writes files before a load: whole and durable, so that the load finds no block
// that is still to be allocated.
package filelayout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
)

const pieceBytes = 1 << 20

// Piece returns memory that suits O_DIRECT, filled with bytes that do not compress.
func Piece(bytes int, random *rand.Rand) ([]byte, error) {
	data, err := filesys.Buffer(bytes)
	if err != nil {
		return nil, err
	}
	fill(data, random)
	return data, nil
}

// fill fills data with bytes that do not compress.
func fill(data []byte, random *rand.Rand) {
	for i := 0; i < len(data); i += 8 {
		word := random.Uint64()
		for at := i; at < min(i+8, len(data)); at++ {
			data[at] = byte(word)
			word >>= 8
		}
	}
}

// Writer lays out files.
type Writer struct {
	system  filesys.FS
	data    []byte
	made    map[string]bool
	Files   int64
	Written int64 // bytes
}

// NewWriter returns one that fills files with bytes that do not compress.
func NewWriter(system filesys.FS, random *rand.Rand) (*Writer, error) {
	data, err := Piece(pieceBytes, random)
	return &Writer{system: system, data: data, made: map[string]bool{".": true}}, err
}

// File writes a file of so many bytes, and the directories it needs; old content is gone.
func (w *Writer) File(ctx context.Context, file string, bytes int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.ParentDirectory(file); err != nil {
		return err
	}
	name, err := filesys.NewName(file)
	if err != nil {
		return err
	}
	descriptor, err := w.system.Open(name, unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY, 0o644)
	if err != nil {
		return filesys.Error("create", name, err)
	}
	defer w.system.Close(descriptor)
	for left := bytes; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := w.data[:min(left, pieceBytes)]
		if err := filesys.WriteAll(w.system, descriptor, piece); err != nil {
			return filesys.Error("write", name, err)
		}
		left -= int64(len(piece))
		w.Written += int64(len(piece))
	}
	w.Files++
	return nil
}

// ParentDirectory makes the directory that a file lies in, and those above it.
func (w *Writer) ParentDirectory(file string) error { return w.Directory(path.Dir(file)) }

// Directory makes a directory and those above it; one that exists is no error.
func (w *Writer) Directory(directory string) error {
	if w.made[directory] {
		return nil
	}
	if err := w.Directory(path.Dir(directory)); err != nil {
		return err
	}
	name, err := filesys.NewName(directory)
	if err != nil {
		return err
	}
	if err := w.system.Mkdir(name, 0o755); err != nil && err != unix.EEXIST {
		return filesys.Error("mkdir", name, err)
	}
	w.made[directory] = true
	return nil
}

// Sync makes all durable, names too: the load's own syncs are not to commit the layout.
func (w *Writer) Sync() error {
	if err := w.system.SyncAll(); err != nil {
		return fmt.Errorf("sync of the layout: %w", err)
	}
	return nil
}
