// SPDX-License-Identifier: GPL-3.0-or-later

package measure

import (
	"math"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Go's own clock is CLOCK_MONOTONIC, without saying since when. One instant read in both gives the
// difference.
var processStart, monotonicBase = sameInstant()

func sameInstant() (start time.Time, monotonicNS int64) {
	best := int64(math.MaxInt64)
	for range 16 {
		before := clockNS(unix.CLOCK_MONOTONIC)
		now := time.Now()
		if took := clockNS(unix.CLOCK_MONOTONIC) - before; took < best {
			best, start, monotonicNS = took, now, before+took/2
		}
	}
	return start, monotonicNS
}

func clockNS(clock int32) int64 {
	var t unix.Timespec
	// None of the clocks asked for can fail.
	_ = unix.ClockGettime(clock, &t)
	return t.Nano()
}

// RealtimeOffset is CLOCK_REALTIME less CLOCK_MONOTONIC at this moment, in nanoseconds: what makes
// a monotonic time one in UTC.
func RealtimeOffset() int64 { return clockNS(unix.CLOCK_REALTIME) - Now() }

// Stamps are what writes found of the clock that files are stamped by: how many came in another
// tick, and in another second, than the one before to that file. After the others, an fsync finds
// no new mtime to journal; which of the two it is depends on whether the inode has room for
// nanoseconds.
type Stamps struct {
	NewTick   int64 `json:"new_tick"`
	NewSecond int64 `json:"new_second"`
}

// Stamp is the time that a file changed now is stamped with, in nanoseconds: the kernel's coarse
// clock, which advances once a tick.
func Stamp() int64 { return clockNS(unix.CLOCK_REALTIME_COARSE) }

// cpuTime is CPU time of the process in seconds: in user mode and in the kernel.
type cpuTime struct{ user, system float64 }

func usedCPU() cpuTime {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail for oneself
	return cpuTime{seconds(u.Utime.Nano()), seconds(u.Stime.Nano())}
}

func (t cpuTime) since(begin cpuTime) cpuTime {
	return cpuTime{t.user - begin.user, t.system - begin.system}
}

func (t cpuTime) total() float64 { return t.user + t.system }

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// LockThread ties the goroutine to its own thread, whose sleeps end when they are due: by default
// the kernel lets them end 50 us later.
func LockThread() {
	runtime.LockOSThread()
	// Where it is refused, sleeps are as long as by default.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}
