// SPDX-License-Identifier: GPL-3.0-or-later

// Package drives finds drives by what they report in sysfs: serial number, WWN, the name of an md
// array. Kernel names are only a result: they change with every boot and every plug. It reads sysfs
// and never asks the drive, so it cannot wake one.
package drives

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"joulerig/collectors/internal/procfile"
)

// Wanted is how a configuration names a drive: by serial or WWID or both, or as an array, or as
// a persistent-memory device.
type Wanted struct {
	Name   string `json:"name"`
	Serial string `json:"serial"`
	WWID   string `json:"wwid"`
	MD     string `json:"md"`
	Pmem   string `json:"pmem"`
}

// Check says in one line what is wrong.
func (w *Wanted) Check() error {
	if w.Name == "" {
		return errors.New("name: empty: expected the drive's name in the lab")
	}
	ways := 0
	for _, set := range []bool{w.Serial != "" || w.WWID != "", w.MD != "", w.Pmem != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("%s: expected serial and/or wwid, or md, or pmem", w.Name)
	}
	for key, value := range map[string]string{"md": w.MD, "pmem": w.Pmem} {
		if strings.ContainsAny(value, "/") || value == "." || value == ".." {
			return fmt.Errorf("%s: %s: %q: expected a name without a slash", w.Name, key, value)
		}
	}
	return nil
}

// Found is a drive on this host.
type Found struct {
	Name         string   `json:"name"`
	Serial       string   `json:"serial,omitempty"`
	WWID         string   `json:"wwid,omitempty"`
	Model        string   `json:"model,omitempty"`
	Interface    string   `json:"interface,omitempty"` // nvme, ata, scsi, virtio, md, dm, pmem, ram
	KernelDevice string   `json:"kernel_device,omitempty"`
	SizeBytes    int64    `json:"size_bytes,omitempty"`
	Controller   string   `json:"controller,omitempty"` // nvme0: where the health log is asked for
	Partitions   []string `json:"partitions,omitempty"`
	// Counted are the devices whose block-layer counters add up to the drive's: the paths of an
	// NVMe drive with native multipath, else the drive itself. Before kernel 6.5 the multipath
	// device counts nothing.
	Counted []string `json:"counted,omitempty"`
	Problem string   `json:"problem,omitempty"` // why there is no kernel device
}

// Roots are where /sys and /dev are.
type Roots struct{ Sys, Dev string }

// device is a block device with its identity.
type device struct {
	name, serial, wwid, model, kind string
	hidden                          bool
}

// Resolve looks for all wanted drives. A drive that is not there, or of which there are two, comes
// back with a Problem.
func Resolve(roots Roots, wanted []Wanted) ([]Found, error) {
	entries, err := os.ReadDir(filepath.Join(roots.Sys, "block"))
	if err != nil {
		return nil, err
	}
	devices := make([]device, 0, len(entries))
	for _, entry := range entries {
		devices = append(devices, identify(roots, entry.Name()))
	}
	found := make([]Found, len(wanted))
	for i := range wanted {
		found[i] = resolve(roots, devices, &wanted[i])
	}
	for i := range found {
		for j := range i {
			if found[i].KernelDevice != "" && found[i].KernelDevice == found[j].KernelDevice {
				found[i] = Found{Name: found[i].Name, Problem: fmt.Sprintf("is the same device as %s: %s", found[j].Name, found[j].KernelDevice)}
			}
		}
	}
	return found, nil
}

