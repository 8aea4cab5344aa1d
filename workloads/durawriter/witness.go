// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// secretVariable has what the witness knows the writer by: the arguments can be read by any user.
const secretVariable = "JOULERIG_WITNESS_SECRET"

// errStop is the witness's word that the writer has done enough.
var errStop = errors.New("the witness says stop")

// introduction is the writer's first line: the witness listens to no other connection.
type introduction struct {
	Event  string `json:"event"` // hello
	Secret string `json:"secret"`
}

// operation is what the writer is about to ask of the target.
type operation struct {
	Event     string `json:"event"` // issued
	Sequence  uint64 `json:"sequence"`
	Operation string `json:"operation"`
	Call      string `json:"call"` // what is really called for it
	Target    string `json:"target"`
	Offset    uint64 `json:"offset"`
	Bytes     uint64 `json:"bytes"`
	From      string `json:"from,omitempty"`    // a rename's old name
	Version   uint64 `json:"version,omitempty"` // sequence number of the content that a rename moves
}

// outcome is how an operation ended.
type outcome struct {
	Event    string `json:"event"` // acknowledged or failed
	Sequence uint64 `json:"sequence"`
	Error    string `json:"error,omitempty"`
}

// The operations of the ledger: docs/reference/protocols/power-cut.md.
const (
	opWrite        = "write"
	opDurableWrite = "durable-write"
	opFlush        = "flush"
	opCreate       = "create"
	opRename       = "rename"
	opFlushNames   = "flush-names"
)

// witness is the connection that every acknowledgement is reported to. It answers each line but
// those of issued operations, in order.
type witness struct {
	stream io.ReadWriteCloser

	lock    sync.Mutex
	waiting []chan error
	broken  error
}

// dialWitness connects to "tcp:HOST:PORT" or "unix:PATH"; "-" is standard output and input.
func dialWitness(address string) (*witness, error) {
	w := &witness{}
	if address == "-" {
		w.stream = standardStream{}
	} else {
		network, where, found := strings.Cut(address, ":")
		if !found || (network != "unix" && network != "tcp") || where == "" {
			return nil, fmt.Errorf("--witness: %q: expected tcp:HOST:PORT, unix:PATH or -", address)
		}
		connection, err := net.Dial(network, where)
		if err != nil {
			return nil, fmt.Errorf("--witness: %w", err)
		}
		w.stream = connection
	}
	go w.listen()
	if secret := os.Getenv(secretVariable); secret != "" {
		return w, w.say(introduction{"hello", secret})
	}
	return w, nil
}

// standardStream is the process's own input and output as one connection.
type standardStream struct{}

func (standardStream) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (standardStream) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (standardStream) Close() error                { return os.Stdout.Close() }

func (w *witness) listen() {
	lines := bufio.NewScanner(w.stream)
	for lines.Scan() {
		var answer error
		switch lines.Text() {
		case "ok":
		case "stop":
			answer = errStop
		default:
			answer = fmt.Errorf("the witness replied %q: expected ok or stop", lines.Text())
		}
		w.lock.Lock()
		if len(w.waiting) == 0 {
			w.lock.Unlock()
			break
		}
		w.waiting[0] <- answer
		w.waiting = w.waiting[1:]
		w.lock.Unlock()
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.broken = errors.New("the witness has gone")
	for _, answer := range w.waiting {
		answer <- w.broken
	}
	w.waiting = nil
}

// say sends a line that the witness does not answer. Lines arrive in the order they were said.
func (w *witness) say(what any) error {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.send(what)
}

// report sends a line and waits for the witness's own acknowledgement.
func (w *witness) report(what any) error {
	answer := make(chan error, 1)
	w.lock.Lock()
	if w.broken != nil {
		w.lock.Unlock()
		return w.broken
	}
	if err := w.send(what); err != nil {
		w.lock.Unlock()
		return err
	}
	w.waiting = append(w.waiting, answer)
	w.lock.Unlock()
	return <-answer
}

func (w *witness) send(what any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	_, err = w.stream.Write(append(line, '\n'))
	return err
}
