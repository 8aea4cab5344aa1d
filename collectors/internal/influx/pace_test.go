// SPDX-License-Identifier: GPL-3.0-or-later

package influx

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

func TestThePauseAfterFailuresGrowsUpToItsBound(t *testing.T) {
	w := &Writer{limit: maxBatchBytes, backoff: minBackoff}
	before := time.Duration(0)
	for n := range 40 {
		pause := w.slowDown(errors.New("refused"))
		if pause < before || pause > maxBackoff || n > 10 && pause != maxBackoff {
			t.Fatalf("after %d failures a pause of %v", n+1, pause)
		}
		before = pause
	}
	if w.limit != maxBatchBytes {
		t.Errorf("a batch of at most %d bytes, though the server was not slow", w.limit)
	}
}

func TestAServerMayAskForALongerPauseAndNotForAShorterOne(t *testing.T) {
	long, short := &retryAfter{time.Minute, "busy"}, &retryAfter{time.Second, "busy"}
	w := &Writer{limit: maxBatchBytes, backoff: maxBackoff}
	if pause := w.slowDown(long); pause != time.Minute {
		t.Errorf("a pause of %v where a minute is asked for", pause)
	}
	if pause := w.slowDown(short); pause != maxBackoff {
		t.Errorf("a pause of %v where a second is asked for after many failures", pause)
	}
}

func TestBatchesShrinkToABoundAndGrowAgain(t *testing.T) {
	slow := fmt.Errorf("post: %w", os.ErrDeadlineExceeded)
	w := &Writer{limit: maxBatchBytes, backoff: minBackoff}
	if w.slowDown(slow); w.limit != maxBatchBytes/2 {
		t.Errorf("after a timeout at most %d bytes", w.limit)
	}
	for range 20 {
		w.slowDown(slow)
	}
	if w.limit != minBatchBytes {
		t.Errorf("after many timeouts at most %d bytes", w.limit)
	}
	for range calmBatches - 1 {
		w.speedUp()
	}
	if w.limit != minBatchBytes {
		t.Errorf("before %d batches in time at most %d bytes", calmBatches, w.limit)
	}
	if w.speedUp(); w.limit != 2*minBatchBytes {
		t.Errorf("after %d batches in time at most %d bytes", calmBatches, w.limit)
	}
	for range 100 * calmBatches {
		w.speedUp()
	}
	if w.limit != maxBatchBytes {
		t.Errorf("after many batches in time at most %d bytes", w.limit)
	}
}
