// SPDX-License-Identifier: GPL-3.0-or-later

package wait

import (
	"testing"
	"time"
)

func TestAConditionThatHoldsAtLastIsWaitedFor(t *testing.T) {
	asked := 0
	For(t, 10*time.Second, "the fifth time", func() bool { asked++; return asked == 5 })
	if asked != 5 {
		t.Errorf("asked %d times", asked)
	}
}

func TestAConditionThatNeverHoldsEndsAtTheLimit(t *testing.T) {
	limit := 30 * time.Millisecond
	began := time.Now()
	if Until(limit, func() bool { return false }) {
		t.Error("it holds")
	}
	if took := time.Since(began); took < limit {
		t.Errorf("it took %v", took)
	}
}
