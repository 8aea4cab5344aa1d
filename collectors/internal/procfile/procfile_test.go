// SPDX-License-Identifier: GPL-3.0-or-later

package procfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestReadsFilesOfAnySizeAgainAndAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{0, 1, 63, 64, 65, 2047, 2048, 2049, 4096, 100000, 5} {
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Read(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("size %d: read %d bytes (%v)", size, len(got), err)
		}
	}
}

// A file of the kernel with many records, longer than what one read gives. Its figures change, the
// number of its lines does not.
func TestReadsFilesOfManyRecordsToTheEnd(t *testing.T) {
	want, err := os.ReadFile("/proc/zoneinfo")
	if err != nil || len(want) < 2*certainlyAll {
		t.Skip("no long /proc/zoneinfo here")
	}
	f, err := Open("/proc/zoneinfo", 16)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := f.Read(); err != nil || bytes.Count(got, []byte("\n")) != bytes.Count(want, []byte("\n")) {
		t.Errorf("read %d of about %d bytes (%v)", len(got), len(want), err)
	}
}

func TestUint(t *testing.T) {
	for text, want := range map[string]uint64{" 12 x": 12, "\t7": 7, "0": 0, "18446744073709551615": 18446744073709551615} {
		if v, _, ok := Uint([]byte(text)); !ok || v != want {
			t.Errorf("%q: %d %v", text, v, ok)
		}
	}
	for _, text := range []string{"", " ", "x1", "-1"} {
		if v, _, ok := Uint([]byte(text)); ok {
			t.Errorf("%q read as %d", text, v)
		}
	}
}
