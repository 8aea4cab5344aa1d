// SPDX-License-Identifier: GPL-3.0-or-later

package jbd2

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var buf [2048]byte

func list(t *testing.T, procRoot string) []*Journal {
	d := NewDirectory(procRoot)
	t.Cleanup(d.Close)
	return d.List()
}

func TestListsJournalsOfFileSystems(t *testing.T) {
	var devices []string
	for _, j := range list(t, "../testdata/host1/proc") {
		devices = append(devices, j.Device)
	}
	// sdb has nothing but the journal of another drive's file system.
	if got := strings.Join(devices, " "); got != "nvme0n1p1 sda sdb vda1" {
		t.Errorf("journals of %s", got)
	}
}

func TestReadsStats(t *testing.T) {
	for _, j := range list(t, "../testdata/host1/proc") {
		got, err := j.Read(buf[:])
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Stats{"nvme0n1p1": {2092, 20920}, "sda": {0, 0}, "sdb": {5, 50}, "vda1": {10, 100}}[j.Device]
		if got != want {
			t.Errorf("%s: %+v, expected %+v", j.Device, got, want)
		}
	}
}

func TestNoDirectoryIsNoJournal(t *testing.T) {
	if got := list(t, t.TempDir()); len(got) != 0 {
		t.Errorf("journals %v", got)
	}
}

func mounted(t *testing.T) (*Journal, func(transactions, average int)) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fs/jbd2/nvme0n1-8/info")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	set := func(transactions, average int) {
		text := fmt.Sprintf("%d transactions (%d requested), each up to 8192 blocks\naverage: \n  0ms waiting for transaction\n"+
			"  3 blocks per transaction\n  %d logged blocks per transaction\n", transactions, transactions, average)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set(1, 1)
	return list(t, dir)[0], set
}

func TestAJournalKeepsItsMemoryThroughListings(t *testing.T) {
	j, set := mounted(t)
	set(100, 8)
	expect(t, j, Stats{100, 800})
	again := j.directory.List()
	if len(again) != 1 || again[0] != j {
		t.Fatalf("listed again as %v", again)
	}
	set(101, 7)
	expect(t, again[0], Stats{101, 800})
}

func expect(t *testing.T, j *Journal, want Stats) {
	t.Helper()
	if got, err := j.Read(buf[:]); err != nil || got != want {
		t.Errorf("%+v (%v), expected %+v", got, err, want)
	}
}

// 100 transactions of 800 blocks, then one of 1: the average shown falls from 8 to 7.
func TestBlocksLoggedNeverFallWithTheRoundedAverage(t *testing.T) {
	j, set := mounted(t)
	set(100, 8)
	expect(t, j, Stats{100, 800})
	set(101, 7)
	expect(t, j, Stats{101, 800})
	set(200, 7)
	expect(t, j, Stats{200, 1400})
}

func TestAMountRestartsTheCounts(t *testing.T) {
	j, set := mounted(t)
	set(100, 8)
	expect(t, j, Stats{100, 800})
	set(2, 5)
	expect(t, j, Stats{2, 10})
}

func TestAnUnmountIsAnError(t *testing.T) {
	j, _ := mounted(t)
	os.Remove(filepath.Join(j.directory.path, j.file))
	if _, err := j.Read(buf[:]); err == nil {
		t.Error("read the journal of an unmounted file system")
	}
}

func TestAnotherFormatIsAnErrorNotAZero(t *testing.T) {
	for _, text := range []string{"", "transactions: 5\n", "5 transactions (5 requested), each up to 1 blocks\naverage:\n  5 blocks per transaction\n"} {
		if got, ok := parse([]byte(text)); ok {
			t.Errorf("%q read as %+v", text, got)
		}
	}
}
