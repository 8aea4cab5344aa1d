// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// reporter reports troubles, each once: a source that fails ten times a second must not fill the
// host's log.
type reporter struct {
	mu   sync.Mutex
	out  io.Writer
	open map[string]trouble
}

type trouble struct {
	text string
	at   time.Time
}

// repeatAfter is how soon a trouble with another text may be reported again.
const repeatAfter = 10 * time.Second

func newReporter(out io.Writer) *reporter {
	return &reporter{out: out, open: map[string]trouble{}}
}

// say writes a line.
func (r *reporter) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "iod: "+format+"\n", args...)
}

// trouble reports what is wrong with the subject, unless it has done so.
func (r *reporter) trouble(subject, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, reported := r.open[subject]
	if reported && (last.text == text || time.Since(last.at) < repeatAfter) {
		return
	}
	r.open[subject] = trouble{text, time.Now()}
	fmt.Fprintf(r.out, "iod: %s: %s\n", subject, text)
}

// well says that the subject works again, if it was in trouble.
func (r *reporter) well(subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, reported := r.open[subject]; reported {
		delete(r.open, subject)
		fmt.Fprintf(r.out, "iod: %s: works again\n", subject)
	}
}
