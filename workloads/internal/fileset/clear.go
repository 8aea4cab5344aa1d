// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import (
	"errors"
	"fmt"
	"regexp"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/filesys"
)

// clear removes what a former layout of the set has left. A tree with any name in it that no layout
// gives is not ours: it is refused, and untouched.
func (s *Set) clear(system filesys.FS) error {
	if s.reuse {
		return nil
	}
	root := s.directories[0]
	left := &leftover{system: system}
	switch err := left.list(root); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	}
	return left.remove()
}

// leftover is a tree that is there before a layout, directories before what they hold.
type leftover struct {
	system filesys.FS
	names  []filesys.Name
	isDir  []bool
}

var laidOut = regexp.MustCompile(`^[0-9]{8}$`)

// list adds name and all below it.
func (l *leftover) list(name filesys.Name) error {
	descriptor, err := l.system.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	l.names = append(l.names, name)
	l.isDir = append(l.isDir, err == nil)
	if errors.Is(err, unix.ENOTDIR) && len(l.names) > 1 {
		return nil
	}
	if err != nil {
		return filesys.Error("open", name, err)
	}
	entries, err := l.entries(descriptor)
	l.system.Close(descriptor)
	if err != nil {
		return filesys.Error("read", name, err)
	}
	for _, entry := range entries {
		if !laidOut.MatchString(entry) {
			return fmt.Errorf("%s/%s: is not of a former layout: expected a directory without %s",
				name, entry, l.names[0])
		}
		below, err := filesys.NewName(name.String() + "/" + entry)
		if err != nil {
			return err
		}
		if err := l.list(below); err != nil {
			return err
		}
	}
	return nil
}

func (l *leftover) entries(descriptor int) (names []string, err error) {
	data := make([]byte, 64<<10)
	for {
		n, err := l.system.ReadDir(descriptor, data)
		if n <= 0 || err != nil {
			return names, err
		}
		_, _, names = unix.ParseDirent(data[:n], -1, names)
	}
}

func (l *leftover) remove() error {
	for i := len(l.names) - 1; i >= 0; i-- {
		call, do := "unlink", l.system.Unlink
		if l.isDir[i] {
			call, do = "rmdir", l.system.Rmdir
		}
		if err := do(l.names[i]); err != nil {
			return filesys.Error(call, l.names[i], err)
		}
	}
	return nil
}
