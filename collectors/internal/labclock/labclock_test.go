// SPDX-License-Identifier: GPL-3.0-or-later

package labclock

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const second = int64(time.Second)

// write makes a page with these lines, the newest last, and CLOCK_REALTIME ahead by real.
func write(t *testing.T, real int64, lines ...line) string {
	t.Helper()
	page := binary.NativeEndian.AppendUint64(nil, magic)
	page = binary.NativeEndian.AppendUint64(page, uint64(len(lines)))
	page = binary.NativeEndian.AppendUint64(page, uint64(real))
	for place := range 2 {
		one := lines[min(place, len(lines)-1)]
		page = binary.NativeEndian.AppendUint64(page, uint64(one.wall))
		page = binary.NativeEndian.AppendUint64(page, uint64(one.lab))
		page = binary.NativeEndian.AppendUint64(page, math.Float64bits(one.slowness))
	}
	path := filepath.Join(t.TempDir(), "lab_clock")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestALineHoldsFromItsBeginningOn(t *testing.T) {
	before, newest := line{100 * second, 40 * second, 1}, line{110 * second, 50 * second, 8}
	for wall, lab := range map[int64]int64{105: 45, 110: 50, 118: 51} {
		if got := between(newest, before, wall*second); got != lab*second {
			t.Errorf("at %d s of the wall it is %d ns; want %d s", wall, got, lab)
		}
	}
}

func TestTheLabsClocksAreThoseOfThePage(t *testing.T) {
	wall := monotonic()
	clock, err := Open(write(t, 7*second, line{wall, 1000 * second, 4}))
	if err != nil {
		t.Fatal(err)
	}
	first := clock.MonotonicNS()
	time.Sleep(40 * time.Millisecond) // for time to pass
	last, latest := clock.MonotonicNS(), (monotonic()-wall)/4+1000*second
	if last-first < int64(10*time.Millisecond) || last > latest {
		t.Errorf("%d ns passed in the lab, to %d; want 10 ms or more, to %d at most", last-first, last, latest)
	}
	if ahead := clock.Now().UnixNano() - clock.MonotonicNS(); ahead > 7*second || ahead < 7*second-second {
		t.Errorf("CLOCK_REALTIME is %d ns ahead; want 7 s", ahead)
	}
}

func TestTheNewestOfTwoLinesCounts(t *testing.T) {
	wall := monotonic()
	clock, err := Open(write(t, 0, line{wall - second, 0, 1}, line{wall, second, 1000}))
	if err != nil {
		t.Fatal(err)
	}
	if now := clock.MonotonicNS(); now < second || now > second+second/100 {
		t.Errorf("it is %d ns; want a little more than 1 s", now)
	}
}

func TestWithoutAPageItIsTheMachinesClock(t *testing.T) {
	t.Setenv(Environment, "")
	clock, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	before := monotonic()
	if now := clock.MonotonicNS(); now < before || now > monotonic() {
		t.Errorf("it is %d ns; want the machine's", now)
	}
	if off := time.Since(clock.Now()); off < 0 || off > time.Second {
		t.Errorf("the time of day is off by %v", off)
	}
}

func TestWhatIsNoPageIsRefused(t *testing.T) {
	for name, content := range map[string]string{"short": "JRCL", "other": string(make([]byte, pageBytes))} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(Environment, path)
		if _, err := FromEnvironment(); err == nil || err.Error() != path+": no page of a lab's clock" {
			t.Errorf("%s: %v; want that it is no page of a lab's clock", name, err)
		}
	}
}
