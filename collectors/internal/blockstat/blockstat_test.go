// SPDX-License-Identifier: GPL-3.0-or-later

package blockstat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs/blockdevice"
)

const fixture = "../testdata/host1/proc"

func read(t *testing.T, procRoot string, names ...string) *Table {
	t.Helper()
	table, err := Open(procRoot)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	table.Want(names)
	if _, err := table.Read(); err != nil {
		t.Fatal(err)
	}
	return table
}

func TestReadsAllCountersOfADevice(t *testing.T) {
	row := read(t, fixture, "nvme0n1").Row(0)
	want := Counters{
		Reads: 1200, ReadSectors: 98304, ReadMs: 480, Writes: 56000, WriteSectors: 7340032, WriteMs: 91234,
		InFlight: 3, BusyMs: 45678, Discards: 120, DiscardSectors: 983040, DiscardMs: 77, Flushes: 5400, FlushMs: 723,
		HasDiscards: true, HasFlushes: true,
	}
	if !row.Present || row.Counters != want {
		t.Errorf("got %+v, expected %+v", row, want)
	}
}

func TestOlderKernelsHaveFewerCounters(t *testing.T) {
	table := read(t, fixture, "sdc", "sde")
	if r := table.Row(0); !r.Present || r.HasDiscards || r.HasFlushes {
		t.Errorf("11 fields: %+v", r)
	}
	if r := table.Row(1); !r.Present || !r.HasDiscards || r.HasFlushes || r.Discards != 2 || r.DiscardSectors != 16 {
		t.Errorf("15 fields: %+v", r)
	}
}

func TestNamesAreComparedWhole(t *testing.T) {
	table := read(t, fixture, "nvme0n", "sd", "nvme0n1p1")
	if table.Row(0).Present || table.Row(1).Present || !table.Row(2).Present {
		t.Errorf("rows %+v %+v %+v", table.Row(0), table.Row(1), table.Row(2))
	}
}

