// SPDX-License-Identifier: GPL-3.0-or-later

// Package jbd2 reads the journal statistics of mounted ext4 file systems from
// /proc/fs/jbd2/<device>-<inode>/info (jbd2_seq_info_show in fs/jbd2/journal.c); an external
// journal is /proc/fs/jbd2/<device>/info.
//
// The count of transactions is exact. Of the blocks logged the kernel shows only the average per
// transaction, rounded down, so the total is derived: average x transactions is at most the true
// total, which is less than one block per transaction more. Fast commits (a feature off by default)
// are in neither. Both start at the mount and are gone at the unmount.
package jbd2

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"joulerig/collectors/internal/procfile"
)

// Stats is one journal's statistics since its mount.
type Stats struct {
	Transactions uint64
	// BlocksLogged is a lower bound (see the package) that never falls: the rounded average can
	// drop by one while the total grows.
	BlocksLogged uint64
}

// Directory is /proc/fs/jbd2.
type Directory struct {
	path     string
	open     *os.File
	journals []*Journal
}

// Journal is one entry of /proc/fs/jbd2.
type Journal struct {
	Device    string // nvme0n1, nvme0n1p1
	directory *Directory
	file      string // nvme0n1-8/info
	last      Stats
}

// NewDirectory opens nothing yet.
func NewDirectory(procRoot string) *Directory {
	return &Directory{path: procRoot + "/fs/jbd2"}
}

// List returns the journals of file systems as they are mounted now, each with the device that the
// journal itself is on; none where the directory is missing, which only says that the kernel has no
// jbd2 loaded. A journal that was listed before is the same pointer, with its memory of earlier
// readings.
func (d *Directory) List() []*Journal {
	d.Close()
	var err error
	if d.open, err = os.Open(d.path); err != nil {
		d.open, d.journals = nil, nil
		return nil
	}
	names, _ := d.open.Readdirnames(-1)
	slices.Sort(names)
	var journals []*Journal
	for _, name := range names {
		device := name
		// Device mapper's own names have a dash.
		if dash := strings.LastIndexByte(name, '-'); dash > 0 && name[:dash] != "dm" {
			device = name[:dash]
		}
		file := name + "/info"
		if k := slices.IndexFunc(d.journals, func(j *Journal) bool { return j.file == file }); k >= 0 {
			journals = append(journals, d.journals[k])
			continue
		}
		journals = append(journals, &Journal{
			Device:    strings.ReplaceAll(device, "!", "/"),
			directory: d,
			file:      file,
		})
	}
	d.journals = journals
	return journals
}

// Close closes the directory; its journals cannot be read until the next List.
func (d *Directory) Close() {
	if d.open != nil {
		d.open.Close()
		d.open = nil
	}
}

// Read reads the statistics. The kernel takes a snapshot at each open, so the file cannot be kept
// open. An error means that it is unmounted.
func (j *Journal) Read(buf []byte) (Stats, error) {
	if j.directory.open == nil {
		return Stats{}, os.ErrClosed
	}
	content, err := procfile.ReadAt(int(j.directory.open.Fd()), j.file, buf)
	if err != nil {
		return Stats{}, err
	}
	stats, ok := parse(content)
	if !ok {
		return Stats{}, &os.PathError{Op: "parse", Path: j.file, Err: os.ErrInvalid}
	}
	if stats.Transactions >= j.last.Transactions {
		stats.BlocksLogged = max(stats.BlocksLogged, j.last.BlocksLogged)
	}
	j.last = stats
	return stats, nil
}

var loggedBlocks = []byte("logged blocks per transaction")

func parse(content []byte) (Stats, bool) {
	line, content := procfile.NextLine(content)
	transactions, rest, ok := procfile.Uint(line)
	if !ok || !bytes.HasPrefix(rest, []byte(" transactions (")) {
		return Stats{}, false
	}
	stats := Stats{Transactions: transactions}
	// Before the first transaction the kernel shows no averages.
	for len(content) > 0 {
		line, content = procfile.NextLine(content)
		average, rest, ok := procfile.Uint(line)
		if ok && bytes.Equal(bytes.TrimSpace(rest), loggedBlocks) {
			stats.BlocksLogged = average * transactions
			return stats, true
		}
	}
	return stats, transactions == 0
}
