// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"joulerig/collectors/lineprotocol"
)

// maxDatagramBytes is what fits into a unix datagram with Linux's default send buffer
// (net.core.wmem_default).
const maxDatagramBytes = 212992

// sendNow is the datagram that asks for a count of now, sent at once with what was counted before.
const sendNow = "send\n"

// inlet takes line protocol from other programs of the host.
type inlet struct {
	conn   *net.UnixConn
	ending atomic.Bool // what is in the queue is taken, and no more waited for
	done   chan struct{}
}

// openInlet binds the socket. A socket without a listener is what a killed agent left; anything
// else at that path is not ours to remove.
func openInlet(path string) (*inlet, error) {
	address := &net.UnixAddr{Name: path, Net: "unixgram"}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("socket: %s: is not a socket: expected a free path", path)
		}
		if conn, err := net.DialUnix("unixgram", nil, address); err == nil {
			conn.Close()
			return nil, fmt.Errorf("socket: %s: another process listens on it: expected a separate path for each agent", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("socket: %w", err)
		}
	}
	conn, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		conn.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return &inlet{conn: conn, done: make(chan struct{})}, nil
}

// receive spools datagrams until the inlet is drained. A datagram is taken whole or not at all.
func (in *inlet) receive(spool func([]byte) bool, send func(), refused func(lines int, reason string)) {
	defer close(in.done)
	// Grown on demand: most datagrams are a line or two.
	buf := make([]byte, 8<<10)
	for {
		n, whole, err := in.next(&buf)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) { // it only ended a wait
				_ = in.conn.SetReadDeadline(time.Time{})
				continue
			}
			if errors.Is(err, syscall.EAGAIN) || errors.Is(err, net.ErrClosed) {
				return
			}
			refused(0, err.Error())
			time.Sleep(100 * time.Millisecond)
			continue
		}
		datagram := buf[:n]
		if string(datagram) == sendNow {
			send()
			continue
		}
		lines := max(1, bytes.Count(datagram, []byte{'\n'}))
		if !whole {
			refused(lines, fmt.Sprintf("a datagram is longer than %d bytes", maxDatagramBytes))
		} else if err := lineprotocol.CheckLines(datagram); err != nil {
			refused(lines, err.Error())
		} else {
			spool(datagram)
		}
	}
}

// next receives one datagram, into a larger buffer if it needs one.
func (in *inlet) next(buf *[]byte) (n int, whole bool, err error) {
	raw, err := in.conn.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	var size int
	var peekErr error
	err = raw.Read(func(fd uintptr) bool {
		// MSG_TRUNC makes the kernel tell the true length. The call does not wait, so no signal ends it.
		size, _, peekErr = syscall.Recvfrom(int(fd), nil, syscall.MSG_PEEK|syscall.MSG_TRUNC|syscall.MSG_DONTWAIT)
		return in.ending.Load() || peekErr != syscall.EAGAIN
	})
	if err != nil {
		return 0, false, err
	}
	if peekErr != nil {
		return 0, false, peekErr
	}
	if size > len(*buf) && size <= maxDatagramBytes {
		*buf = make([]byte, size)
	}
	n, _, flags, _, err := in.conn.ReadMsgUnix(*buf, nil)
	return n, flags&syscall.MSG_TRUNC == 0, err
}

// drain takes what is already in the socket's queue, then closes it.
func (in *inlet) drain() {
	in.end()
	<-in.done
	in.conn.Close()
}

// end has receive return once the queue is empty.
func (in *inlet) end() {
	in.ending.Store(true)
	_ = in.conn.SetReadDeadline(time.Now())
}