func TestAVanishedDeviceIsNotPresent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "diskstats")
	both := " 8 0 sda 1 0 8 1 1 0 8 1 0 1 2\n 8 16 sdb 1 0 8 1 1 0 8 1 0 1 2\n"
	if err := os.WriteFile(path, []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	table := read(t, dir, "sda", "sdb")
	before, _ := table.Read()
	if again, _ := table.Read(); again != before {
		t.Error("the fingerprint changed although nothing did")
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(both, "sdb 1 0 8", "sdb 2 0 16")), 0o600); err != nil {
		t.Fatal(err)
	}
	if counted, _ := table.Read(); counted != before {
		t.Error("the fingerprint changed with a count")
	}
	if err := os.WriteFile(path, []byte(" 8 0 sda 1 0 8 1 1 0 8 1 0 1 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	after, err := table.Read()
	if err != nil || after == before {
		t.Errorf("fingerprint %x, before %x, error %v", after, before, err)
	}
	if !table.Row(0).Present || table.Row(1).Present {
		t.Errorf("rows %+v %+v", table.Row(0), table.Row(1))
	}
}

func TestLinesThatAreNotOnesOfTheKernelAreSkipped(t *testing.T) {
	dir := t.TempDir()
	text := "\nnonsense\n 8\n 8 0\n 8 0 sda 1 2 3\n 8 16 sdb 1 0 8 1 1 0 8 1 0 1 2"
	if err := os.WriteFile(filepath.Join(dir, "diskstats"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table := read(t, dir, "sda", "sdb")
	if table.Row(0).Present || !table.Row(1).Present {
		t.Errorf("rows %+v %+v", table.Row(0), table.Row(1))
	}
}

func TestAddsThePathsOfADrive(t *testing.T) {
	table := read(t, fixture, "nvme1c1n1", "nvme1c2n1")
	var sum Counters
	sum.Add(&table.Row(0).Counters)
	sum.Add(&table.Row(1).Counters)
	want := Counters{
		Reads: 711, ReadSectors: 5688, ReadMs: 72, Writes: 305, WriteSectors: 2440, WriteMs: 34, InFlight: 1, BusyMs: 93,
		Discards: 1, DiscardSectors: 8, DiscardMs: 1, Flushes: 22, FlushMs: 6, HasDiscards: true, HasFlushes: true,
	}
	if sum != want {
		t.Errorf("sum %+v, want %+v", sum, want)
	}
	sum.Add(&Counters{Reads: 1, DiscardSectors: 3, FlushMs: 4}) // of a path that counts neither
	if sum.Reads != 712 || sum.DiscardSectors != 11 || sum.FlushMs != 10 || !sum.HasDiscards || !sum.HasFlushes {
		t.Errorf("sum %+v", sum)
	}
}

func TestTimesCarryOnWhereTheKernelWraps(t *testing.T) {
	var u Unwrap
	c := Counters{Writes: 10, WriteMs: 1<<32 - 100, BusyMs: 1<<32 - 1}
	u.Apply(&c)
	c = Counters{Writes: 20, WriteMs: 50, BusyMs: 3}
	if u.Apply(&c) {
		t.Error("a wrap was taken for another device")
	}
	if c.WriteMs != 1<<32+50 || c.BusyMs != 1<<32+3 {
		t.Errorf("times %d %d", c.WriteMs, c.BusyMs)
	}
	c = Counters{Writes: 30, WriteMs: 60, BusyMs: 4}
	u.Apply(&c)
	if c.WriteMs != 1<<32+60 {
		t.Errorf("the carry was lost: %d", c.WriteMs)
	}
}

func TestEachTimeIsCarriedOnByItself(t *testing.T) {
	var u Unwrap
	const late = 1<<32 - 10
	u.Apply(&Counters{ReadMs: late, WriteMs: 1, FlushMs: 1, BusyMs: 1})
	c := Counters{ReadMs: 2, WriteMs: 1, FlushMs: late, BusyMs: 1}
	u.Apply(&c)
	if c.ReadMs != 1<<32+2 || c.WriteMs != 1 || c.FlushMs != late || c.BusyMs != 1 {
		t.Errorf("after the read time wrapped: %+v", c)
	}
	c = Counters{ReadMs: 2, WriteMs: late, FlushMs: 5, BusyMs: 1}
	u.Apply(&c)
	if c.ReadMs != 1<<32+2 || c.WriteMs != late || c.FlushMs != 1<<32+5 || c.BusyMs != 1 {
		t.Errorf("after the flush time wrapped: %+v", c)
	}
}

func TestEachCountThatFallsIsAnotherDevice(t *testing.T) {
	before := Counters{Reads: 10, Writes: 20, Discards: 30, WriteMs: 500}
	for what, c := range map[string]struct {
		now     Counters
		another bool
	}{
		"reads":    {Counters{Reads: 9, Writes: 20, Discards: 30, WriteMs: 7}, true},
		"writes":   {Counters{Reads: 10, Writes: 19, Discards: 30, WriteMs: 7}, true},
		"discards": {Counters{Reads: 10, Writes: 20, Discards: 29, WriteMs: 7}, true},
		"none":     {before, false},
	} {
		var u Unwrap
		first := before
		u.Apply(&first)
		want := c.now.WriteMs
		if another := u.Apply(&c.now); another != c.another || c.now.WriteMs != want {
			t.Errorf("%s fall: another device %v, its time %d, want %v and %d", what, another, c.now.WriteMs, c.another, want)
		}
	}
}

func TestCountsThatFallAreAnotherDevice(t *testing.T) {
	var u Unwrap
	c := Counters{Reads: 100, Writes: 100, WriteMs: 500}
	u.Apply(&c)
	c = Counters{Reads: 2, Writes: 1, WriteMs: 7}
	if !u.Apply(&c) {
		t.Error("another device was not noticed")
	}
	if c.WriteMs != 7 {
		t.Errorf("its time is %d, expected its own", c.WriteMs)
	}
}

// The same figures as the library that node_exporter uses.
func TestAgreesWithProcfs(t *testing.T) {
	fs, err := blockdevice.NewFS(fixture, "../testdata/host1/sys")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := fs.ProcDiskstats()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range theirs {
		names = append(names, d.DeviceName)
	}
	if len(names) < 10 {
		t.Fatalf("only %d devices", len(names))
	}
	table := read(t, fixture, names...)
	for i, d := range theirs {
		want := Row{Present: true, Counters: Counters{
			Reads: d.ReadIOs, ReadSectors: d.ReadSectors, ReadMs: d.ReadTicks,
			Writes: d.WriteIOs, WriteSectors: d.WriteSectors, WriteMs: d.WriteTicks,
			InFlight: d.IOsInProgress, BusyMs: d.IOsTotalTicks,
			Discards: d.DiscardIOs, DiscardSectors: d.DiscardSectors, DiscardMs: d.DiscardTicks,
			Flushes: d.FlushRequestsCompleted, FlushMs: d.TimeSpentFlushing,
			HasDiscards: d.IoStatsCount >= 18, HasFlushes: d.IoStatsCount >= 20,
		}}
		if got := *table.Row(i); got != want {
			t.Errorf("%s: got %+v, procfs %+v", d.DeviceName, got, want)
		}
	}
}

func TestReadDoesNotAllocate(t *testing.T) {
	table := read(t, fixture, "nvme0n1", "sda")
	if n := testing.AllocsPerRun(100, func() { _, _ = table.Read() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a tick pays on the machine that runs it.
func BenchmarkReadProc(b *testing.B) {
	table, err := Open("/proc")
	if err != nil {
		b.Fatal(err)
	}
	defer table.Close()
	table.Want([]string{"nvme0n1", "sda", "vda"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadProcWithProcfs(b *testing.B) {
	fs, err := blockdevice.NewDefaultFS()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := fs.ProcDiskstats(); err != nil {
			b.Fatal(err)
		}
	}
}
