// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"fmt"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/fileset"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/measure"
)

// noFileError ends a load as it does in Filebench: there is no file in the state that a flowop
// needs.
type noFileError struct{ set, state string }

func (e *noFileError) Error() string {
	return fmt.Sprintf("fileset %s has no %s left: give it more entries, or run for a shorter time", e.set, e.state)
}

// slotOf returns the descriptor that a flowop works on: the stated one, or with `opennext` each in
// turn from the last to the first, or number 0.
func (t *thread) slotOf(o *op) *slot {
	if o.FD > 0 || !o.RotateFD {
		return &t.slots[o.FD]
	}
	if t.rotor == 0 {
		t.rotor = len(t.slots)
	}
	t.rotor--
	return &t.slots[t.rotor]
}

// pick takes a file of the flowop's set in a state: by number where it is `indexed`, else by
// rotation.
func (t *thread) pick(o *op, state int) (*fileset.File, error) {
	var f *fileset.File
	files := o.set.Files
	switch {
	case o.Index != nil && files.Len() > 0:
		f = files.TakeAt(state, t.index(o, files.Len()))
	case o.rotor != nil && state == fileset.Exists:
		f = files.TakeNext(state, o.rotor)
	default:
		f = files.Take(state)
	}
	if f == nil {
		return nil, t.shortage(o, state)
	}
	return f, nil
}

func (t *thread) index(o *op, number int) int { return int(o.Index.Int(t.random) % int64(number)) }

func (t *thread) shortage(o *op, state int) error {
	return t.fail(o, &noFileError{o.set.Name, [...]string{fileset.Free: "free file", fileset.Exists: "file"}[state]})
}

func openFile(t *thread, o *op) error { return t.openIn(t.slotOf(o), o, fileset.Exists) }

func createFile(t *thread, o *op) error { return t.openIn(t.slotOf(o), o, fileset.Free) }

// openIn opens a file that is in a state; a free one is created.
func (t *thread) openIn(s *slot, o *op, state int) error {
	if s.isOpen {
		return t.fail(o, fmt.Errorf("descriptor %d is open: expected it closed", o.FD))
	}
	f, err := t.pick(o, state)
	if err != nil {
		return err
	}
	flags := o.flags
	if state == fileset.Free {
		flags |= unix.O_CREAT
	}
	begin := t.begin()
	descriptor, err := t.system.Open(f.Name, flags, 0o644)
	if err != nil {
		return t.fail(o, filesys.Error("open", f.Name, err))
	}
	class := o.openClass
	if state == fileset.Free {
		class = o.class
	}
	t.endAs(o, class, begin, measure.Now(), 0)
	o.set.Files.Put(f, state, fileset.Exists, 1)
	*s = slot{descriptor, true, o.set, f}
	if o.NoReadAhead {
		err = t.system.ReadAhead(descriptor, false)
	}
	return t.fail(o, filesys.Error("fadvise", f.Name, err))
}

// opened returns a flowop's descriptor, its file opened if need be.
func (t *thread) opened(o *op) (*slot, error) {
	s := t.slotOf(o)
	if !s.isOpen {
		if o.set == nil {
			return nil, t.notOpen(o)
		}
		return s, t.openIn(s, o, fileset.Exists)
	}
	if o.set != nil && o.FD > 0 && s.set != o.set {
		return nil, t.fail(o, fmt.Errorf("descriptor %d is of fileset %s: expected %s", o.FD, s.set.Name, o.set.Name))
	}
	return s, nil
}

func (t *thread) notOpen(o *op) error {
	return t.fail(o, fmt.Errorf("descriptor %d is closed: expected it open", o.FD))
}

func closeFile(t *thread, o *op) error {
	s := t.slotOf(o)
	if !s.isOpen {
		return t.notOpen(o)
	}
	if err := t.reapAll(); err != nil { // they are on descriptors, whose numbers come again
		return err
	}
	begin := t.begin()
	err := t.system.Close(s.descriptor)
	s.closed()
	if err != nil {
		return t.failOn(o, "close", s, err)
	}
	t.end(o, begin, 0)
	return nil
}

// failOn says which call on a descriptor's file has failed.
func (t *thread) failOn(o *op, call string, s *slot, err error) error {
	return t.fail(o, filesys.Error(call, s.name(), err))
}

// deleteFile removes the file of the stated descriptor, or the next one. A file that another thread
// has open stays: then the next one is taken, and nothing is done where that cannot be.
func deleteFile(t *thread, o *op) error {
	if s := t.slotOf(o); o.FD > 0 && s.file != nil {
		return t.deleteThis(o, s)
	}
	if o.set == nil {
		return t.notOpen(o)
	}
	files := o.set.Files
	var f *fileset.File
	if o.Index != nil && files.Len() > 0 {
		f = files.TakeClosedAt(t.index(o, files.Len()))
	} else {
		f = files.TakeClosed()
	}
	switch {
	case f != nil:
		return t.unlink(o, o.set, f, 0)
	case files.Existing() == 0:
		return t.shortage(o, fileset.Exists)
	default:
		return nil
	}
}

// deleteThis removes a descriptor's file, also while the thread itself has it open.
func (t *thread) deleteThis(o *op, s *slot) error {
	f, own := s.file, 0
	if s.isOpen {
		own = 1
	}
	s.file = nil
	if !s.set.Files.TakeThis(f, own) {
		if s.isOpen {
			s.file = f
		}
		return nil
	}
	return t.unlink(o, s.set, f, own)
}

func (t *thread) unlink(o *op, set *fileset.Set, f *fileset.File, open int) error {
	begin := t.begin()
	if err := t.system.Unlink(f.Name); err != nil {
		return t.fail(o, filesys.Error("unlink", f.Name, err))
	}
	t.end(o, begin, 0)
	set.Files.Put(f, fileset.Exists, fileset.Free, -open)
	return nil
}

func statFile(t *thread, o *op) error {
	if s := t.slotOf(o); o.FD > 0 && s.isOpen {
		begin := t.begin()
		if _, err := t.system.Fstat(s.descriptor); err != nil {
			return t.failOn(o, "stat", s, err)
		}
		t.end(o, begin, 0)
		return nil
	}
	if o.set == nil {
		return t.notOpen(o)
	}
	f, err := t.pick(o, fileset.Exists)
	if err != nil {
		return err
	}
	begin := t.begin()
	_, err = t.system.Stat(f.Name)
	o.set.Files.Put(f, fileset.Exists, fileset.Exists, 0)
	if err != nil {
		return t.fail(o, filesys.Error("stat", f.Name, err))
	}
	t.end(o, begin, 0)
	return nil
}

func fsync(t *thread, o *op) error {
	s := t.slotOf(o)
	if !s.isOpen {
		return t.notOpen(o)
	}
	return t.fsyncSlot(o, s)
}

// fsyncSet makes all files of a set durable that the thread has open, each an operation.
func fsyncSet(t *thread, o *op) error {
	for i := range t.slots {
		if s := &t.slots[i]; s.isOpen && s.set == o.set {
			if err := t.fsyncSlot(o, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *thread) fsyncSlot(o *op, s *slot) error {
	begin := t.begin()
	if err := t.system.Fsync(s.descriptor); err != nil {
		return t.failOn(o, "fsync", s, err)
	}
	t.end(o, begin, 0)
	return nil
}
