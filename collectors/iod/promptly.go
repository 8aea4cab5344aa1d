// SPDX-License-Identifier: GPL-3.0-or-later

package main

import "time"

const (
	// promptTime is how long after its time a reading may end, promptTries how
	// often one is made that takes longer.
	promptTime  = 10 * time.Millisecond
	promptTries = 4
)

// promptly makes a reading and gives its time: right before it. What happens
// while the agent waits for a CPU inside a reading would count as from before
// that time, and a phase that begins there would miss it: such a reading is
// made again. Where none is prompt, the last one stands. The time carries both
// clocks; points take CLOCK_REALTIME.
func promptly(read func()) (at time.Time) {
	for try := 1; ; try++ {
		at = time.Now()
		read()
		if time.Since(at) <= promptTime || try == promptTries {
			return at
		}
	}
}
