// SPDX-License-Identifier: GPL-3.0-or-later

package drives

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// Volumes of LVM and devices of dm-crypt: the rig makes the link.
func TestFindsAMappedArray(t *testing.T) {
	root := t.TempDir()
	roots := Roots{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev")}
	for _, folder := range []string{"sys/block/dm-3/dm", "sys/block/sda", "dev/joulerig"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "sys/block/dm-3/size"), []byte("4096\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dm-3", filepath.Join(root, "dev/joulerig/pair")); err != nil {
		t.Fatal(err)
	}
	found, err := Resolve(roots, []Wanted{{Name: "pair", MD: "pair"}, {Name: "other", MD: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	if f := found[0]; f.Problem != "" || f.KernelDevice != "dm-3" || f.Interface != "dm" {
		t.Errorf("found %+v", f)
	}
	if found[1].Problem == "" {
		t.Errorf("found %+v", found[1])
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
		{Wanted{MD: "jr1"}, "no array jr1"},
		{Wanted{MD: "sda"}, "no array sda"},
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

// byKernel is a host with drives that its kernel makes of memory.
func byKernel(t *testing.T) Roots {
	t.Helper()
	roots := Roots{Sys: t.TempDir(), Dev: t.TempDir()}
	for name, place := range map[string]string{
		"ram0": "devices/virtual/block/ram0",
		"sda":  "devices/pseudo_0/adapter0/host7/target7:0:0/7:0:0:0/block/sda",
		"sdb":  "devices/pseudo_0/adapter1/host8/target8:0:0/8:0:0:0/block/sdb",
	} {
		device := filepath.Join(roots.Sys, place, "device")
		if name == "ram0" {
			device = filepath.Dir(device)
		}
		if err := os.MkdirAll(device, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(roots.Sys, "block"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..", place), filepath.Join(roots.Sys, "block", name)); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{filepath.Join(roots.Sys, place, "size"): "2048\n"}
		if name != "ram0" {
			// The serial that scsi_debug makes of the SCSI host's number, the same for both here.
			files[filepath.Join(device, "vpd_pg80")] = "\x00\x80\x00\x042000"
		}
		for path, content := range files {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return roots
}

func TestFindsWhatTheKernelMakesOfMemoryByItsPlace(t *testing.T) {
	roots := byKernel(t)
	for serial, device := range map[string]string{"ram0": "ram0", "scsi_debug-0": "sda", "scsi_debug-1": "sdb"} {
		if f := find(t, roots, Wanted{Serial: serial}); f.Problem != "" || f.KernelDevice != device {
			t.Errorf("%s: found %+v", serial, f)
		}
	}
}

// withRegions is a host with persistent memory: two DIMMs with a region each, a set of both, and
// memory that memmap= reserved.
func withRegions(t *testing.T) Roots {
	t.Helper()
	roots := Roots{Sys: t.TempDir(), Dev: t.TempDir()}
	put := func(path, content string) {
		path = filepath.Join(roots.Sys, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(roots.Sys, "block"), 0o700); err != nil {
		t.Fatal(err)
	}
	put("bus/nd/devices/nmem0/nfit/id", "8089-a2-1834-00000001")
	put("bus/nd/devices/nmem1/nfit/id", "8089-a2-1834-00000002")
	for name, region := range map[string]struct {
		bus, provider string
		dimms         []string
	}{
		"pmem0": {"ndbus0/region0", "ACPI.NFIT", []string{"nmem0"}},
		"pmem1": {"ndbus0/region1", "ACPI.NFIT", []string{"nmem1"}},
		"pmem2": {"ndbus0/region2", "ACPI.NFIT", []string{"nmem1", "nmem0"}},
		"pmem3": {"ndbus1/region3", "e820", nil},
	} {
		place := "devices/" + region.bus
		put(filepath.Join(place, "../provider"), region.provider)
		put(filepath.Join(place, "resource"), "0x100000000")
		put(filepath.Join(place, "mappings"), strconv.Itoa(len(region.dimms)))
		for i, dimm := range region.dimms {
			put(filepath.Join(place, "mapping"+strconv.Itoa(i)), dimm+",0,1073741824,"+strconv.Itoa(i))
		}
		put(filepath.Join(place, "namespace", "block", name, "size"), "2048")
		if err := os.Symlink(filepath.Join("..", place, "namespace", "block", name), filepath.Join(roots.Sys, "block", name)); err != nil {
			t.Fatal(err)
		}
	}
	return roots
}

func TestFindsPersistentMemoryByItsDIMMs(t *testing.T) {
	roots := withRegions(t)
	for serial, device := range map[string]string{
		"8089-a2-1834-00000001":                       "pmem0",
		"8089-a2-1834-00000002":                       "pmem1",
		"8089-a2-1834-00000001+8089-a2-1834-00000002": "pmem2",
		"e820-0x100000000":                            "pmem3",
	} {
		if f := find(t, roots, Wanted{Serial: serial}); f.Problem != "" || f.KernelDevice != device {
			t.Errorf("%s: found %+v, expected %s", serial, f, device)
		}
	}
	if f := find(t, roots, Wanted{Serial: "8089-a2-1834-00000003"}); f.KernelDevice != "" {
		t.Errorf("found %+v", f)
	}
}

func TestAWWNIsTheSameHoweverItIsPadded(t *testing.T) {
	if !sameWWID("t10.ATA     MODEL X     SERIAL", "t10.ATA MODEL X SERIAL") || sameWWID("t10.ATA A", "t10.ATA B") {
		t.Error("blanks count")
	}
}

func TestAnEmulatedDisksOwnSerialIsNoIdentity(t *testing.T) {
	if f := find(t, byKernel(t), Wanted{Serial: "2000"}); f.KernelDevice != "" {
		t.Errorf("found %+v", f)
	}
}
