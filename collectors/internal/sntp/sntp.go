// SPDX-License-Identifier: GPL-3.0-or-later

// Package sntp answers SNTP requests (RFC 5905) from the controller's clock, so that test
// hosts can measure how far their clocks are from it. It disciplines nothing and claims no
// reference: its stratum is that of an undisciplined local clock.
package sntp

import (
	"encoding/binary"
	"errors"
	"net"
	"time"
)

const (
	packetBytes = 48
	modeClient  = 3
	modeServer  = 4
	stratum     = 10
	precision   = -20 // 2^-20 s, about a microsecond
	// From the NTP era (1900) to the Unix epoch.
	eraSeconds = 2208988800
)

// Serve answers on conn, with the time by now, until it is closed.
func Serve(conn net.PacketConn, now func() time.Time) error {
	var in [512]byte
	var out [packetBytes]byte
	for {
		n, from, err := conn.ReadFrom(in[:])
		received := now()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if !reply(out[:], in[:n], received) {
			continue
		}
		binary.BigEndian.PutUint64(out[40:], timestamp(now()))
		// A client that has gone is its own affair.
		_, _ = conn.WriteTo(out[:], from)
	}
}

// reply fills out for the request, but for its transmit time; false where there is nothing to
// answer.
func reply(out, request []byte, received time.Time) bool {
	if len(request) < packetBytes || request[0]&7 != modeClient {
		return false
	}
	version := request[0] >> 3 & 7
	if version < 1 || version > 4 {
		return false
	}
	clear(out)
	out[0] = version<<3 | modeServer
	out[1] = stratum
	out[2] = request[2] // poll interval
	out[3] = byte(precision & 0xff)
	copy(out[12:16], "LOCL")
	binary.BigEndian.PutUint64(out[16:], timestamp(received))
	copy(out[24:32], request[40:48]) // the client's transmit time, as it came
	binary.BigEndian.PutUint64(out[32:], timestamp(received))
	return true
}

// timestamp is t in NTP's 32.32 fixed point.
func timestamp(t time.Time) uint64 {
	ns := t.UnixNano()
	seconds, rest := ns/1e9, ns%1e9
	return uint64(seconds+eraSeconds)<<32 | uint64(rest)<<32/1e9
}
