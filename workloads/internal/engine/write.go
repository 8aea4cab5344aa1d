// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"fmt"
	"io"

	"joulerig/workloads/internal/filesys"
)

// content gives n bytes to write, or as many as there is memory for: from a random page on.
func (t *thread) content(n int64) []byte {
	data := t.engine.data[t.random.Int64N(variedBytes/pageBytes)*pageBytes:]
	return data[:min(n, int64(len(t.engine.data)-variedBytes))]
}

// write writes n bytes at the descriptor's position, piece by piece.
func (t *thread) write(s *slot, n, piece int64) error {
	for n > 0 {
		data := t.content(min(n, piece))
		if err := filesys.WriteAll(t.system, s.descriptor, data); err != nil {
			return err
		}
		n -= int64(len(data))
	}
	return nil
}

func (t *thread) pwrite(s *slot, n, offset int64) error {
	for n > 0 {
		data := t.content(n)
		if err := filesys.PwriteAll(t.system, s.descriptor, data, offset); err != nil {
			return err
		}
		n, offset = n-int64(len(data)), offset+int64(len(data))
	}
	return nil
}

// writeOnce writes once, at random or where the last write ended.
func writeOnce(t *thread, o *op) error {
	s, err := t.opened(o)
	if err != nil {
		return err
	}
	bytes, offset, err := t.extent(o, s)
	if err != nil {
		return err
	}
	begin := t.begin()
	if o.Random {
		err = t.pwrite(s, bytes, offset)
	} else {
		err = t.write(s, bytes, bytes)
	}
	if err != nil {
		return t.failOn(o, "write", s, err)
	}
	t.end(o, begin, bytes)
	return nil
}

// writeWholeFile writes as much as the file of `srcfd`, or its own, is said to have.
func writeWholeFile(t *thread, o *op) error {
	s, err := t.opened(o)
	if err != nil {
		return err
	}
	bytes := s.workingSet(o)
	if o.HasSourceFD {
		source := &t.slots[o.SourceFD]
		if source.file == nil {
			return t.fail(o, fmt.Errorf("srcfd %d: no file was opened there", o.SourceFD))
		}
		bytes = source.file.Size
	}
	piece := o.Size.Int(t.random)
	if piece <= 0 {
		piece = bytes
	}
	begin := t.begin()
	if err := t.write(s, bytes, piece); err != nil {
		return t.failOn(o, "write", s, err)
	}
	t.end(o, begin, bytes)
	return nil
}

func appendFile(t *thread, o *op) error { return t.append(o, t.size(o)) }

// appendFileRand appends less than the stated size, each length as likely; also nothing is an
// operation.
func appendFileRand(t *thread, o *op) error {
	bytes := t.random.Int64N(t.size(o))
	if bytes == 0 {
		t.end(o, t.begin(), 0)
		return nil
	}
	return t.append(o, bytes)
}

func (t *thread) append(o *op, bytes int64) error {
	s, err := t.opened(o)
	if err != nil {
		return err
	}
	begin := t.begin()
	_, err = t.system.Seek(s.descriptor, 0, io.SeekEnd)
	if err == nil {
		err = t.write(s, bytes, bytes)
	}
	if err != nil {
		return t.failOn(o, "append", s, err)
	}
	t.end(o, begin, bytes)
	return nil
}
