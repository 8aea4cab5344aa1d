// SPDX-License-Identifier: GPL-3.0-or-later

package clockfit

import "math"

// How fast published time may run while it waits for a clock that was set back.
const slowest = 0.5

// Axis turns monotonic times into UTC times that never step back, though the fit gets better and
// the controller's clock may be set. It moves forward at once, and back by running at half speed
// until the time is right again.
type Axis struct {
	started bool
	utc     int64
}

// UTC is the UTC time in ns of the monotonic time mono, offset being CLOCK_REALTIME minus
// CLOCK_MONOTONIC. Calls are for later and later events; elapsedNS is how much device time has
// passed since the event of the call before. Results rise strictly.
func (a *Axis) UTC(mono, offset, elapsedNS int64) int64 {
	utc := mono + offset
	if a.started {
		least := a.utc + max(1, int64(math.Ceil(slowest*float64(elapsedNS))))
		utc = max(utc, least)
	}
	a.started, a.utc = true, utc
	return utc
}

// Last is the latest time given out, 0 before there is one.
func (a *Axis) Last() int64 { return a.utc }

// Resume takes up an axis that had given out utc.
func (a *Axis) Resume(utc int64) {
	if utc != 0 {
		a.started, a.utc = true, utc
	}
}
