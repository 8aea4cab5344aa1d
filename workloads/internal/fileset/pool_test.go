// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// pool has n files of which the first ones exist.
func pool(n, existing int) *Pool {
	var files []*File
	for i := range n {
		files = append(files, &File{index: i})
	}
	p := newPool(files)
	for i := range existing {
		p.idle[Free].remove(i)
		p.idle[Exists].add(i)
	}
	p.existing = existing
	return p
}

func indexes(files ...*File) (is []int) {
	for _, f := range files {
		if f == nil {
			is = append(is, -1)
		} else {
			is = append(is, f.index)
		}
	}
	return is
}

func want(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Errorf("%s: %v, expected %v", what, got, want)
			return
		}
	}
}

func TestBitmapSearchesInRotation(t *testing.T) {
	b := newBitmap(200)
	if b.next(0) != -1 || b.next(199) != -1 {
		t.Error("found a number in the empty set")
	}
	for _, i := range []int{3, 64, 130} {
		b.add(i)
	}
	want(t, "next", []int{b.next(0), b.next(3), b.next(4), b.next(65), b.next(131), b.next(200)}, 3, 3, 64, 130, 3, 3)
	b.remove(64)
	if b.has(64) || !b.has(130) || b.next(4) != 130 {
		t.Error("64 is still there")
	}
}

func TestFilesAreTakenByRotation(t *testing.T) {
	p := pool(6, 3)
	taken := func(state int) *File {
		f := p.Take(state)
		p.Put(f, state, state, 0)
		return f
	}
	want(t, "existing", indexes(taken(Exists), taken(Exists), taken(Exists), taken(Exists)), 0, 1, 2, 0)
	want(t, "free", indexes(taken(Free), taken(Free), taken(Free), taken(Free)), 3, 4, 5, 3)
	own := 0
	f := p.TakeNext(Exists, &own)
	want(t, "own rotation", indexes(f), 0)
	p.Put(f, Exists, Exists, 0)
	want(t, "by number", indexes(p.TakeAt(Exists, 2), p.TakeAt(Exists, 5), p.TakeAt(Free, 0)), 2, 0, 3)
}

func TestABusyFileIsSkipped(t *testing.T) {
	p := pool(4, 3)
	first, second := p.Take(Exists), p.Take(Exists)
	want(t, "taken", indexes(first, second), 0, 1)
	p.rotor[Exists] = 0
	third := p.Take(Exists)
	want(t, "the one left", indexes(third), 2)
}

func TestAThreadWaitsForABusyFile(t *testing.T) {
	p := pool(1, 1)
	f := p.Take(Exists)
	got := make(chan *File)
	go func() { got <- p.Take(Exists) }()
	for waiting := 0; waiting == 0; {
		p.lock.Lock()
		waiting = p.waiting
		p.lock.Unlock()
	}
	p.Put(f, Exists, Exists, 0)
	if <-got != f {
		t.Error("another file came")
	}
}

func TestThereIsNoFileToTake(t *testing.T) {
	if f := pool(3, 3).Take(Free); f != nil {
		t.Error("a free one of none")
	}
	if f := pool(3, 0).Take(Exists); f != nil {
		t.Error("an existing one of none")
	}
	if f := pool(0, 0).Take(Exists); f != nil {
		t.Error("one of an empty pool")
	}
}

func TestADeleteSkipsOpenFiles(t *testing.T) {
	p := pool(3, 3)
	open := p.Take(Exists)
	p.Put(open, Exists, Exists, 1)
	p.rotor[Exists] = 0
	want(t, "not the open one", indexes(p.TakeClosed(), p.TakeClosed(), p.TakeClosed()), 1, 2, -1)
	if p.TakeThis(open, 0) || !p.TakeThis(open, 1) {
		t.Error("an open file is its opener's only")
	}
	p.Put(open, Exists, Free, -1)
	if p.TakeThis(open, 1) || p.Existing() != 2 || open.open != 0 {
		t.Error("it was deleted")
	}
	p = pool(3, 3)
	f := p.TakeClosedAt(2)
	p.Put(f, Exists, Exists, 1)
	want(t, "by number", indexes(p.TakeClosedAt(2)), 0)
	p.Closed(f)
	want(t, "closed again", indexes(p.TakeClosedAt(2)), 2)
}

func TestNoTwoThreadsHaveAFileAtOnce(t *testing.T) {
	const threads, rounds, files = 8, 5000, 20
	p := pool(files, files/2)
	held := make([]sync.Mutex, files)
	var group sync.WaitGroup
	for number := range threads {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(number)))
			for range rounds {
				from, to := random.IntN(2), random.IntN(2)
				f := p.Take(from)
				if f == nil {
					continue
				}
				if !held[f.index].TryLock() {
					t.Errorf("file %d is taken twice", f.index)
					return
				}
				runtime.Gosched()
				held[f.index].Unlock()
				p.Put(f, from, to, 0)
			}
		})
	}
	group.Wait()
	found := 0
	for i := range files {
		if p.idle[Exists].has(i) == p.idle[Free].has(i) {
			t.Errorf("file %d both exists and is free, or neither", i)
		}
		if p.idle[Exists].has(i) {
			found++
		}
	}
	if found != p.Existing() || p.busy != 0 {
		t.Errorf("%d exist, %d counted, %d busy", found, p.Existing(), p.busy)
	}
}
