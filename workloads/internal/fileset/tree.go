// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import (
	"fmt"
	"math"
	"math/rand/v2"

	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/wml"
)

// maxDepth bounds what a random depth can give; a path of so many directories still has a legal
// length.
const maxDepth = 100

// tree grows a set's directories as Filebench does: below the root, each directory draws a depth
// and a width. One that has reached the depth that it drew holds files, as many as its width;
// another one holds directories. The root takes directories until all files have a place.
type tree struct {
	set         *wml.Fileset
	random      *rand.Rand
	directories []filesys.Name
	files       kind
	leaves      kind // empty directories
}

// kind is what a directory at the end of a branch holds.
type kind struct {
	wanted int64
	size   wml.Number
	things []*File
}

func (k *kind) full() bool { return int64(len(k.things)) >= k.wanted }

func grow(set *wml.Fileset, random *rand.Rand) (*tree, error) {
	t := &tree{
		set: set, random: random,
		files:  kind{wanted: set.Entries, size: set.Size},
		leaves: kind{wanted: set.LeafDirectories},
	}
	if err := t.directory(set.Name); err != nil {
		return nil, err
	}
	number := 0
	for _, kind := range []*kind{&t.files, &t.leaves} {
		for !kind.full() {
			number++
			if err := t.branch(child(set.Name, number), 2); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// branch makes the directory at path, the root's depth being 1, and what it holds.
func (t *tree) branch(path string, depth int) error {
	if err := t.directory(path); err != nil {
		return err
	}
	last := depth >= min(t.depth(), maxDepth)
	width := t.width()
	number := 0
	for _, kind := range []*kind{&t.files, &t.leaves} {
		for i := 0; i < width && !kind.full(); i++ {
			number++
			var err error
			if last {
				err = t.thing(kind, child(path, number))
			} else {
				err = t.branch(child(path, number), depth+1)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *tree) directory(path string) error {
	name, err := filesys.NewName(path)
	t.directories = append(t.directories, name)
	return err
}

func (t *tree) thing(kind *kind, path string) error {
	name, err := filesys.NewName(path)
	kind.things = append(kind.things, &File{Name: name, Size: kind.size.Int(t.random), index: len(kind.things)})
	return err
}

// depth draws a depth: at least 1, fractions cut off.
func (t *tree) depth() int {
	mean := t.set.MeanDepth()
	if drawn := t.set.DirDepth; drawn != nil && drawn.Mean() > 0 {
		// The variable gives the shape: its mean is to be the set's.
		return max(1, int(drawn.Float(t.random)*mean/drawn.Mean()))
	}
	return max(1, int(t.gamma(mean)))
}

// width draws how many entries a directory has: at least 1, fractions rounded up.
func (t *tree) width() int {
	width := t.set.DirWidth
	if !width.IsFixed() {
		return atLeastOne(width.Float(t.random))
	}
	return atLeastOne(t.gamma(width.Mean()))
}

func (t *tree) gamma(mean float64) float64 {
	if t.set.DirGamma <= 0 || mean <= 0 {
		return mean
	}
	return wml.Gamma(t.set.DirGamma, mean).Draw(t.random)
}

func atLeastOne(width float64) int {
	return int(math.Ceil(min(max(width, 1), math.MaxInt32)))
}

func child(path string, number int) string { return fmt.Sprintf("%s/%08d", path, number) }
