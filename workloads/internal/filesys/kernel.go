// SPDX-License-Identifier: GPL-3.0-or-later

package filesys

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is the file system below a directory.
type Kernel struct{ directory int }

// OpenKernel opens the directory; names are resolved from it, however it is renamed or mounted
// over.
func OpenKernel(directory string) (*Kernel, error) {
	descriptor, err := unix.Open(directory, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", directory, err)
	}
	return &Kernel{descriptor}, nil
}

// Release closes the directory, not the files that were opened from it.
func (k *Kernel) Release() error { return unix.Close(k.directory) }

// named makes a call on a path: unix's own wrappers would allocate a copy of it each time.
func named(call uintptr, directory int, name Name, a, b uintptr) (int, error) {
	for {
		result, _, errno := unix.Syscall6(call, uintptr(directory),
			uintptr(unsafe.Pointer(&name.terminated[0])), a, b, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, errno
		}
		return int(result), nil
	}
}

// retryInterrupted repeats a call that a signal interrupted (the Go runtime uses signals).
func retryInterrupted(call func(int) error, descriptor int) error {
	for {
		if err := call(descriptor); err != unix.EINTR {
			return err
		}
	}
}

// Open opens or creates a file.
func (k *Kernel) Open(name Name, flags int, mode uint32) (int, error) {
	return named(unix.SYS_OPENAT, k.directory, name, uintptr(flags|unix.O_CLOEXEC), uintptr(mode))
}

// Close closes a descriptor; also an interrupted close has freed it.
func (k *Kernel) Close(descriptor int) error {
	if err := unix.Close(descriptor); err != unix.EINTR {
		return err
	}
	return nil
}

// transfer reads or writes; the offset is taken by the p calls only. 64-bit kernels take it as one
// argument.
func transfer(call uintptr, descriptor int, data []byte, offset int64) (int, error) {
	for {
		n, _, errno := unix.Syscall6(call, uintptr(descriptor),
			uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)), uintptr(offset), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, errno
		}
		return int(n), nil
	}
}

// Read reads at the descriptor's position.
func (k *Kernel) Read(descriptor int, data []byte) (int, error) {
	return transfer(unix.SYS_READ, descriptor, data, 0)
}

// Pread reads at an offset.
func (k *Kernel) Pread(descriptor int, data []byte, offset int64) (int, error) {
	return transfer(unix.SYS_PREAD64, descriptor, data, offset)
}

// Write writes at the descriptor's position.
func (k *Kernel) Write(descriptor int, data []byte) (int, error) {
	return transfer(unix.SYS_WRITE, descriptor, data, 0)
}

// Pwrite writes at an offset.
func (k *Kernel) Pwrite(descriptor int, data []byte, offset int64) (int, error) {
	return transfer(unix.SYS_PWRITE64, descriptor, data, offset)
}

// Seek moves the descriptor's position.
func (k *Kernel) Seek(descriptor int, offset int64, whence int) (int64, error) {
	return unix.Seek(descriptor, offset, whence)
}

// Fsync makes a file durable.
func (k *Kernel) Fsync(descriptor int) error { return retryInterrupted(unix.Fsync, descriptor) }

// Fdatasync makes a file's content durable.
func (k *Kernel) Fdatasync(descriptor int) error { return retryInterrupted(unix.Fdatasync, descriptor) }

// Truncate sets a file's size.
func (k *Kernel) Truncate(descriptor int, bytes int64) error {
	return unix.Ftruncate(descriptor, bytes)
}

// ReadAhead turns the kernel's reading ahead on or off.
func (k *Kernel) ReadAhead(descriptor int, on bool) error {
	advice := unix.FADV_RANDOM
	if on {
		advice = unix.FADV_NORMAL
	}
	return unix.Fadvise(descriptor, 0, 0, advice)
}

// Unlink removes a file.
func (k *Kernel) Unlink(name Name) error {
	_, err := named(unix.SYS_UNLINKAT, k.directory, name, 0, 0)
	return err
}

// Rmdir removes an empty directory.
func (k *Kernel) Rmdir(name Name) error {
	_, err := named(unix.SYS_UNLINKAT, k.directory, name, unix.AT_REMOVEDIR, 0)
	return err
}

// Mkdir makes a directory.
func (k *Kernel) Mkdir(name Name, mode uint32) error {
	_, err := named(unix.SYS_MKDIRAT, k.directory, name, uintptr(mode), 0)
	return err
}

// Rename renames a file.
func (k *Kernel) Rename(from, to Name) error {
	_, _, errno := unix.Syscall6(unix.SYS_RENAMEAT2,
		uintptr(k.directory), uintptr(unsafe.Pointer(&from.terminated[0])),
		uintptr(k.directory), uintptr(unsafe.Pointer(&to.terminated[0])), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Stat returns a file's size. It is statx, which every architecture has.
func (k *Kernel) Stat(name Name) (int64, error) {
	var found unix.Statx_t
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(k.directory),
		uintptr(unsafe.Pointer(&name.terminated[0])), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS,
		uintptr(unsafe.Pointer(&found)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int64(found.Size), nil
}

// Fstat returns an open file's size.
func (k *Kernel) Fstat(descriptor int) (int64, error) {
	var found unix.Stat_t
	err := unix.Fstat(descriptor, &found)
	return found.Size, err
}

// ReadDir reads the next entries of an open directory.
func (k *Kernel) ReadDir(descriptor int, data []byte) (int, error) {
	return unix.Getdents(descriptor, data)
}

// SyncAll writes all that is dirty of the directory's file system.
func (k *Kernel) SyncAll() error { return unix.Syncfs(k.directory) }
