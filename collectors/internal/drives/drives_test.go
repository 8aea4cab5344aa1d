// SPDX-License-Identifier: GPL-3.0-or-later

package drives

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var host1 = Roots{Sys: "../testdata/host1/sys", Dev: "../testdata/host1/dev"}

func find(t *testing.T, roots Roots, w Wanted) Found {
	t.Helper()
	w.Name = "d"
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	found, err := Resolve(roots, []Wanted{w})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}

func TestFindsDrivesOfEveryKind(t *testing.T) {
	for _, c := range []struct {
		wanted             Wanted
		device, kind, ctrl string
		counted            []string
	}{
		{Wanted{Serial: "JRNVP0001"}, "nvme0n1", "nvme", "nvme0", []string{"nvme0n1"}},
		{Wanted{Serial: "JRNVN0001"}, "nvme1n1", "nvme", "nvme1", []string{"nvme1c1n1", "nvme1c2n1"}},
		{Wanted{WWID: "eui.0025388500000001"}, "nvme1n1", "nvme", "nvme1", []string{"nvme1c1n1", "nvme1c2n1"}},
		{Wanted{Serial: "JRSAP0001"}, "sda", "ata", "", []string{"sda"}},
		{Wanted{Serial: "JRSAS0002"}, "sde", "scsi", "", []string{"sde"}},
		{Wanted{WWID: "0x5000C500A1B2C3D5"}, "sde", "scsi", "", []string{"sde"}},
		{Wanted{Serial: "JRSAS0002", WWID: "naa.5000c500a1b2c3d5"}, "sde", "scsi", "", []string{"sde"}},
		{Wanted{MD: "jr0"}, "md127", "md", "", []string{"md127"}},
		{Wanted{MD: "md127"}, "md127", "md", "", []string{"md127"}},
		{Wanted{Pmem: "pmem0"}, "pmem0", "pmem", "", []string{"pmem0"}},
		{Wanted{Serial: "JRROOT"}, "vda", "virtio", "", []string{"vda"}},
	} {
		f := find(t, host1, c.wanted)
		if f.Problem != "" || f.KernelDevice != c.device || f.Interface != c.kind || f.Controller != c.ctrl || !slices.Equal(f.Counted, c.counted) {
			t.Errorf("%+v: found %+v", c.wanted, f)
		}
		if f.SizeBytes == 0 {
			t.Errorf("%+v: no size", c.wanted)
		}
	}
}

func TestFindsPartitions(t *testing.T) {
	if f := find(t, host1, Wanted{Serial: "JRNVP0001"}); !slices.Equal(f.Partitions, []string{"nvme0n1p1"}) {
		t.Errorf("partitions %v", f.Partitions)
	}
}

func TestRefusesWhatIsNotOneDrive(t *testing.T) {
	for _, c := range []struct {
		wanted  Wanted
		problem string
	}{
		{Wanted{Serial: "JRNVP000"}, "no drive with serial JRNVP000"},
		{Wanted{Serial: "JRNVP00011"}, "no drive"},
		{Wanted{Serial: "jrnvp0001"}, "no drive"},
		{Wanted{Serial: "JRSAS0001"}, "2 devices (sdc, sdd)"},
		{Wanted{Serial: "JRSAS0002", WWID: "naa.5000c500a1b2c3d4"}, "no drive"},
		{Wanted{MD: "jr1"}, "no md array jr1"},
		{Wanted{MD: "sda"}, "no md array sda"},
		{Wanted{Pmem: "pmem1"}, "no persistent-memory device pmem1"},
		{Wanted{Pmem: "sda"}, "no persistent-memory device sda"},
	} {
		if f := find(t, host1, c.wanted); f.KernelDevice != "" || !strings.Contains(f.Problem, c.problem) {
			t.Errorf("%+v: found %+v, expected problem %q", c.wanted, f, c.problem)
		}
	}
}

func TestOneDeviceIsNotTwoDrives(t *testing.T) {
	found, err := Resolve(host1, []Wanted{{Name: "a", Serial: "JRSAS0002"}, {Name: "b", WWID: "naa.5000c500a1b2c3d5"}})
	if err != nil {
		t.Fatal(err)
	}
	if found[0].KernelDevice != "sde" || found[1].KernelDevice != "" || !strings.Contains(found[1].Problem, "same device as a") {
		t.Errorf("found %+v", found)
	}
}

func TestASerialIsFoundUnderItsNewName(t *testing.T) {
	root := t.TempDir()
	if out, err := exec.Command("cp", "-a", host1.Sys, root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sys := filepath.Join(root, "sys")
	swap := func(from, to string) {
		if err := os.Rename(filepath.Join(sys, "block", from), filepath.Join(sys, "block", to)); err != nil {
			t.Fatal(err)
		}
	}
	swap("sda", "was-a")
	swap("sdb", "sda")
	swap("was-a", "sdb")
	roots := Roots{Sys: sys, Dev: host1.Dev}
	if f := find(t, roots, Wanted{Serial: "JRSAP0001"}); f.KernelDevice != "sdb" {
		t.Errorf("JRSAP0001 is %+v", f)
	}
	if f := find(t, roots, Wanted{Serial: "JRSAN0001"}); f.KernelDevice != "sda" {
		t.Errorf("JRSAN0001 is %+v", f)
	}
}

func TestCheckRefusesUnclearNames(t *testing.T) {
	for _, w := range []Wanted{
		{Serial: "x"},
		{Name: "d"},
		{Name: "d", Serial: "x", MD: "y"},
		{Name: "d", MD: "y", Pmem: "z"},
		{Name: "d", MD: "../md127"},
		{Name: "d", Pmem: ".."},
	} {
		if err := w.Check(); err == nil {
			t.Errorf("%+v was taken", w)
		}
	}
}

func TestUnitSerialPageIsReadWithItsLength(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vpd_pg80")
	for content, want := range map[string]string{
		"\x00\x80\x00\x08  AB12  ":    "AB12",
		"\x00\x80\x00\x04AB12garbage": "AB12",
		"\x00\x80\x00\x40AB12":        "AB12",
		"\x00\x83\x00\x04AB12":        "",
		"\x00\x80":                    "",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := unitSerial(path); got != want {
			t.Errorf("%q: %q, expected %q", content, got, want)
		}
	}
}
