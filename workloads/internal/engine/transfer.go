// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"fmt"
	"io"

	"joulerig/workloads/internal/filesys"
)

// buffer returns memory to read into.
func (t *thread) buffer(bytes int64) ([]byte, error) {
	if int64(len(t.memory)) < bytes {
		memory, err := filesys.Buffer(int(bytes))
		if err != nil {
			return nil, err
		}
		filesys.Free(t.memory)
		t.memory = memory
	}
	return t.memory[:bytes], nil
}

// untilEnd reads pieces of so many bytes until there is no more.
func (t *thread) untilEnd(read func([]byte) (int, error), piece int64) (int64, error) {
	data, err := t.buffer(piece)
	if err != nil {
		return 0, err
	}
	for total := int64(0); ; {
		n, err := read(data)
		if n <= 0 || err != nil {
			return total, err
		}
		total += int64(n)
	}
}

// workingSet is the part of a file that random I/O goes to.
func (s *slot) workingSet(o *op) int64 {
	if o.WorkingSet > 0 || s.file == nil {
		return o.WorkingSet
	}
	return s.file.Size
}

// offset draws where a random read or write of some bytes begins: at a multiple of them in the
// working set.
func (t *thread) offset(o *op, s *slot, bytes int64) (int64, error) {
	blocks := s.workingSet(o) / bytes
	if blocks == 0 {
		return 0, t.fail(o, fmt.Errorf("iosize %d is larger than the file (%d bytes)", bytes, s.workingSet(o)))
	}
	return t.random.Int64N(blocks) * bytes, nil
}

// size draws how much a read or write moves, at least a byte.
func (t *thread) size(o *op) int64 { return max(1, o.Size.Int(t.random)) }

// extent draws the size of one read or write and, if it is random, where it begins.
func (t *thread) extent(o *op, s *slot) (bytes, offset int64, err error) {
	bytes = t.size(o)
	if o.Random {
		offset, err = t.offset(o, s, bytes)
	}
	return bytes, offset, err
}

// read reads once, at random or where the last read ended; at the end of the file the next begins
// at its start.
func read(t *thread, o *op) error {
	s, err := t.opened(o)
	if err != nil {
		return err
	}
	bytes, offset, err := t.extent(o, s)
	if err != nil {
		return err
	}
	data, err := t.buffer(bytes)
	if err != nil {
		return t.fail(o, err)
	}
	var n int
	begin := t.begin()
	if o.Random {
		n, err = t.system.Pread(s.descriptor, data, offset)
	} else {
		n, err = t.system.Read(s.descriptor, data)
	}
	if err != nil {
		return t.failOn(o, "read", s, err)
	}
	t.end(o, begin, int64(n))
	if n == 0 {
		_, err = t.system.Seek(s.descriptor, 0, io.SeekStart)
	}
	return t.failOn(o, "seek", s, err)
}

func readWholeFile(t *thread, o *op) error {
	s, err := t.opened(o)
	if err != nil {
		return err
	}
	piece := o.Size.Int(t.random)
	if piece <= 0 {
		piece = max(1, s.workingSet(o))
	}
	data, err := t.buffer(piece)
	if err != nil {
		return t.fail(o, err)
	}
	bytes := int64(0)
	begin := t.begin()
	_, err = t.system.Seek(s.descriptor, 0, io.SeekStart)
	for n := 1; n > 0 && err == nil; bytes += int64(max(n, 0)) {
		n, err = t.system.Read(s.descriptor, data)
	}
	if err != nil {
		return t.failOn(o, "read", s, err)
	}
	t.end(o, begin, bytes)
	return nil
}
