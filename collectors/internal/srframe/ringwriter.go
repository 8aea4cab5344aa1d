// SPDX-License-Identifier: GPL-3.0-or-later

package srframe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RingWriter is the writing end of a Ring: what srcap does in C, for tests and replays.
type RingWriter struct {
	data          []byte
	written, read *atomic.Uint64
	kick          *os.File
}

// OpenRing maps the ring in `file`; kick gets a byte after each frame.
func OpenRing(file, kick *os.File) (*RingWriter, error) {
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	if len(memory) <= ringData || binary.LittleEndian.Uint64(memory) != ringMagic {
		return nil, errors.New("not a ring of frames")
	}
	return &RingWriter{
		data:    memory[ringData:],
		written: (*atomic.Uint64)(unsafe.Pointer(&memory[writtenAt])),
		read:    (*atomic.Uint64)(unsafe.Pointer(&memory[readAt])),
		kick:    kick,
	}, nil
}

// Write puts encoded bytes of one frame in the ring, waiting for room, and wakes the reader. Bytes
// that are no frame are taken too: the reader has to cope.
func (w *RingWriter) Write(frame []byte) error {
	size := uint64(len(w.data))
	whole := uint64(len(frame)+ringAlignment-1) / ringAlignment * ringAlignment
	if whole > size/2 {
		return fmt.Errorf("frame of %d bytes in a ring of %d", len(frame), size)
	}
	at := w.written.Load()
	skip := uint64(0)
	if rest := size - at%size; rest < whole {
		skip = rest
	}
	for at+skip+whole-w.read.Load() > size {
		time.Sleep(time.Millisecond)
	}
	if skip > 0 {
		binary.LittleEndian.PutUint32(w.data[at%size:], skipMagic)
		at += skip
	}
	copy(w.data[at%size:], frame)
	w.written.Store(at + whole)
	_, err := w.kick.Write([]byte{'k'})
	return err
}
