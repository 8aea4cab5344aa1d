// SPDX-License-Identifier: GPL-3.0-or-later

// Package powercut shows what a power cut leaves of a file system: what had got to its disk.
package powercut

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Disk is an ext4 on a loop device. What is written there and not synced stays in
// memory for minutes: nothing but a sync puts it on the disk.
type Disk struct {
	Folder string // where it is mounted
	image  string
}

// New makes a disk. It needs root.
func New(t *testing.T) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices")
	}
	d := &Disk{image: filepath.Join(t.TempDir(), "disk")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 32<<20); err != nil {
		t.Fatal(err)
	}
	execute(t, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image)
	d.Folder = mount(t, d.image, "loop,commit=300,noauto_da_alloc")
	return d
}

// AfterACut returns a folder with what is on the disk if the power is cut now.
func (d *Disk) AfterACut(t *testing.T) string {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	execute(t, "cp", "--sparse=always", d.image, left)
	return mount(t, left, "loop")
}

func mount(t *testing.T, image, options string) string {
	t.Helper()
	folder := t.TempDir()
	execute(t, "mount", "-o", options, image, folder)
	// Lazily: a writer that was cut off may still hold files.
	t.Cleanup(func() { execute(t, "umount", "--lazy", folder) })
	return folder
}

func execute(t *testing.T, args ...string) {
	t.Helper()
	if output, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, output)
	}
}
