// SPDX-License-Identifier: GPL-3.0-or-later

// Package filesys is the system calls that the loads make, behind one interface: Kernel makes them,
// Null makes none, and a test's own FS can fail them.
package filesys

import (
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Name is a path below the directory of an FS, kept as the kernel wants it, so that an operation on
// it allocates nothing. The empty path is the directory itself.
type Name struct{ terminated []byte }

// NewName makes a Name. The path must be relative, without a NUL byte and without "..".
func NewName(path string) (Name, error) {
	if path == "" {
		path = "."
	}
	if !fs.ValidPath(path) || strings.IndexByte(path, 0) >= 0 {
		return Name{}, fmt.Errorf("path %q: expected a path below the directory, such as a/b", path)
	}
	return Name{append([]byte(path), 0)}, nil
}

// String returns the path.
func (n Name) String() string {
	if len(n.terminated) == 0 {
		return ""
	}
	return string(n.terminated[:len(n.terminated)-1])
}

// FS is the system calls. A descriptor is the kernel's number of an open file. All methods may be
// called by any thread at any time; an error is the kernel's (unix.Errno), not yet saying what it
// happened to (see Error).
type FS interface {
	// Open is openat with O_CLOEXEC: flags are O_RDWR, O_CREAT, O_DIRECT, O_DSYNC ...
	Open(name Name, flags int, mode uint32) (descriptor int, err error)
	Close(descriptor int) error
	// Read and Pread give 0 bytes at the end of the file.
	Read(descriptor int, data []byte) (int, error)
	Pread(descriptor int, data []byte, offset int64) (int, error)
	Write(descriptor int, data []byte) (int, error)
	Pwrite(descriptor int, data []byte, offset int64) (int, error)
	// Seek is lseek; whence is io.SeekStart, io.SeekCurrent or io.SeekEnd.
	Seek(descriptor int, offset int64, whence int) (int64, error)
	Fsync(descriptor int) error
	Fdatasync(descriptor int) error
	Truncate(descriptor int, bytes int64) error
	// ReadAhead says whether the kernel reads ahead of this descriptor's reads.
	ReadAhead(descriptor int, on bool) error
	Unlink(name Name) error
	Rename(from, to Name) error
	Mkdir(name Name, mode uint32) error
	Rmdir(name Name) error
	// Stat and Fstat give the file's size in bytes.
	Stat(name Name) (int64, error)
	Fstat(descriptor int) (int64, error)
	// ReadDir is getdents64: the bytes of the next directory entries, 0 at the end (see
	// unix.ParseDirent).
	ReadDir(descriptor int, data []byte) (int, error)
	// SyncAll writes all that is dirty of the file system (syncfs).
	SyncAll() error
}

// Error says which call on which file failed: "write a/b: no space left on device". It is nil where
// err is.
func Error(call string, name Name, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: call, Path: name.String(), Err: err}
}

// WriteAll writes data at the descriptor's position whole: the kernel may take less at once.
func WriteAll(system FS, descriptor int, data []byte) error {
	for len(data) > 0 {
		written, err := system.Write(descriptor, data)
		if err != nil {
			return err
		}
		if written == 0 {
			return unix.EIO
		}
		data = data[written:]
	}
	return nil
}

// PwriteAll writes data at an offset whole.
func PwriteAll(system FS, descriptor int, data []byte, offset int64) error {
	for len(data) > 0 {
		written, err := system.Pwrite(descriptor, data, offset)
		if err != nil {
			return err
		}
		if written == 0 {
			return unix.EIO
		}
		data, offset = data[written:], offset+int64(written)
	}
	return nil
}

// Buffer is memory for reads and writes, also of O_DIRECT: aligned to a page and outside the
// garbage collector's heap, until Free.
func Buffer(bytes int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, max(bytes, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("memory of %d bytes: %w", bytes, err)
	}
	return memory[:bytes], nil
}

// Free unmaps the memory of Buffer.
func Free(memory []byte) error {
	if cap(memory) == 0 {
		return nil
	}
	return unix.Munmap(memory[:cap(memory)])
}
