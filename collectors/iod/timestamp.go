// SPDX-License-Identifier: GPL-3.0-or-later

package main

import "time"

const (
	// promptTime is how long after its time a reading may end, promptTries how often one is made
	// that takes longer.
	promptTime  = 10 * time.Millisecond
	promptTries = 4
)

// readWithTimestamp takes a reading and returns its time: right before it. What happens while the
// agent waits for a CPU inside a reading would count as from before that time, and a phase that
// begins there would miss it: such a reading is repeated. If no attempt finishes in time, the last
// is used. The time carries both clocks; points take CLOCK_REALTIME.
func readWithTimestamp(read func()) (at time.Time) {
	for try := 1; ; try++ {
		at = time.Now()
		read()
		if time.Since(at) <= promptTime || try == promptTries {
			return at
		}
	}
}
