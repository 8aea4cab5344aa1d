// SPDX-License-Identifier: GPL-3.0-or-later

package nbd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"joulerig/tests/support/wait"
)

// serve starts a real NBD server with the plugin and gives its address.
func serve(t *testing.T, words ...string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "nbd")
	server := exec.Command("nbdkit", append([]string{"--foreground", "--exit-with-parent", "--unix", socket}, words...)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	wait.For(t, 5*time.Second, "nbdkit listens", func() bool {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return "unix:" + socket
}

func dial(t *testing.T, words ...string) *Client {
	t.Helper()
	client, err := Dial(serve(t, words...), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestWhatIsWrittenReadsBack(t *testing.T) {
	client := dial(t, "memory", "1M")
	if client.Size() != 1<<20 {
		t.Fatalf("size %d", client.Size())
	}
	for i, durable := range []bool{false, true} {
		data, back := bytes.Repeat([]byte{byte(i + 1)}, 1536), make([]byte, 1536)
		if err := client.WriteAt(data, 512, durable); err != nil {
			t.Fatal(err)
		}
		if err := client.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := client.ReadAt(back, 512); err != nil || !bytes.Equal(data, back) {
			t.Fatalf("durable %v: %v, %x", durable, err, back[:4])
		}
	}
}

func TestRequestsOverlap(t *testing.T) {
	client := dial(t, "--filter=delay", "memory", "1M", "wdelay=100ms")
	began := time.Now()
	var group sync.WaitGroup
	for i := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := client.WriteAt(bytes.Repeat([]byte{byte(i)}, 4096), int64(i)*4096, false); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	if took := time.Since(began); took > 700*time.Millisecond {
		t.Errorf("8 writes of 100 ms each took %v", took)
	}
	for i := range 8 {
		back := make([]byte, 4096)
		if err := client.ReadAt(back, int64(i)*4096); err != nil || back[0] != byte(i) || back[4095] != byte(i) {
			t.Errorf("slot %d: %v, %d", i, err, back[0])
		}
	}
}

func TestAFailedRequestReturnsItsErrorAndTheConnectionGoesOn(t *testing.T) {
	client := dial(t, "--filter=error", "memory", "1M", "error-pwrite=EIO", "error-pwrite-rate=100%")
	if err := client.WriteAt(make([]byte, 512), 0, false); !errors.Is(err, syscall.EIO) {
		t.Errorf("write: %v, expected EIO", err)
	}
	if err := client.ReadAt(make([]byte, 512), 0); err != nil {
		t.Errorf("read after it: %v", err)
	}
}

func TestAnExportThatCannotPromiseIsRefused(t *testing.T) {
	address := serve(t, "--readonly", "memory", "1M")
	if _, err := Dial(address, ""); err == nil || !strings.Contains(err.Error(), "can be written") {
		t.Errorf("read-only export: %v", err)
	}
	address = serve(t, "eval", "get_size=echo 1048576", "pread=exit 1", "can_write=exit 0", "pwrite=exit 1",
		"can_flush=exit 0", "flush=exit 0", "can_fua=echo none")
	if _, err := Dial(address, ""); err == nil || !strings.Contains(err.Error(), "FUA") {
		t.Errorf("export without FUA: %v", err)
	}
}

func TestAServerThatGoesEndsEveryRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		greet(connection)
		read := make([]byte, 28)
		_, _ = connection.Read(read)
		connection.Close()
	}()
	client, err := Dial("tcp:"+listener.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Flush(); err == nil {
		t.Error("a flush without a reply is acknowledged")
	}
	if err := client.Flush(); err == nil {
		t.Error("a flush after it is acknowledged")
	}
}

// greet does a server's half of the handshake for an export of 1 MiB.
func greet(connection net.Conn) {
	message := binary.BigEndian.AppendUint64(nil, initMagic)
	message = binary.BigEndian.AppendUint64(message, optionMagic)
	message = binary.BigEndian.AppendUint16(message, flagFixedNewstyle|flagNoZeroes)
	_, _ = connection.Write(message)
	_, _ = connection.Read(make([]byte, 256)) // flags and NBD_OPT_GO
	reply := func(kind uint32, body []byte) {
		message := binary.BigEndian.AppendUint64(nil, optionReply)
		message = binary.BigEndian.AppendUint32(message, optionGo)
		message = binary.BigEndian.AppendUint32(message, kind)
		message = binary.BigEndian.AppendUint32(message, uint32(len(body)))
		_, _ = connection.Write(append(message, body...))
	}
	export := binary.BigEndian.AppendUint16(nil, infoExport)
	export = binary.BigEndian.AppendUint64(export, 1<<20)
	export = binary.BigEndian.AppendUint16(export, exportHasFlags|exportSendFlush|exportSendFUA)
	reply(replyInfo, export)
	reply(replyAck, nil)
}

func TestAnAddressIsCheckedFirst(t *testing.T) {
	for _, address := range []string{"", "unix:", "ftp:host:1", "/some/path"} {
		if _, err := Dial(address, ""); err == nil || !strings.Contains(err.Error(), "expected unix:PATH") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
