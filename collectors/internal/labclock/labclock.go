// SPDX-License-Identifier: GPL-3.0-or-later

// Package labclock reads the clock of a virtual lab from the page that all its programs share
// (virtuallab/clock/page.h has its layout). Without a page it is the machine's own clock.
package labclock

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Environment names the variable that has the page's path.
const Environment = "JOULERIG_LAB_CLOCK"

const (
	magic     = 0x316b636f6c43524a
	lineBytes = 24
	headBytes = 24
	pageBytes = headBytes + 2*lineBytes
)

// Clock is the clock of a lab. The zero Clock is the machine's own.
type Clock struct{ page []byte }

// line: from wall on (ns of the machine's CLOCK_MONOTONIC) it is lab (ns of the lab's), and a
// second of the lab lasts slowness seconds.
type line struct {
	wall, lab int64
	slowness  float64
}

// FromEnvironment opens the page that the environment names; without one it is the machine's clock.
func FromEnvironment() (Clock, error) {
	path := os.Getenv(Environment)
	if path == "" {
		return Clock{}, nil
	}
	return Open(path)
}

// Open maps the page at path.
func Open(path string) (Clock, error) {
	file, err := os.Open(path)
	if err != nil {
		return Clock{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() < pageBytes {
		return Clock{}, fmt.Errorf("%s: no page of a lab's clock", path)
	}
	page, err := unix.Mmap(int(file.Fd()), 0, pageBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return Clock{}, fmt.Errorf("%s: %w", path, err)
	}
	if binary.NativeEndian.Uint64(page) != magic {
		_ = unix.Munmap(page)
		return Clock{}, fmt.Errorf("%s: no page of a lab's clock", path)
	}
	return Clock{page}, nil
}

// MonotonicNS is the lab's CLOCK_MONOTONIC.
func (c Clock) MonotonicNS() int64 {
	if c.page == nil {
		return monotonic()
	}
	newest, before, wall := c.read()
	return between(newest, before, wall)
}

// Now is the lab's CLOCK_REALTIME. It carries no monotonic reading of Go's: differences of two are
// the lab's.
func (c Clock) Now() time.Time {
	if c.page == nil {
		return time.Now()
	}
	return time.Unix(0, c.MonotonicNS()+int64(binary.NativeEndian.Uint64(c.page[16:])))
}

func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for an unknown clock alone
	return now.Nano()
}

// read is both lines and the time of the wall, as of one moment: a reader that was held up between
// the two would go on along a line that has ended.
func (c Clock) read() (newest, before line, wall int64) {
	count := (*uint64)(unsafe.Pointer(&c.page[8]))
	for {
		n := atomic.LoadUint64(count)
		newest, before = c.line(n-1), c.line(n)
		wall = monotonic()
		if atomic.LoadUint64(count) != n {
			continue
		}
		if n < 2 {
			before = newest
		}
		return newest, before, wall
	}
}

func (c Clock) line(number uint64) line {
	at := c.page[headBytes+lineBytes*(number&1):]
	return line{
		int64(binary.NativeEndian.Uint64(at)),
		int64(binary.NativeEndian.Uint64(at[8:])),
		math.Float64frombits(binary.NativeEndian.Uint64(at[16:])),
	}
}

func between(newest, before line, wall int64) int64 {
	if wall >= newest.wall {
		return newest.labAt(wall)
	}
	return min(before.labAt(wall), newest.lab)
}

func (l line) labAt(wall int64) int64 {
	return l.lab + int64(math.Floor(float64(wall-l.wall)/l.slowness))
}
