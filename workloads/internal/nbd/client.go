// SPDX-License-Identifier: GPL-3.0-or-later

// Package nbd is a client of a network block device, small on purpose: fixed newstyle handshake
// with NBD_OPT_GO, simple replies, and only the commands that decide what is durable: read, write,
// write with FUA, flush. Its calls may be made from many goroutines at once; each is a separate
// request in flight. The protocol: github.com/NetworkBlockDevice/nbd, doc/proto.md.
package nbd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
)

const (
	initMagic   = 0x4e42444d41474943 // "NBDMAGIC"
	optionMagic = 0x49484156454f5054 // "IHAVEOPT"
	optionReply = 0x0003e889045565a9
	requestMark = 0x25609513
	replyMark   = 0x67446698

	flagFixedNewstyle = 1 << 0
	flagNoZeroes      = 1 << 1

	optionGo        = 7
	replyAck        = 1
	replyInfo       = 3
	replyErrorBit   = 1 << 31
	infoExport      = 0
	exportHasFlags  = 1 << 0
	exportReadOnly  = 1 << 1
	exportSendFlush = 1 << 2
	exportSendFUA   = 1 << 3

	commandRead       = 0
	commandWrite      = 1
	commandDisconnect = 2
	commandFlush      = 3
	commandFlagFUA    = 1 << 0

	// A reply of the negotiation that claims more than this is not one.
	maxOptionReply = 64 << 10
	// What every server takes in one request.
	maxTransfer = 32 << 20
)

// Client is a connection to one export.
type Client struct {
	connection net.Conn
	size       int64
	flags      uint16

	sending sync.Mutex // of whole requests

	waiting sync.Mutex // guards what follows
	pending map[uint64]*request
	next    uint64
	broken  error
}

type request struct {
	into []byte // where a read's data go
	done chan error
}

