// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"math"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/fileset"
	"joulerig/workloads/internal/filesys"
)

func makeDir(t *thread, o *op) error {
	return t.directory(o, "mkdir", fileset.Free, func(n filesys.Name) error { return t.system.Mkdir(n, 0o755) })
}

func removeDir(t *thread, o *op) error {
	return t.directory(o, "rmdir", fileset.Exists, t.system.Rmdir)
}

// directory makes or removes a leaf directory, by number where it is `indexed`, else by rotation.
func (t *thread) directory(o *op, call string, state int, do func(filesys.Name) error) error {
	leaves := o.set.Leaves
	var leaf *fileset.File
	if o.Index != nil && leaves.Len() > 0 {
		number := o.Index.Float(t.random) * float64(leaves.Len()/2)
		leaf = leaves.TakeAt(state, int(math.Mod(number, float64(leaves.Len()))))
	} else {
		leaf = leaves.Take(state)
	}
	if leaf == nil {
		what := [...]string{fileset.Free: "free leaf directory", fileset.Exists: "leaf directory"}[state]
		return t.fail(o, &noFileError{o.set.Name, what})
	}
	begin := t.begin()
	if err := do(leaf.Name); err != nil {
		leaves.Put(leaf, state, state, 0)
		return t.fail(o, filesys.Error(call, leaf.Name, err))
	}
	t.end(o, begin, 0)
	leaves.Put(leaf, state, 1-state, 0)
	return nil
}

const listBytes = 32 << 10

// listDir opens, reads and closes a directory: one operation, whose bytes are those of its entries.
func listDir(t *thread, o *op) error {
	name := o.set.Directory()
	begin := t.begin()
	descriptor, err := t.system.Open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return t.fail(o, filesys.Error("open", name, err))
	}
	bytes, err := t.untilEnd(func(data []byte) (int, error) { return t.system.ReadDir(descriptor, data) }, listBytes)
	if closing := t.system.Close(descriptor); err == nil {
		err = closing
	}
	if err != nil {
		return t.fail(o, filesys.Error("list", name, err))
	}
	t.end(o, begin, bytes)
	return nil
}
