// SPDX-License-Identifier: GPL-3.0-or-later

// Package wait lets tests wait for conditions instead of sleeping.
package wait

import (
	"testing"
	"time"
)

const (
	firstPause   = 50 * time.Microsecond
	longestPause = 10 * time.Millisecond
)

// Until waits until a condition holds, and returns whether it does within the limit. It polls often
// at first, so that waiting for what takes microseconds costs no more.
func Until(limit time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := firstPause; !condition(); pause = min(2*pause, longestPause) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// For waits until a condition holds, and ends the test where it does not within the limit.
func For(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	if !Until(limit, condition) {
		t.Fatalf("not within %v: %s", limit, what)
	}
}
