// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import (
	"sync"

	"joulerig/workloads/internal/filesys"
)

// File is a file, or an empty directory, that a set may have. Its state is the pool's.
type File struct {
	Name  filesys.Name
	Size  int64 // as laid out, in bytes
	index int
	open  int // descriptors that the threads have of it
}

// Pool is a set's files, or its leaf directories, and the state of each: it exists or it is free,
// and a thread may be busy with it. A busy one is taken by no other thread. All methods may be
// called by any thread.
type Pool struct {
	files []*File

	lock     sync.Mutex
	idle     [2]bitmap // those that no thread is busy with, by state
	rotor    [2]int    // where the next search begins, by state
	busy     int
	existing int // also busy ones
	waiting  int
	notBusy  sync.Cond
}

// The states of a file.
const (
	Free   = 0 // can be created
	Exists = 1
)

func newPool(files []*File) *Pool {
	p := &Pool{files: files, idle: [2]bitmap{newBitmap(len(files)), newBitmap(len(files))}}
	p.notBusy.L = &p.lock
	for _, f := range files {
		p.idle[Free].add(f.index)
	}
	return p
}

// Len is how many files there can be.
func (p *Pool) Len() int { return len(p.files) }

// Existing is how many files there are.
func (p *Pool) Existing() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.existing
}

// Take takes the next file in a state, by rotation. It waits where other threads are busy with all
// there are, and gives nil where there is none.
func (p *Pool) Take(state int) *File { return p.TakeNext(state, &p.rotor[state]) }

// TakeNext is Take with a rotation of the caller's own.
func (p *Pool) TakeNext(state int, rotor *int) *File {
	p.lock.Lock()
	f := p.wait(state, rotor)
	if f != nil {
		*rotor = f.index + 1
	}
	p.lock.Unlock()
	return f
}

// TakeAt takes the file with this number, or the next one that is in the state.
func (p *Pool) TakeAt(state, index int) *File {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.wait(state, &index)
}

func (p *Pool) wait(state int, start *int) *File {
	for {
		if i := p.idle[state].next(*start); i >= 0 {
			return p.take(state, i)
		}
		if p.busy == 0 {
			return nil
		}
		p.waiting++
		p.notBusy.Wait()
		p.waiting--
	}
}

func (p *Pool) take(state, i int) *File {
	p.idle[state].remove(i)
	p.busy++
	return p.files[i]
}

// TakeClosed takes the next existing file that no thread has open, by rotation; nil where there is
// none.
func (p *Pool) TakeClosed() *File {
	p.lock.Lock()
	defer p.lock.Unlock()
	f := p.takeClosed(p.rotor[Exists])
	if f != nil {
		p.rotor[Exists] = f.index + 1
	}
	return f
}

// TakeClosedAt takes the file with this number, or the next one that exists and that no thread has
// open.
func (p *Pool) TakeClosedAt(index int) *File {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.takeClosed(index)
}

func (p *Pool) takeClosed(start int) *File {
	for range p.files {
		i := p.idle[Exists].next(start)
		if i < 0 {
			return nil
		}
		if p.files[i].open == 0 {
			return p.take(Exists, i)
		}
		start = i + 1
	}
	return nil
}

// TakeThis takes a file if it exists, no thread is busy with it, and it is open no more than some
// times.
func (p *Pool) TakeThis(f *File, open int) bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if !p.idle[Exists].has(f.index) || f.open > open {
		return false
	}
	p.take(Exists, f.index)
	return true
}

// Put gives back a file that was taken from one state into another, opened some times more.
func (p *Pool) Put(f *File, from, to, opened int) {
	p.lock.Lock()
	f.open += opened
	p.idle[to].add(f.index)
	p.existing += to - from
	p.busy--
	if p.waiting > 0 {
		p.notBusy.Broadcast()
	}
	p.lock.Unlock()
}

// Closed reports that a thread has closed a file.
func (p *Pool) Closed(f *File) {
	p.lock.Lock()
	f.open--
	p.lock.Unlock()
}