func resolve(roots Roots, devices []device, w *Wanted) Found {
	f := Found{Name: w.Name, Serial: w.Serial, WWID: w.WWID}
	var matches []device
	what := ""
	switch {
	case w.MD != "":
		what = "array " + w.MD
		name := arrayDevice(roots, w.MD)
		for _, d := range devices {
			if (d.kind == "md" || d.kind == "dm") && (d.name == name || (name == "" && (d.name == w.MD || d.name == "md_"+w.MD))) {
				matches = append(matches, d)
			}
		}
	case w.Pmem != "":
		what = "persistent-memory device " + w.Pmem
		for _, d := range devices {
			if d.kind == "pmem" && d.name == w.Pmem {
				matches = append(matches, d)
			}
		}
	default:
		if what = "drive with serial " + w.Serial; w.Serial == "" {
			what = "drive with wwid " + w.WWID
		}
		for _, d := range devices {
			if !d.hidden && (w.Serial == "" || sameSerial(d.serial, w.Serial)) && (w.WWID == "" || sameWWID(d.wwid, w.WWID)) {
				matches = append(matches, d)
			}
		}
	}
	switch len(matches) {
	case 0:
		f.Problem = "no " + what
		return f
	case 1:
	default:
		names := make([]string, len(matches))
		for i, d := range matches {
			names[i] = d.name
		}
		f.Problem = fmt.Sprintf("%d devices (%s) are a %s: expected one (give the wwid too, or take a second path away)", len(matches), strings.Join(names, ", "), what)
		return f
	}
	d := matches[0]
	f.KernelDevice, f.Serial, f.WWID, f.Model, f.Interface = d.name, d.serial, d.wwid, d.model, d.kind
	if sectors, err := strconv.ParseInt(procfile.Line(sysBlock(roots, d.name, "size")), 10, 64); err == nil {
		f.SizeBytes = sectors * 512
	}
	f.Partitions = partitions(roots, d.name)
	f.Counted = []string{d.name}
	if d.kind == "nvme" {
		carrier := d.name
		if paths := nvmePaths(devices, d.name); len(paths) > 0 {
			f.Counted = paths
			carrier = paths[0]
		}
		f.Controller = controller(roots, carrier)
	}
	return f
}

func sysBlock(roots Roots, name string, rest ...string) string {
	return filepath.Join(append([]string{roots.Sys, "block", name}, rest...)...)
}

// identify reads what a block device reports.
func identify(roots Roots, name string) device {
	d := device{name: name, hidden: procfile.Line(sysBlock(roots, name, "hidden")) == "1"}
	isDir := func(rest ...string) bool {
		info, err := os.Stat(sysBlock(roots, name, rest...))
		return err == nil && info.IsDir()
	}
	switch {
	case strings.HasPrefix(name, "nvme"):
		// With native multipath "device" is the subsystem, which has the serial too.
		d.kind = "nvme"
		d.serial = procfile.Line(sysBlock(roots, name, "device", "serial"))
		d.wwid = procfile.Line(sysBlock(roots, name, "wwid"))
		d.model = procfile.Line(sysBlock(roots, name, "device", "model"))
	case isDir("md"):
		d.kind = "md"
	case isDir("dm"):
		d.kind = "dm"
	case strings.HasPrefix(name, "pmem"):
		d.kind, d.serial = "pmem", regionSerial(roots, name)
	case strings.HasPrefix(name, "ram"):
		// It has no serial: a lab declares it by its name, which is fixed.
		d.kind, d.serial = "ram", name
	case procfile.Line(sysBlock(roots, name, "device", "vendor")) != "" && isDir("device", "scsi_device"),
		exists(sysBlock(roots, name, "device", "vpd_pg80")):
		d.kind = "scsi"
		if procfile.Line(sysBlock(roots, name, "device", "vendor")) == "ATA" {
			d.kind = "ata"
		}
		d.serial = unitSerial(sysBlock(roots, name, "device", "vpd_pg80"))
		if adapter := debugAdapter(sysBlock(roots, name)); adapter != "" {
			d.serial = "scsi_debug-" + adapter
		}
		d.wwid = procfile.Line(sysBlock(roots, name, "device", "wwid"))
		d.model = procfile.Line(sysBlock(roots, name, "device", "model"))
	default:
		if d.serial = procfile.Line(sysBlock(roots, name, "serial")); d.serial != "" {
			d.kind = "virtio"
		}
		d.wwid = procfile.Line(sysBlock(roots, name, "wwid"))
	}
	return d
}

