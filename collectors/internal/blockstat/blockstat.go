// SPDX-License-Identifier: GPL-3.0-or-later

// Package blockstat reads the block layer's counters, /proc/diskstats.
//
// prometheus/procfs reads the same file through a Scanner and Sscanf; the benchmark next to this
// package's tests compares the two, its test holds this parser to the same figures.
package blockstat

import (
	"hash/maphash"

	"joulerig/collectors/internal/procfile"
)

// Counters is what the kernel counts for one block device since it appeared
// (Documentation/admin-guide/iostats.rst). A sector is 512 bytes, whatever the device's own.
type Counters struct {
	Reads, ReadSectors, ReadMs          uint64
	Writes, WriteSectors, WriteMs       uint64
	InFlight, BusyMs                    uint64
	Discards, DiscardSectors, DiscardMs uint64 // kernel 4.18
	Flushes, FlushMs                    uint64 // kernel 5.5
	HasDiscards, HasFlushes             bool
}

// SectorBytes is the unit of the sector counts.
const SectorBytes = 512

// Add adds another device's counters: the paths of one drive.
func (c *Counters) Add(o *Counters) {
	c.Reads += o.Reads
	c.ReadSectors += o.ReadSectors
	c.ReadMs += o.ReadMs
	c.Writes += o.Writes
	c.WriteSectors += o.WriteSectors
	c.WriteMs += o.WriteMs
	c.InFlight += o.InFlight
	c.BusyMs += o.BusyMs
	c.Discards += o.Discards
	c.DiscardSectors += o.DiscardSectors
	c.DiscardMs += o.DiscardMs
	c.Flushes += o.Flushes
	c.FlushMs += o.FlushMs
	c.HasDiscards = c.HasDiscards || o.HasDiscards
	c.HasFlushes = c.HasFlushes || o.HasFlushes
}

// Table is the readings of the devices that are asked for.
type Table struct {
	file *procfile.File
	seed maphash.Seed
	want map[string]int
	rows []Row
}

// Row is one device's last reading.
type Row struct {
	Counters
	Present bool // it had a line in the last reading
}

// Open opens procRoot/diskstats.
func Open(procRoot string) (*Table, error) {
	f, err := procfile.Open(procRoot+"/diskstats", 16<<10)
	if err != nil {
		return nil, err
	}
	return &Table{file: f, seed: maphash.MakeSeed()}, nil
}

// Want says which kernel names Read is to look for; Row(i) is the i-th of them.
func (t *Table) Want(names []string) {
	t.want = make(map[string]int, len(names))
	t.rows = make([]Row, len(names))
	for i, name := range names {
		t.want[name] = i
	}
}

// Row is the last reading of the i-th name.
func (t *Table) Row(i int) *Row { return &t.rows[i] }

// Read reads all rows at once. devices is a fingerprint of the numbers and names of all devices in
// the file: it changes when one comes or goes.
func (t *Table) Read() (devices uint64, err error) {
	content, err := t.file.Read()
	if err != nil {
		return 0, err
	}
	for i := range t.rows {
		t.rows[i] = Row{}
	}
	for len(content) > 0 {
		var line []byte
		line, content = procfile.NextLine(content)
		head, name, fields := splitLine(line)
		if name == nil {
			continue
		}
		devices = devices*31 + maphash.Bytes(t.seed, head)
		if i, ok := t.want[string(name)]; ok {
			t.rows[i].Present = parse(&t.rows[i].Counters, fields)
		}
	}
	return devices, nil
}

// Close closes the file.
func (t *Table) Close() { t.file.Close() }

// splitLine gives "major minor name", the name, and what follows.
func splitLine(line []byte) (head, name, fields []byte) {
	_, rest, ok := procfile.Uint(line)
	if !ok {
		return nil, nil, nil
	}
	if _, rest, ok = procfile.Uint(rest); !ok {
		return nil, nil, nil
	}
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	n := 0
	for n < len(rest) && rest[n] != ' ' {
		n++
	}
	if n == 0 {
		return nil, nil, nil
	}
	return line[:len(line)-len(rest)+n], rest[:n], rest[n:]
}

// parse reads the fields behind the name: 11 before kernel 4.18, 15 before 5.5, 17 since.
func parse(c *Counters, fields []byte) bool {
	var v [17]uint64
	n := 0
	for n < len(v) {
		value, rest, ok := procfile.Uint(fields)
		if !ok {
			break
		}
		v[n] = value
		n++
		fields = rest
	}
	if n < 11 {
		return false
	}
	*c = Counters{
		Reads: v[0], ReadSectors: v[2], ReadMs: v[3],
		Writes: v[4], WriteSectors: v[6], WriteMs: v[7],
		InFlight: v[8], BusyMs: v[9],
		Discards: v[11], DiscardSectors: v[13], DiscardMs: v[14],
		Flushes: v[15], FlushMs: v[16],
		HasDiscards: n >= 15, HasFlushes: n >= 17,
	}
	return true
}

// Unwrap carries the times on where the kernel's 32-bit milliseconds wrap: read, write and flush
// times add up over all requests in flight, so that at queue depth 32 they wrap after a day and a
// half.
type Unwrap struct {
	read, write, flush, busy wrapping
	reads, writes, discards  uint64
}

// Apply replaces the times by the carried-on ones. It says whether the counts fell, which they
// never do in the life of a device: this is another one, and its times restart.
func (u *Unwrap) Apply(c *Counters) (another bool) {
	if c.Reads < u.reads || c.Writes < u.writes || c.Discards < u.discards {
		*u = Unwrap{}
		another = true
	}
	u.reads, u.writes, u.discards = c.Reads, c.Writes, c.Discards
	c.ReadMs = u.read.next(c.ReadMs)
	c.WriteMs = u.write.next(c.WriteMs)
	c.FlushMs = u.flush.next(c.FlushMs)
	c.BusyMs = u.busy.next(c.BusyMs)
	return another
}

type wrapping struct {
	last, carry uint64
}

func (w *wrapping) next(v uint64) uint64 {
	if v < w.last {
		w.carry += 1 << 32
	}
	w.last = v
	return w.carry + v
}
