// SPDX-License-Identifier: GPL-3.0-or-later

package termination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/tests/support/wait"
)

func TestHowALoadEndsAndItsExitCode(t *testing.T) {
	going := t.Context()
	interrupted, cancel := context.WithCancelCause(going)
	cancel(ErrInterrupted)
	full := fmt.Errorf("write a: %w", unix.ENOSPC)
	for _, c := range []struct {
		what  string
		ctx   context.Context
		err   error
		ended string
		code  int
	}{
		{"by itself", going, nil, EndedCompleted, OK},
		{"its time was up", going, context.DeadlineExceeded, EndedCompleted, OK},
		{"asked to", interrupted, context.Canceled, EndedInterrupted, Interrupted},
		{"asked to, and no output", interrupted, nil, EndedInterrupted, Interrupted},
		{"a failure", going, full, EndedFailed, Failed},
		{"a failure, when it was asked to", interrupted, full, EndedFailed, Failed},
	} {
		ended, failure := Classify(c.ctx, c.err)
		if ended != c.ended || Code(ended) != c.code {
			t.Errorf("%s: %s, exit %d", c.what, ended, Code(ended))
		}
		if (failure != nil) != (ended == EndedFailed) {
			t.Errorf("%s: %v", c.what, failure)
		}
	}
}

func TestASignalEndsTheContext(t *testing.T) {
	for _, withParent := range []bool{false, true} {
		ctx, release, err := Context(withParent)
		if err != nil {
			t.Fatal(err)
		}
		stopped := Flag(ctx)
		unix.Kill(unix.Getpid(), unix.SIGTERM)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
			t.Fatal("it goes on")
		}
		if cause := context.Cause(ctx); !errors.Is(cause, ErrInterrupted) {
			t.Errorf("with parent %v: %v", withParent, cause)
		}
		wait.For(t, 20*time.Second, "the flag says that it ends", stopped.Load)
		release()
	}
}

func TestRefuseSaysOneLine(t *testing.T) {
	var stderr bytes.Buffer
	if code := Refuse(&stderr, "flowop x", errors.New("a\nb  c"), Usage); code != Usage || stderr.String() != "flowop x: a b c\n" {
		t.Errorf("%d, %q", code, stderr.String())
	}
}
