// SPDX-License-Identifier: GPL-3.0-or-later

package sntp

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

func serve(t *testing.T) net.Conn {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Serve(server, time.Now) }()
	client, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		server.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return client
}

func unix(t *testing.T, b []byte) time.Time {
	t.Helper()
	v := binary.BigEndian.Uint64(b)
	return time.Unix(int64(v>>32)-eraSeconds, int64((v&0xffffffff)*1e9>>32))
}

func TestAnswersWithTheTimesOfReceiptAndSending(t *testing.T) {
	client := serve(t)
	request := make([]byte, packetBytes)
	request[0] = 4<<3 | modeClient
	copy(request[40:], "origin!!")
	before := time.Now()
	if _, err := client.Write(request); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	client.SetReadDeadline(time.Now().Add(5 * time.Second))
	n, err := client.Read(answer)
	after := time.Now()
	if err != nil || n != packetBytes {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if answer[0] != 4<<3|modeServer || answer[1] < 1 || answer[1] > 15 {
		t.Errorf("leap, version, mode %#x, stratum %d", answer[0], answer[1])
	}
	if !bytes.Equal(answer[24:32], request[40:48]) {
		t.Error("the client's transmit time did not come back as origin")
	}
	received, sent := unix(t, answer[32:]), unix(t, answer[40:])
	const grain = time.Microsecond
	if received.Before(before.Add(-grain)) || sent.Before(received) || sent.After(after.Add(grain)) {
		t.Errorf("sent %v, received %v, answered %v, back %v", before, received, sent, after)
	}
}

func TestOnlyClientRequestsAreAnswered(t *testing.T) {
	client := serve(t)
	short := []byte{4<<3 | modeClient}
	fromServer := make([]byte, packetBytes)
	fromServer[0] = 4<<3 | modeServer // would ping-pong between two servers
	for _, bad := range [][]byte{short, fromServer, make([]byte, packetBytes)} {
		client.Write(bad)
	}
	client.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := client.Read(make([]byte, 100)); err == nil {
		t.Errorf("%d bytes came back", n)
	}
}
