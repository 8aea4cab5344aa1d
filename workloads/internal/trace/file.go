// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
)

// file is a path of a replay, and what file it is at the moment. An operation that is alone on the
// path has it to itself; the others share it by the lock.
type file struct {
	path *Path
	name filesys.Name

	lock       sync.Mutex
	done       sync.Cond // an operation is
	all, alone int32     // operations that are done
	opened     []int     // descriptors that the trace opened, the newest last
	hidden     int       // one that it did not; -1: none
	end        int64     // of the file
}

// wait waits until so many operations before are done: all, for one that is to be alone.
func (f *file) wait(after int32, alone bool, stopped *atomic.Bool) bool {
	f.lock.Lock()
	defer f.lock.Unlock()
	before := &f.alone
	if alone {
		before = &f.all
	}
	for *before < after && !stopped.Load() {
		f.done.Wait()
	}
	return !stopped.Load()
}

func (f *file) finish(alone bool) {
	f.lock.Lock()
	f.all++
	if alone {
		f.alone++
	}
	f.done.Broadcast()
	f.lock.Unlock()
}

func (f *file) grow(end int64) {
	f.lock.Lock()
	f.end = max(f.end, end)
	f.lock.Unlock()
}

// reserve gives where the next append goes.
func (f *file) reserve(bytes int64) int64 {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.end += bytes
	return f.end - bytes
}

func (f *file) pop() int {
	newest := len(f.opened) - 1
	descriptor := f.opened[newest]
	f.opened = f.opened[:newest]
	return descriptor
}

func (f *file) flags() int {
	if f.path.Folder {
		return unix.O_RDONLY | unix.O_DIRECTORY
	}
	return unix.O_RDWR
}

func (f *file) closeAll(system filesys.FS) {
	for _, descriptor := range f.opened {
		system.Close(descriptor)
	}
	if f.hidden >= 0 {
		system.Close(f.hidden)
	}
	f.opened, f.hidden = nil, -1
}
