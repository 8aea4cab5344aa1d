// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"sync/atomic"

	"joulerig/workloads/internal/sectortag"
)

// writer numbers operations and keeps the rule of the campaign: an operation is said before it is
// asked for, and its acknowledgement is reported to the witness, and the witness's answer awaited,
// before anything goes on.
type writer struct {
	witness    *witness
	campaign   sectortag.Campaign
	generation uint32
	last       atomic.Uint64
}

// targetFailed is a target that did not do what it was asked: after a power cut, it is gone.
type targetFailed struct {
	what operation
	err  error
}

func (e targetFailed) Error() string {
	return fmt.Sprintf("%s %d of %q: %v", e.what.Operation, e.what.Sequence, e.what.Target, e.err)
}

func (e targetFailed) Unwrap() error { return e.err }

// next is the number of the operation to come.
func (w *writer) next() uint64 { return w.last.Add(1) }

// do asks the target for one operation, with the witness looking on.
func (w *writer) do(what operation, ask func() error) error {
	what.Event = "issued"
	if err := w.witness.say(what); err != nil {
		return err
	}
	if err := ask(); err != nil {
		failed := targetFailed{what, err}
		// What the witness answers does not matter any more: the target is gone.
		reporting := w.witness.report(outcome{"failed", what.Sequence, err.Error()})
		if errors.Is(reporting, errStop) {
			return failed
		}
		return errors.Join(failed, reporting)
	}
	return w.witness.report(outcome{Event: "acknowledged", Sequence: what.Sequence})
}

// fill makes the content of a write.
func (w *writer) fill(data []byte, sequence uint64, target string, offset uint64) {
	sectortag.Fill(data, w.campaign, w.generation, sequence, sectortag.Place{Target: target, Offset: offset})
}
