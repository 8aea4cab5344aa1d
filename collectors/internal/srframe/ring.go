// SPDX-License-Identifier: GPL-3.0-or-later

package srframe

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ringMagic     = 0x31474e4952465253 // "SRFRING1"
	skipMagic     = 0x50494b53         // "SKIP"
	ringData      = 4096
	ringAlignment = 16
	// Where the two counters lie, each on a separate cache line.
	writtenAt = 64
	readAt    = 128
)

// Ring is the shared memory that one srcap writes its frames into (--ring; the layout is in
// collectors/srcap/frames.md). The payloads of its frames lie in that memory: they are good until
// Release.
type Ring struct {
	file          *os.File
	memory        []byte
	data          []byte
	written, read *atomic.Uint64
	at            uint64 // how far Next has come
	frame         Frame
}

// NewRing makes a ring with room for at least `bytes` of frames.
func NewRing(bytes int) (*Ring, error) {
	size := max(bytes, 1<<18)
	size = (size + ringData - 1) / ringData * ringData
	fd, err := unix.MemfdCreate("srcap-ring", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shared memory for srcap: %w", err)
	}
	file := os.NewFile(uintptr(fd), "srcap-ring")
	if err := file.Truncate(int64(ringData + size)); err != nil {
		file.Close()
		return nil, fmt.Errorf("shared memory for srcap: %w", err)
	}
	memory, err := unix.Mmap(fd, 0, ringData+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("shared memory for srcap: %w", err)
	}
	binary.LittleEndian.PutUint64(memory, ringMagic)
	binary.LittleEndian.PutUint64(memory[8:], uint64(size))
	return &Ring{
		file:    file,
		memory:  memory,
		data:    memory[ringData:],
		written: (*atomic.Uint64)(unsafe.Pointer(&memory[writtenAt])),
		read:    (*atomic.Uint64)(unsafe.Pointer(&memory[readAt])),
	}, nil
}

// File is what srcap inherits.
func (r *Ring) File() *os.File { return r.file }

// Next returns the next frame, or nil where srcap has written no more so far. It is good until
// Release.
func (r *Ring) Next() (*Frame, error) {
	for {
		written := r.written.Load()
		if r.at == written {
			return nil, nil
		}
		if written-r.at > uint64(len(r.data)) {
			return nil, fmt.Errorf("srcap's ring is damaged: %d bytes written, %d read", written, r.at)
		}
		rest := r.data[r.at%uint64(len(r.data)):]
		if binary.LittleEndian.Uint32(rest) == skipMagic {
			r.at += uint64(len(rest))
			continue
		}
		length, err := r.frame.header(rest)
		if err != nil {
			return nil, err
		}
		whole := (headerBytes + length + ringAlignment - 1) / ringAlignment * ringAlignment
		if whole > len(rest) {
			return nil, fmt.Errorf("srcap's ring is damaged: a frame of %d bytes where %d are left", whole, len(rest))
		}
		r.frame.Payload = rest[headerBytes : headerBytes+length]
		r.at += uint64(whole)
		return &r.frame, nil
	}
}

// Release gives srcap the room of all frames that Next has returned.
func (r *Ring) Release() { r.read.Store(r.at) }

// Close unmaps the ring.
func (r *Ring) Close() error {
	err := unix.Munmap(r.memory)
	r.memory, r.data = nil, nil
	if e := r.file.Close(); err == nil {
		err = e
	}
	return err
}
