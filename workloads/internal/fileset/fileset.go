// SPDX-License-Identifier: GPL-3.0-or-later

// Package fileset is the trees of files that a load works on: which there are, which exist at the
// moment, and who takes which one next.
package fileset

import (
	"math/rand/v2"
	"sync/atomic"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/wml"
)

// Set is a tree of files and directories, as a `define fileset` asks for it.
type Set struct {
	Name      string
	ReadOnly  bool
	WriteOnly bool
	Files     *Pool
	Leaves    *Pool // empty directories

	directories []filesys.Name // parents before children
	rotor       atomic.Uint64
	reuse       bool
}

// New draws a set: names, sizes, and which files exist at the start. The same seed and number of
// the set give the same set.
func New(define *wml.Fileset, seed uint64, number int) (*Set, error) {
	t, err := grow(define, rand.New(rand.NewPCG(seed, uint64(2*number))))
	if err != nil {
		return nil, err
	}
	s := &Set{
		Name: define.Name, ReadOnly: define.ReadOnly, WriteOnly: define.WriteOnly,
		Files: newPool(t.files.things), Leaves: newPool(t.leaves.things),
		directories: t.directories, reuse: define.Reuse || define.TrustTree,
	}
	random := rand.New(rand.NewPCG(seed, uint64(2*number+1)))
	s.Files.preallocate(define.PreallocPercent, random)
	s.Leaves.preallocate(define.PreallocPercent, random)
	return s, nil
}

// preallocate has each file exist with a chance in percent.
func (p *Pool) preallocate(percent int64, random *rand.Rand) {
	for _, f := range p.files {
		if random.Int64N(100) < percent {
			p.idle[Free].remove(f.index)
			p.idle[Exists].add(f.index)
			p.existing++
		}
	}
}

// Directories is how many directories the set has besides its leaf directories; the root is one.
func (s *Set) Directories() int { return len(s.directories) }

// Directory returns the set's directories in rotation.
func (s *Set) Directory() filesys.Name {
	return s.directories[(s.rotor.Add(1)-1)%uint64(len(s.directories))]
}
