// SPDX-License-Identifier: GPL-3.0-or-later

// Package hostload reads what the host itself spends: CPU time, memory and, where the processor
// counts it, energy.
package hostload

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"joulerig/collectors/internal/procfile"
)

// userHz is the unit of /proc/stat: USER_HZ, 100 on every architecture Linux still runs on but
// Alpha.
const userHz = 100

// Reader reads the load of one host.
type Reader struct {
	stat, meminfo *procfile.File
	packages      []raplPackage
}

// Open opens the files. A host without RAPL, or one that keeps it to root (since CVE-2020-8694),
// has no packages.
func Open(procRoot, sysRoot string) (*Reader, error) {
	// /proc/stat ends in a line with a number per interrupt: long on servers.
	stat, err := procfile.Open(procRoot+"/stat", 16<<10)
	if err != nil {
		return nil, err
	}
	meminfo, err := procfile.Open(procRoot+"/meminfo", 4<<10)
	if err != nil {
		stat.Close()
		return nil, err
	}
	return &Reader{stat: stat, meminfo: meminfo, packages: findPackages(sysRoot)}, nil
}

// Close closes the files.
func (r *Reader) Close() {
	r.stat.Close()
	r.meminfo.Close()
}

// CPUBusySeconds is the time all CPUs together have worked since boot: user, nice, system,
// interrupts. Not idle, not waiting for I/O, and not stolen (in a virtual machine: time that others
// ran).
func (r *Reader) CPUBusySeconds() (float64, error) {
	content, err := r.stat.Read()
	if err != nil {
		return 0, err
	}
	return parseCPU(content)
}

func parseCPU(content []byte) (float64, error) {
	line, _ := procfile.NextLine(content)
	rest, ok := bytes.CutPrefix(line, []byte("cpu "))
	if !ok {
		return 0, errors.New("stat: the first line is not that of all CPUs")
	}
	var busy uint64
	// user nice system idle iowait irq softirq; guest time is within user.
	for i := range 7 {
		var v uint64
		if v, rest, ok = procfile.Uint(rest); !ok {
			return 0, errors.New("stat: fewer than 7 fields for all CPUs")
		}
		if i != 3 && i != 4 {
			busy += v
		}
	}
	return float64(busy) / userHz, nil
}

// MemoryUsedBytes is MemTotal - MemAvailable: what cannot be had for a new program without
// swapping.
func (r *Reader) MemoryUsedBytes() (int64, error) {
	content, err := r.meminfo.Read()
	if err != nil {
		return 0, err
	}
	return parseMemory(content)
}

func parseMemory(content []byte) (int64, error) {
	var total, available uint64
	var haveTotal, haveAvailable bool
	for len(content) > 0 && !(haveTotal && haveAvailable) {
		var line []byte
		line, content = procfile.NextLine(content)
		if rest, ok := bytes.CutPrefix(line, []byte("MemTotal:")); ok {
			total, _, haveTotal = procfile.Uint(rest)
		} else if rest, ok := bytes.CutPrefix(line, []byte("MemAvailable:")); ok {
			available, _, haveAvailable = procfile.Uint(rest)
		}
	}
	if !haveTotal || !haveAvailable {
		return 0, errors.New("meminfo: no MemTotal or no MemAvailable")
	}
	return (int64(total) - int64(available)) * 1024, nil
}

// AgentCPUSeconds is the time of this process and of the programs it ran.
func AgentCPUSeconds() float64 {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if syscall.Getrusage(who, &usage) == nil {
			total += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		}
	}
	return total.Seconds()
}

// raplPackage is a processor package's energy counter in sysfs (powercap): microjoules that go back
// to 0 after max_energy_range_uj.
type raplPackage struct {
	path     string
	rangeUj  uint64
	lastUj   uint64
	sumUj    uint64
	haveLast bool
}

func findPackages(sysRoot string) []raplPackage {
	// intel-rapl:N are packages (and psys, which counts them again); intel-rapl:N:M are parts of
	// one; intel-rapl-mmio is the same package through another register.
	zones, _ := filepath.Glob(filepath.Join(sysRoot, "class", "powercap", "intel-rapl:*"))
	var packages []raplPackage
	for _, zone := range zones {
		if strings.Count(filepath.Base(zone), ":") != 1 || !strings.HasPrefix(procfile.Line(filepath.Join(zone, "name")), "package") {
			continue
		}
		p := raplPackage{path: filepath.Join(zone, "energy_uj")}
		p.rangeUj, _ = strconv.ParseUint(procfile.Line(filepath.Join(zone, "max_energy_range_uj")), 10, 64)
		if _, err := os.ReadFile(p.path); err != nil || p.rangeUj == 0 {
			continue
		}
		packages = append(packages, p)
	}
	return packages
}

// PackageJoules is the energy of all packages since the first call. False where there is no
// counter, or where one could not be read: a sum of some packages would be a wrong figure. It must
// be called more often than a counter goes round (minutes).
func (r *Reader) PackageJoules() (float64, bool) {
	var buf [32]byte
	var sum uint64
	for i := range r.packages {
		p := &r.packages[i]
		content, err := procfile.ReadInto(p.path, buf[:])
		if err != nil {
			return 0, false
		}
		uj, _, ok := procfile.Uint(content)
		if !ok {
			return 0, false
		}
		if p.haveLast {
			delta := uj - p.lastUj
			if uj < p.lastUj {
				delta = p.rangeUj - p.lastUj + uj
			}
			p.sumUj += delta
		}
		p.lastUj, p.haveLast = uj, true
		sum += p.sumUj
	}
	return float64(sum) / 1e6, len(r.packages) > 0
}
