// SPDX-License-Identifier: GPL-3.0-or-later

package hostload

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func host1(t *testing.T) *Reader {
	t.Helper()
	r, err := Open("../testdata/host1/proc", "../testdata/host1/sys")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestBusyTimeIsNeitherIdleNorWaitingNorStolen(t *testing.T) {
	busy, err := host1(t).CPUBusySeconds()
	if want := float64(12345+100+2345+11+222) / 100; err != nil || math.Abs(busy-want) > 1e-9 {
		t.Errorf("%v (%v), expected %v", busy, err, want)
	}
}

func TestMemoryUsedIsWhatIsNotAvailable(t *testing.T) {
	used, err := host1(t).MemoryUsedBytes()
	if want := int64(4023456-3023456) * 1024; err != nil || used != want {
		t.Errorf("%v (%v), expected %v", used, err, want)
	}
}

func TestOtherFormatsAreErrorsNotZeros(t *testing.T) {
	for _, text := range []string{"", "cpu0 1 2 3 4 5 6 7\n", "cpu  1 2 3\n"} {
		if v, err := parseCPU([]byte(text)); err == nil {
			t.Errorf("stat %q read as %v", text, v)
		}
	}
	for _, text := range []string{"", "MemTotal: 5 kB\n", "MemAvailable: 5 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n"} {
		if v, err := parseMemory([]byte(text)); err == nil {
			t.Errorf("meminfo %q read as %v", text, v)
		}
	}
}

func rapl(t *testing.T, zones map[string]string) (sys string, set func(zone, uj string)) {
	sys = t.TempDir()
	write := func(zone, file, text string) {
		path := filepath.Join(sys, "class/powercap", zone, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for zone, name := range zones {
		write(zone, "name", name)
		write(zone, "max_energy_range_uj", "262143328850")
		write(zone, "energy_uj", "0")
	}
	return sys, func(zone, uj string) { write(zone, "energy_uj", uj) }
}

func TestPackageEnergyIsTheSumOfPackagesAndWraps(t *testing.T) {
	sys, set := rapl(t, map[string]string{
		"intel-rapl:0": "package-0", "intel-rapl:1": "package-1",
		"intel-rapl:0:0": "core", "intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0",
	})
	r := &Reader{packages: findPackages(sys)}
	set("intel-rapl:0", "262143000000")
	set("intel-rapl:1", "1000000")
	if j, ok := r.PackageJoules(); !ok || j != 0 {
		t.Errorf("at first %v %v, expected 0", j, ok)
	}
	set("intel-rapl:0", "1000000") // wrapped: 328850 + 1000000
	set("intel-rapl:1", "3000000")
	set("intel-rapl:0:0", "900000000")
	set("intel-rapl:2", "900000000")
	set("intel-rapl-mmio:0", "900000000")
	if j, ok := r.PackageJoules(); !ok || math.Abs(j-3.32885) > 1e-9 {
		t.Errorf("%v %v, expected 3.32885", j, ok)
	}
}

func TestNoSumWithoutAllPackages(t *testing.T) {
	sys, _ := rapl(t, map[string]string{"intel-rapl:0": "package-0", "intel-rapl:1": "package-1"})
	r := &Reader{packages: findPackages(sys)}
	r.PackageJoules()
	os.Remove(filepath.Join(sys, "class/powercap/intel-rapl:1/energy_uj"))
	if j, ok := r.PackageJoules(); ok {
		t.Errorf("%v joules of half the packages", j)
	}
	if j, ok := (&Reader{packages: findPackages(t.TempDir())}).PackageJoules(); ok {
		t.Errorf("%v joules without RAPL", j)
	}
}

func TestAgentTimeGrows(t *testing.T) {
	before := AgentCPUSeconds()
	x := 1.0
	for i := range 30_000_000 {
		x += math.Sqrt(float64(i))
	}
	if after := AgentCPUSeconds(); x < 0 || after <= before {
		t.Errorf("%v before, %v after", before, after)
	}
}