// Dial connects to "unix:PATH" or "tcp:HOST:PORT" and opens the export.
func Dial(address, export string) (*Client, error) {
	network, where, found := strings.Cut(address, ":")
	if !found || (network != "unix" && network != "tcp") || where == "" {
		return nil, fmt.Errorf("%q: expected unix:PATH or tcp:HOST:PORT", address)
	}
	connection, err := net.Dial(network, where)
	if err != nil {
		return nil, err
	}
	c := &Client{connection: connection, pending: map[uint64]*request{}}
	if err := c.handshake(export); err != nil {
		connection.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	go c.receive()
	return c, nil
}

// Size of the export in bytes.
func (c *Client) Size() int64 { return c.size }

func (c *Client) handshake(export string) error {
	var greeting struct {
		Init, Option uint64
		Flags        uint16
	}
	if err := binary.Read(c.connection, binary.BigEndian, &greeting); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if greeting.Init != initMagic || greeting.Option != optionMagic || greeting.Flags&flagFixedNewstyle == 0 {
		return errors.New("handshake: no fixed newstyle NBD server")
	}
	message := binary.BigEndian.AppendUint32(nil, flagFixedNewstyle|flagNoZeroes&uint32(greeting.Flags))
	message = binary.BigEndian.AppendUint64(message, optionMagic)
	message = binary.BigEndian.AppendUint32(message, optionGo)
	message = binary.BigEndian.AppendUint32(message, uint32(4+len(export)+2))
	message = binary.BigEndian.AppendUint32(message, uint32(len(export)))
	message = append(message, export...)
	message = binary.BigEndian.AppendUint16(message, 0) // no information beyond what always comes
	if _, err := c.connection.Write(message); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	for {
		var head struct {
			Magic        uint64
			Option, Type uint32
			Length       uint32
		}
		if err := binary.Read(c.connection, binary.BigEndian, &head); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		if head.Magic != optionReply || head.Option != optionGo || head.Length > maxOptionReply {
			return errors.New("handshake: the server's reply is not the protocol's")
		}
		body := make([]byte, head.Length)
		if _, err := io.ReadFull(c.connection, body); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		switch {
		case head.Type == replyAck:
			return c.checkExport()
		case head.Type&replyErrorBit != 0:
			return fmt.Errorf("export %q: the server refuses it (error %d): %s", export, head.Type&^uint32(replyErrorBit), body)
		case head.Type == replyInfo && len(body) == 12 && binary.BigEndian.Uint16(body) == infoExport:
			c.size = int64(binary.BigEndian.Uint64(body[2:]))
			c.flags = binary.BigEndian.Uint16(body[10:])
		}
	}
}

func (c *Client) checkExport() error {
	for _, need := range []struct {
		there bool
		what  string
	}{
		{c.flags&exportHasFlags != 0, "says which flags it knows"},
		{c.flags&exportReadOnly == 0, "can be written"},
		{c.flags&exportSendFlush != 0, "can flush"},
		{c.flags&exportSendFUA != 0, "can write with FUA"},
	} {
		if !need.there {
			return fmt.Errorf("the export is not one that %s: nothing durable can be asked of it", need.what)
		}
	}
	return nil
}

// ReadAt fills data from offset on.
func (c *Client) ReadAt(data []byte, offset int64) error {
	return c.transfer(commandRead, 0, offset, data)
}

// WriteAt writes data at offset; durable asks for FUA: it is acknowledged only when it is on stable
// media.
func (c *Client) WriteAt(data []byte, offset int64, durable bool) error {
	flags := uint16(0)
	if durable {
		flags = commandFlagFUA
	}
	return c.transfer(commandWrite, flags, offset, data)
}

// Flush makes durable what was acknowledged before it.
func (c *Client) Flush() error { return c.transfer(commandFlush, 0, 0, nil) }

// Close ends the connection.
func (c *Client) Close() error {
	c.sending.Lock()
	_, _ = c.connection.Write(head(commandDisconnect, 0, 0, 0, 0))
	c.sending.Unlock()
	return c.connection.Close()
}

func head(command, flags uint16, cookie uint64, offset int64, length int) []byte {
	message := binary.BigEndian.AppendUint32(make([]byte, 0, 28+length), requestMark)
	message = binary.BigEndian.AppendUint16(message, flags)
	message = binary.BigEndian.AppendUint16(message, command)
	message = binary.BigEndian.AppendUint64(message, cookie)
	message = binary.BigEndian.AppendUint64(message, uint64(offset))
	return binary.BigEndian.AppendUint32(message, uint32(length))
}

func (c *Client) transfer(command, flags uint16, offset int64, data []byte) error {
	if len(data) > maxTransfer {
		return fmt.Errorf("%d bytes in one request: at most %d", len(data), maxTransfer)
	}
	r := &request{done: make(chan error, 1)}
	if command == commandRead {
		r.into = data
	}
	cookie, err := c.register(r)
	if err != nil {
		return err
	}
	message := head(command, flags, cookie, offset, len(data))
	if command == commandWrite {
		message = append(message, data...)
	}
	c.sending.Lock()
	_, err = c.connection.Write(message)
	c.sending.Unlock()
	if err != nil {
		c.fail(err)
	}
	return <-r.done
}

func (c *Client) register(r *request) (uint64, error) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if c.broken != nil {
		return 0, c.broken
	}
	c.next++
	c.pending[c.next] = r
	return c.next, nil
}

func (c *Client) receive() {
	stream := bufio.NewReaderSize(c.connection, 1<<16)
	for {
		var reply struct {
			Magic, Error uint32
			Cookie       uint64
		}
		if err := binary.Read(stream, binary.BigEndian, &reply); err != nil {
			c.fail(fmt.Errorf("the server has gone: %w", err))
			return
		}
		c.waiting.Lock()
		r := c.pending[reply.Cookie]
		delete(c.pending, reply.Cookie)
		c.waiting.Unlock()
		if reply.Magic != replyMark || r == nil {
			c.fail(errors.New("the server's reply is not the protocol's"))
			return
		}
		if reply.Error != 0 {
			r.done <- syscall.Errno(reply.Error) // the protocol's numbers are Linux's
			continue
		}
		if r.into != nil {
			if _, err := io.ReadFull(stream, r.into); err != nil {
				r.done <- err
				c.fail(err)
				return
			}
		}
		r.done <- nil
	}
}

// fail ends every request in flight, and all to come, with the error.
func (c *Client) fail(err error) {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if c.broken == nil {
		c.broken = err
	}
	for cookie, r := range c.pending {
		delete(c.pending, cookie)
		r.done <- c.broken
	}
}
