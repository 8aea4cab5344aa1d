// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
)

// LayOut removes what a former layout of the set left, and makes its directories and the files that
// exist at the start: in random order and by several threads, each file written whole with pieces
// of data. It gives the bytes written.
func (s *Set) LayOut(ctx context.Context, system filesys.FS, data []byte, seed uint64) (int64, error) {
	if err := s.clear(system); err != nil {
		return 0, err
	}
	if err := s.makeDirectories(system); err != nil {
		return 0, err
	}
	existing := s.existing()
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(existing), func(i, j int) { existing[i], existing[j] = existing[j], existing[i] })
	var bytes atomic.Int64
	err := inParallel(ctx, len(existing), func(i int) error {
		written, err := s.write(system, existing[i], data)
		bytes.Add(written)
		return err
	})
	return bytes.Load(), err
}

func (s *Set) existing() []*File {
	var existing []*File
	for _, f := range s.Files.files {
		if s.Files.idle[Exists].has(f.index) {
			existing = append(existing, f)
		}
	}
	return existing
}

func (s *Set) makeDirectories(system filesys.FS) error {
	directories := s.directories
	for _, leaf := range s.Leaves.files {
		if s.Leaves.idle[Exists].has(leaf.index) {
			directories = append(directories, leaf.Name)
		}
	}
	for _, name := range directories {
		err := system.Mkdir(name, 0o755)
		if err != nil && !(s.reuse && errors.Is(err, unix.EEXIST)) {
			return filesys.Error("mkdir", name, err)
		}
	}
	return nil
}

// write makes a file of the size that the set says; a file that is there and is to be used again
// may be longer.
func (s *Set) write(system filesys.FS, f *File, data []byte) (int64, error) {
	descriptor, err := system.Open(f.Name, unix.O_CREAT|unix.O_WRONLY, 0o644)
	if err != nil {
		return 0, filesys.Error("create", f.Name, err)
	}
	written, err := s.fill(system, descriptor, f, data)
	if closing := system.Close(descriptor); err == nil {
		err = closing
	}
	return written, filesys.Error("write", f.Name, err)
}

func (s *Set) fill(system filesys.FS, descriptor int, f *File, data []byte) (int64, error) {
	if s.reuse {
		size, err := system.Fstat(descriptor)
		if err != nil || size == f.Size {
			return 0, err
		}
		if size > f.Size {
			return 0, system.Truncate(descriptor, f.Size)
		}
	}
	for left := f.Size; left > 0; {
		piece := data[:min(left, int64(len(data)))]
		if err := filesys.WriteAll(system, descriptor, piece); err != nil {
			return f.Size - left, err
		}
		left -= int64(len(piece))
	}
	return f.Size, nil
}

// layoutThreads keep a drive's queue filled; more would only seek.
const layoutThreads = 8

// inParallel does something n times, until the first error or until ctx is done.
func inParallel(ctx context.Context, n int, do func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range max(layoutThreads, runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
