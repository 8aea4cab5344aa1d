// SPDX-License-Identifier: GPL-3.0-or-later

package filesys

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func kernel(t *testing.T) (*Kernel, string) {
	t.Helper()
	directory := t.TempDir()
	k, err := OpenKernel(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Release() })
	return k, directory
}

func name(t testing.TB, path string) Name {
	t.Helper()
	n, err := NewName(path)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func failOn(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachCallDoesWhatItsNameSays(t *testing.T) {
	k, directory := kernel(t)
	file, other := name(t, "d/file"), name(t, "d/other")
	failOn(t, k.Mkdir(name(t, "d"), 0o755))
	d, err := k.Open(file, unix.O_CREAT|unix.O_RDWR, 0o644)
	failOn(t, err)
	failOn(t, WriteAll(k, d, []byte("abcdef")))
	if n, err := k.Pwrite(d, []byte("XY"), 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if position, err := k.Seek(d, 1, io.SeekStart); position != 1 || err != nil {
		t.Fatal(position, err)
	}
	data := make([]byte, 10)
	if n, err := k.Read(d, data); string(data[:n]) != "bXYef" || err != nil {
		t.Fatalf("%q %v", data[:n], err)
	}
	if n, err := k.Read(d, data); n != 0 || err != nil {
		t.Fatal("the end of the file is no error", n, err)
	}
	if n, err := k.Pread(d, data, 4); string(data[:n]) != "ef" || err != nil {
		t.Fatalf("%q %v", data[:n], err)
	}
	failOn(t, k.ReadAhead(d, false))
	failOn(t, k.Fsync(d))
	failOn(t, k.Fdatasync(d))
	failOn(t, k.Truncate(d, 3))
	if size, err := k.Fstat(d); size != 3 || err != nil {
		t.Fatal(size, err)
	}
	if size, err := k.Stat(file); size != 3 || err != nil {
		t.Fatal(size, err)
	}
	failOn(t, k.Close(d))
	failOn(t, k.Rename(file, other))
	if content, err := os.ReadFile(filepath.Join(directory, "d/other")); string(content) != "abX" || err != nil {
		t.Fatalf("%q %v", content, err)
	}
	d, err = k.Open(name(t, "d"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	failOn(t, err)
	if n, err := k.ReadDir(d, make([]byte, 4096)); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	failOn(t, k.Close(d))
	failOn(t, k.SyncAll())
	failOn(t, k.Unlink(other))
	failOn(t, k.Rmdir(name(t, "d")))
	if left, err := os.ReadDir(directory); len(left) != 0 || err != nil {
		t.Fatal(left, err)
	}
}

func TestAnErrorNamesCallAndFile(t *testing.T) {
	k, _ := kernel(t)
	missing := name(t, "a/b")
	for call, do := range map[string]func() error{
		"open":   func() error { _, err := k.Open(missing, unix.O_RDONLY, 0); return err },
		"unlink": func() error { return k.Unlink(missing) },
		"rmdir":  func() error { return k.Rmdir(missing) },
		"mkdir":  func() error { return k.Mkdir(missing, 0o755) },
		"rename": func() error { return k.Rename(missing, missing) },
		"stat":   func() error { _, err := k.Stat(missing); return err },
	} {
		err := Error(call, missing, do())
		if want := call + " a/b: no such file or directory"; err == nil || err.Error() != want {
			t.Errorf("%v, expected %s", err, want)
		}
		if !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: the kernel's error is lost: %v", call, err)
		}
	}
	if Error("open", missing, nil) != nil {
		t.Error("success became an error")
	}
}

func TestANameStaysBelowTheDirectory(t *testing.T) {
	for _, path := range []string{"/etc/passwd", "..", "a/../../b", "a//b", "a/", "./a", "a\x00b"} {
		if _, err := NewName(path); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
	if n := name(t, ""); n.String() != "." {
		t.Errorf("the directory itself is %q", n)
	}
}

func TestADirectoryThatIsNoneIsNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	if _, err := OpenKernel(missing); err == nil || err.Error() != "directory "+missing+": no such file or directory" {
		t.Error(err)
	}
}

// shortWriter takes one byte at once, and none after a while.
type shortWriter struct {
	Null
	left int
}

func (s *shortWriter) Write(int, []byte) (int, error) {
	if s.left == 0 {
		return 0, nil
	}
	s.left--
	return 1, nil
}

func (s *shortWriter) Pwrite(descriptor int, data []byte, _ int64) (int, error) {
	return s.Write(descriptor, data)
}

func TestAShortWriteIsGoneOnWithUntilNothingIsTaken(t *testing.T) {
	for name, write := range map[string]func(FS) error{
		"WriteAll":  func(f FS) error { return WriteAll(f, 0, make([]byte, 3)) },
		"PwriteAll": func(f FS) error { return PwriteAll(f, 0, make([]byte, 3), 0) },
	} {
		failOn(t, write(&shortWriter{left: 3}))
		if err := write(&shortWriter{left: 2}); !errors.Is(err, unix.EIO) {
			t.Error(name, err)
		}
	}
}

func TestABufferSuitsDirectIO(t *testing.T) {
	data, err := Buffer(5000)
	failOn(t, err)
	if len(data) != 5000 || uintptr(unsafe.Pointer(&data[0]))%4096 != 0 {
		t.Errorf("%d bytes at %p", len(data), &data[0])
	}
	failOn(t, Free(data))
	failOn(t, Free(nil))
}

func TestAnOperationAllocatesNothing(t *testing.T) {
	k, _ := kernel(t)
	var system FS = k
	file, data := name(t, "file"), make([]byte, 100)
	allocations := testing.AllocsPerRun(100, func() {
		d, err := system.Open(file, unix.O_CREAT|unix.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		system.Write(d, data)
		system.Pread(d, data, 0)
		system.Fstat(d)
		system.Fsync(d)
		system.Close(d)
		system.Stat(file)
		system.Unlink(file)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
