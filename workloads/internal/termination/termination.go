// SPDX-License-Identifier: GPL-3.0-or-later

// Package termination ends a load: exit codes, signals, and whether it completed, failed or was
// interrupted.
package termination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Exit codes.
const (
	OK          = 0
	Failed      = 1 // one line on stderr says why
	Usage       = 2
	Interrupted = 130
)

// How a load ended, as its report says it.
const (
	EndedCompleted   = "completed"
	EndedFailed      = "failed"
	EndedInterrupted = "interrupted"
)

// ErrInterrupted is the cause of a context that a signal, or the parent's death, ended.
var ErrInterrupted = errors.New("interrupted")

// Context returns a context that ends with SIGINT, SIGTERM or SIGHUP, and, if withParent, when the
// process that started this one is gone. A second signal kills. Call release when the load is over.
func Context(withParent bool) (ctx context.Context, release func(), err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	release = func() { cancel(nil) }
	if withParent {
		// The kernel keeps it with the thread, which must not end before the load.
		runtime.LockOSThread()
		release = func() { cancel(nil); runtime.UnlockOSThread() }
		parent := unix.Getppid()
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
			signal.Stop(signals)
			return nil, nil, fmt.Errorf("--with-parent: %w", err)
		}
		if unix.Getppid() != parent { // died before the kernel knew that it matters
			cancel(ErrInterrupted)
		}
	}
	go func() {
		select {
		case <-signals:
			cancel(ErrInterrupted)
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, release, nil
}

// Flag returns what becomes true when ctx is done: cheaper to ask before each operation than ctx.
func Flag(ctx context.Context) *atomic.Bool {
	done := &atomic.Bool{}
	context.AfterFunc(ctx, func() { done.Store(true) })
	return done
}

// Classify says how a load ended, by what it returned and the context of Context; the error is nil
// unless it failed. A request to end is no error.
func Classify(ctx context.Context, err error) (ended string, failure error) {
	asked := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrInterrupted)
	switch {
	case err != nil && !asked:
		return EndedFailed, err
	case errors.Is(context.Cause(ctx), ErrInterrupted):
		return EndedInterrupted, nil
	default:
		return EndedCompleted, nil
	}
}

// Code is the exit code of a load that ended so.
func Code(ended string) int {
	switch ended {
	case EndedCompleted:
		return OK
	case EndedInterrupted:
		return Interrupted
	default:
		return Failed
	}
}

// Refuse says on one line why a command cannot do what it was asked, and gives the exit code.
func Refuse(stderr io.Writer, command string, err error, code int) int {
	fmt.Fprintf(stderr, "%s: %s\n", command, OneLine(err))
	return code
}

// OneLine is an error's text on one line.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
