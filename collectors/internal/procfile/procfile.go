// SPDX-License-Identifier: GPL-3.0-or-later

// Package procfile reads small files of /proc and /sys again and again without garbage.
package procfile

import (
	"bytes"
	"os"
	"strings"
	"syscall"
)

// File is a file of /proc kept open: reading it from its start makes the kernel write it again, and
// saves the open and the close of each reading.
type File struct {
	path string
	fd   int
	buf  []byte
}

// Open opens the file, with room for size bytes; the room grows as needed.
func Open(path string, size int) (*File, error) {
	fd, err := openRead(atCwd, path)
	if err != nil {
		return nil, err
	}
	return &File{path: path, fd: fd, buf: make([]byte, size)}, nil
}

// A file of /proc that is made of records (seq_file) is read a page at a time. A read that left
// more than half a page free met the end, since no record here is that long, and need not be
// followed by one that says so.
const certainlyAll = 2048

// Read returns the content as it is now; valid until the next Read.
func (f *File) Read() ([]byte, error) {
	n := 0
	for {
		if n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
		got, err := syscall.Pread(f.fd, f.buf[n:], int64(n))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: f.path, Err: err}
		}
		n += got
		if got == 0 || (got < certainlyAll && n < len(f.buf)) {
			return f.buf[:n], nil
		}
	}
}

// Close closes the file.
func (f *File) Close() { syscall.Close(f.fd) }

// ReadInto reads a file of one record, as far as it fits into buf.
func ReadInto(path string, buf []byte) ([]byte, error) {
	return ReadAt(atCwd, path, buf)
}

const atCwd = -100 // AT_FDCWD

// ReadAt is ReadInto for a path relative to an open directory, which saves the kernel the walk
// there.
func ReadAt(dirfd int, path string, buf []byte) ([]byte, error) {
	fd, err := openRead(dirfd, path)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	for {
		n, err := syscall.Read(fd, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		return buf[:n], nil
	}
}

func openRead(dirfd int, path string) (int, error) {
	for {
		fd, err := syscall.Openat(dirfd, path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}

// Line is the content of a file of one line, without space around it; "" if there is none.
func Line(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00"))
}

// Uint reads the decimal number at the start of b, after spaces, and gives what stands behind it.
// ok is false where there is none.
func Uint(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		v = v*10 + uint64(b[i]-'0')
		i++
	}
	return v, b[i:], i > start
}

// NextLine splits b behind its first line.
func NextLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}
