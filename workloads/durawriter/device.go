// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/nbd"
	"joulerig/workloads/internal/sectortag"
)

// ioAlignment serves O_DIRECT on every device.
const ioAlignment = 4096

// alignedBuffer is memory that O_DIRECT takes.
func alignedBuffer(bytes int) []byte {
	memory := make([]byte, bytes+ioAlignment)
	shift := int(-uintptr(unsafe.Pointer(&memory[0])) & (ioAlignment - 1))
	return memory[shift : shift+bytes : shift+bytes]
}

// device is a block device, or a file in its place, that another process has opened: the writer
// takes no path, so that only who holds the drive's wipe lease can have it overwritten.
type device struct {
	file       *os.File
	size       int64
	blockBytes int
}

func openDevice(descriptor int) (*device, error) {
	file := os.NewFile(uintptr(descriptor), "device")
	if file == nil {
		return nil, fmt.Errorf("--device-fd: %d: expected an open descriptor", descriptor)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("--device-fd: %d: %w", descriptor, err)
	}
	blockBytes, err := unix.IoctlGetInt(descriptor, unix.BLKSSZGET)
	if err != nil { // a file in its place
		blockBytes = sectortag.SectorBytes
	}
	return &device{file, size, blockBytes}, nil
}

func (d *device) Size() int64 { return d.size }

func (d *device) BlockBytes() int { return d.blockBytes }

func (d *device) Calls() calls { return calls{"pwrite", "pwritev2 RWF_DSYNC", "fdatasync"} }

func (d *device) ReadAt(data []byte, offset int64) error {
	_, err := d.file.ReadAt(data, offset)
	return err
}

// WriteAt writes data; durable ones become FUA writes where the device has these, else a write and
// a flush.
func (d *device) WriteAt(data []byte, offset int64, durable bool) error {
	flags := 0
	if durable {
		flags = unix.RWF_DSYNC
	}
	written, err := unix.Pwritev2(int(d.file.Fd()), [][]byte{data}, offset, flags)
	if err == nil && written < len(data) {
		return io.ErrShortWrite
	}
	return err
}

func (d *device) Flush() error { return unix.Fdatasync(int(d.file.Fd())) }

// export is a drive reached over NBD.
type export struct{ *nbd.Client }

func (export) BlockBytes() int { return sectortag.SectorBytes }

func (export) Calls() calls { return calls{"NBD_CMD_WRITE", "NBD_CMD_WRITE FUA", "NBD_CMD_FLUSH"} }