// regionSerial is what an inventory calls the region of persistent memory that a block device is
// of: the ids of the DIMMs that it lies on, joined by + where it is interleaved over several, or
// where in memory it starts, of one that the kernel's memmap= made. "" if neither is known.
func regionSerial(roots Roots, name string) string {
	place, err := filepath.EvalSymlinks(sysBlock(roots, name))
	if err != nil {
		return ""
	}
	for number := ""; ; place = filepath.Dir(place) {
		base := filepath.Base(place)
		if number, _ = strings.CutPrefix(base, "region"); number != base {
			if _, err := strconv.Atoi(number); err == nil {
				break
			}
		}
		if len(place) <= 1 {
			return ""
		}
	}
	if procfile.Line(filepath.Join(filepath.Dir(place), "provider")) == "e820" {
		return "e820-" + procfile.Line(filepath.Join(place, "resource"))
	}
	mappings, _ := strconv.Atoi(procfile.Line(filepath.Join(place, "mappings")))
	ids := make([]string, 0, mappings)
	for i := range mappings {
		dimm, _, _ := strings.Cut(procfile.Line(filepath.Join(place, fmt.Sprintf("mapping%d", i))), ",")
		id := procfile.Line(filepath.Join(roots.Sys, "bus/nd/devices", dimm, "nfit/id"))
		if id == "" {
			id = dimm
		}
		ids = append(ids, id)
	}
	return strings.Join(ids, "+")
}

// sameSerial compares serials; those of a region's DIMMs may come in any order.
func sameSerial(have, want string) bool {
	if have == want {
		return true
	}
	parts := func(serial string) []string { return slices.Sorted(slices.Values(strings.Split(serial, "+"))) }
	return strings.Contains(have, "+") && slices.Equal(parts(have), parts(want))
}

// debugAdapter is the number of the adapter that scsi_debug emulates for a disk; "" for any other
// disk. The serial that such a disk reports is made of the SCSI host's number, which changes with
// every load of the module.
func debugAdapter(link string) string {
	target, err := os.Readlink(link)
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(target, "/pseudo_0/adapter")
	if !ok {
		return ""
	}
	number, _, _ := strings.Cut(rest, "/")
	return number
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unitSerial reads SCSI vital product data page 80h (SPC-5 7.7.19): four bytes of header, the last
// two of which are the length, then the serial, padded.
func unitSerial(path string) string {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < 4 || b[1] != 0x80 {
		return ""
	}
	n := min(int(b[2])<<8|int(b[3]), len(b)-4)
	return strings.TrimSpace(strings.TrimRight(string(b[4:4+n]), "\x00"))
}

// sameWWID takes the sysfs form (naa.5000..., eui.0025...) and the bare hex digits with or without
// 0x, as labels and lsblk print them. The kernel pads the parts of a t10 one with blanks.
func sameWWID(have, want string) bool {
	if have == "" {
		return false
	}
	bare := func(s string) string {
		s = strings.ToLower(s)
		for _, prefix := range []string{"naa.", "eui.", "uuid.", "0x"} {
			s = strings.TrimPrefix(s, prefix)
		}
		return strings.Join(strings.Fields(s), "")
	}
	return bare(have) == bare(want)
}

// arrayDevice follows the link that udev makes for the name of an md array, or the rig for that of
// another one; "" if there is none. sysfs does not know the name.
func arrayDevice(roots Roots, name string) string {
	for _, folder := range []string{"md", "joulerig"} {
		if target, err := os.Readlink(filepath.Join(roots.Dev, folder, name)); err == nil {
			return filepath.Base(target)
		}
	}
	return ""
}

// nvmePaths are the hidden path devices nvmeXcYnZ of the multipath device nvmeXnZ.
func nvmePaths(devices []device, head string) []string {
	subsystem, namespace, ok := strings.Cut(strings.TrimPrefix(head, "nvme"), "n")
	if !ok {
		return nil
	}
	var paths []string
	for _, d := range devices {
		rest, isPath := strings.CutPrefix(d.name, "nvme"+subsystem+"c")
		number, ns, hasNamespace := strings.Cut(rest, "n")
		if _, err := strconv.Atoi(number); isPath && hasNamespace && err == nil && ns == namespace {
			paths = append(paths, d.name)
		}
	}
	slices.Sort(paths)
	return paths
}

func controller(roots Roots, name string) string {
	target, err := os.Readlink(sysBlock(roots, name, "device"))
	if err != nil {
		return ""
	}
	if base := filepath.Base(target); strings.HasPrefix(base, "nvme") && !strings.HasPrefix(base, "nvme-") {
		return base
	}
	return ""
}

// partitions are the directories of a disk that have a partition number.
func partitions(roots Roots, name string) []string {
	files, _ := filepath.Glob(sysBlock(roots, name, name+"*", "partition"))
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	return names
}
