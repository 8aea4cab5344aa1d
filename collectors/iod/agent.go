// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"joulerig/collectors/internal/blockstat"
	"joulerig/collectors/internal/drives"
	"joulerig/collectors/internal/hostload"
	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/jbd2"
	"joulerig/collectors/internal/procfile"
	"joulerig/collectors/lineprotocol"
)

const (
	// resolveInterval is how often the drives are looked up although no device came or went;
	// settleTime is how long after one did they are looked up every second, since links of udev
	// appear after the device.
	resolveInterval = 10 * time.Second
	settleTime      = 5 * time.Second
	// journalScanInterval is how soon a new mount is noticed. Its counters started at the mount, so
	// nothing is lost until then.
	journalScanInterval = time.Second
	// journalQuietTime is how long after a drive's last write its journals are still asked: a
	// transaction is counted once its blocks are written, and none is without a write. Asking is a
	// third of the agent's work.
	journalQuietTime = time.Second
	// spoolInterval is how long lines are gathered before they go to the spool in one write; a
	// crash of the agent costs as much.
	spoolInterval = 500 * time.Millisecond
	closeTimeout  = 5 * time.Second
)

// agent samples the host on one goroutine; health and the inlet run alongside it.
type agent struct {
	config *config
	report *reporter
	writer *influx.Writer
	inlet  *inlet
	blocks *blockstat.Table
	load   *hostload.Reader
	// journals is listed every journalScanInterval.
	journals *jbd2.Directory

	drives  []*drive
	found   atomic.Pointer[[]drives.Found] // as the drives, for the health goroutines
	workers sync.WaitGroup

	devices     uint64 // fingerprint of the device list
	resolveAt   time.Time
	settleUntil time.Time
	scanAt      time.Time
	loadAt      time.Time
	spoolAt     time.Time

	asked    atomic.Bool // to send at once, by a datagram
	loadKey  []byte
	encoder  lineprotocol.Encoder
	small    [2048]byte
	dropped  atomic.Int64 // lines that could not be spooled or were refused
	skipped  int64        // ticks
	rejected int64        // lines, as last reported
	refusal  string       // the writer's last error then
}

// drive is a drive of the configuration with what is needed at every tick.
type drive struct {
	name                            string
	blockKey, journalKey, healthKey []byte
	// rows of the block table: the counted devices, then the drive's own where that is not one of
	// them.
	rows     []int
	counted  int
	unwrap   []blockstat.Unwrap // of rows
	journals []*jbd2.Journal
	typed    *jbd2.Journal // whose file system journalKey names
	// What the journals said last, and until when they are asked again.
	written     blockstat.Counters
	logged      jbd2.Stats
	mounted     int // journals that said it
	journalsDue time.Time
}

func newAgent(c *config, stderr io.Writer) (*agent, error) {
	a := &agent{config: c, report: newReporter(stderr), journals: jbd2.NewDirectory(c.ProcRoot)}
	for _, w := range c.Drives {
		a.drives = append(a.drives, &drive{
			name:      w.Name,
			blockKey:  lineprotocol.AppendKey(nil, "blockio", "host", c.Host, "drive", w.Name),
			healthKey: lineprotocol.AppendKey(nil, "drive_health", "host", c.Host, "drive", w.Name),
		})
	}
	a.loadKey = lineprotocol.AppendKey(nil, "hostload", "host", c.Host)
	none := make([]drives.Found, len(c.Drives))
	a.found.Store(&none)
	var err error
	if a.blocks, err = blockstat.Open(c.ProcRoot); err != nil {
		return nil, fmt.Errorf("proc_root: %w", err)
	}
	if a.load, err = hostload.Open(c.ProcRoot, c.SysRoot); err != nil {
		a.blocks.Close()
		return nil, fmt.Errorf("proc_root: %w", err)
	}
	if a.writer, err = influx.Open(c.Influx); err != nil {
		a.blocks.Close()
		a.load.Close()
		// The key stands in this file under its short name.
		return nil, fmt.Errorf("%s", strings.Replace(err.Error(), "influx.spool_dir", "spool_dir", 1))
	}
	if c.Socket != "" {
		if a.inlet, err = openInlet(c.Socket); err != nil {
			a.blocks.Close()
			a.load.Close()
			_ = a.writer.Close(context.Background())
			return nil, err
		}
	}
	return a, nil
}

// run samples until ctx ends, then flushes.
func (a *agent) run(ctx context.Context) error {
	defer a.blocks.Close()
	defer a.load.Close()
	defer a.journals.Close()
	if a.inlet != nil {
		go a.inlet.receive(a.spool, func() { a.asked.Store(true) }, func(lines int, reason string) {
			a.dropped.Add(int64(lines))
			a.report.trouble("socket: refused lines", reason)
		})
	}
	a.resolve(time.Now())
	if c := a.config; c.HealthIntervalSeconds > 0 {
		a.workers.Add(1)
		go a.watchHealth(ctx, seconds(c.HealthIntervalSeconds), a.askNVMe)
	}
	if c := a.config; c.Smartctl != "" {
		a.workers.Add(1)
		go a.watchHealth(ctx, seconds(c.SmartctlIntervalSeconds), a.askATA)
	}
	a.sampleUntil(ctx)
	a.workers.Wait()
	if a.inlet != nil {
		a.inlet.drain()
	}
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := a.writer.Close(closing); err != nil {
		a.report.say("%v", err)
	}
	return nil
}

// sampleUntil ticks at absolute times, so that the interval does not drift. Ticks that are missed
// are not made up for: the counters are cumulative.
func (a *agent) sampleUntil(ctx context.Context) {
	interval := seconds(a.config.IntervalSeconds)
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := int64(0); ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			a.spoolAt = time.Time{}
			a.tick(time.Now()) // the last counts before the end
			return
		}
		now := time.Now()
		a.tick(now)
		k++
		if late := int64(time.Since(start)/interval) - k + 1; late > 0 {
			a.skipped += late
			k += late
		}
		timer.Reset(time.Until(start.Add(time.Duration(k) * interval)))
	}
}

// tick reads everything that is due. now says what is; it is no point's time, since looking the
// drives up may stand between it and a reading.
func (a *agent) tick(now time.Time) {
	asked := a.asked.Swap(false) // before the readings: the count that it waits for is among them
	a.readBlocks(now)
	if !now.Before(a.scanAt) {
		a.scanAt = now.Add(journalScanInterval)
		a.scanJournals()
	}
	a.readJournals()
	if !now.Before(a.loadAt) {
		a.loadAt = now.Add(seconds(a.config.HostloadIntervalSeconds) - seconds(a.config.IntervalSeconds)/2)
		a.readLoad()
		a.watchWriter()
	}
	if asked || !now.Before(a.spoolAt) {
		a.spoolAt = now.Add(spoolInterval - seconds(a.config.IntervalSeconds)/2)
		a.spool(a.encoder.Bytes())
		a.encoder.Reset()
	}
	if asked {
		a.writer.Send()
	}
}

// spool hands lines to the writer, and counts them where it cannot take them.
func (a *agent) spool(lines []byte) bool {
	if err := a.writer.Write(lines); err != nil {
		a.dropped.Add(int64(bytes.Count(lines, []byte{'\n'})))
		a.report.trouble("dropped lines", err.Error())
		return false
	}
	if len(lines) > 0 {
		a.report.well("dropped lines")
	}
	return true
}

// readBlocks encodes a blockio point of each drive that is there.
func (a *agent) readBlocks(now time.Time) {
	devices, at, err := a.readTable()
	if err == nil && (devices != a.devices || !now.Before(a.resolveAt)) {
		if devices != a.devices {
			a.settleUntil = now.Add(settleTime)
		}
		a.devices = devices
		a.resolve(now)
		_, at, err = a.readTable()
	}
	if err == nil && a.carryOn() {
		// A device's counts fell: another drive has taken its name between two readings. Nothing is
		// attributed before it is known whose they are.
		a.resolve(now)
		if _, at, err = a.readTable(); err == nil {
			a.carryOn()
		}
	}
	if err != nil {
		a.report.trouble("block counters", err.Error())
		return
	}
	a.report.well("block counters")
	for _, d := range a.drives {
		if c, ok := a.counters(d); ok {
			encodeBlockIO(&a.encoder, d.blockKey, &c, at.UnixNano())
		}
	}
}

// readTable reads the block counters, as they were at the time it gives.
func (a *agent) readTable() (devices uint64, at time.Time, err error) {
	at = readWithTimestamp(func() { devices, err = a.blocks.Read() })
	return devices, at, err
}

// carryOn applies the unwrapping of times to the rows just read.
func (a *agent) carryOn() (another bool) {
	for _, d := range a.drives {
		for i, row := range d.rows {
			if r := a.blocks.Row(row); r.Present && d.unwrap[i].Apply(&r.Counters) {
				another = true
			}
		}
	}
	return another
}

// counters adds up a drive's counted devices; where the kernel lists none of them (paths of a
// multipath drive), the drive's own device counts.
func (a *agent) counters(d *drive) (sum blockstat.Counters, ok bool) {
	for i, row := range d.rows {
		if r := a.blocks.Row(row); r.Present && (i < d.counted || !ok) {
			sum.Add(&r.Counters)
			ok = true
		}
	}
	return sum, ok
}

func encodeBlockIO(e *lineprotocol.Encoder, key []byte, c *blockstat.Counters, realtimeNs int64) {
	e.BeginKey(key)
	e.Int("reads", int64(c.Reads))
	e.Int("read_bytes", int64(c.ReadSectors)*blockstat.SectorBytes)
	e.Float("read_seconds", float64(c.ReadMs)/1000)
	e.Int("writes", int64(c.Writes))
	e.Int("write_bytes", int64(c.WriteSectors)*blockstat.SectorBytes)
	e.Float("write_seconds", float64(c.WriteMs)/1000)
	if c.HasFlushes {
		e.Int("flushes", int64(c.Flushes))
		e.Float("flush_seconds", float64(c.FlushMs)/1000)
	}
	if c.HasDiscards {
		e.Int("discards", int64(c.Discards))
		e.Int("discard_bytes", int64(c.DiscardSectors)*blockstat.SectorBytes)
	}
	e.Int("in_flight", int64(c.InFlight))
	e.Float("busy_seconds", float64(c.BusyMs)/1000)
	e.End(realtimeNs)
}

// resolve looks the drives up again.
func (a *agent) resolve(now time.Time) {
	a.resolveAt = now.Add(resolveInterval)
	if now.Before(a.settleUntil) {
		a.resolveAt = now.Add(time.Second)
	}
	found, err := drives.Resolve(a.config.roots(), a.config.Drives)
	if err != nil {
		a.report.trouble("find the drives", err.Error())
		// Without an identity no count is anybody's.
		found = make([]drives.Found, len(a.drives))
		a.found.Store(&found)
		for _, d := range a.drives {
			d.rows, d.journals = nil, nil
		}
		return
	}
	a.report.well("find the drives")
	old := *a.found.Load()
	var names []string
	for i, d := range a.drives {
		f := &found[i]
		switch {
		case f.Problem != "":
			a.report.trouble("drive "+d.name, f.Problem)
		case f.KernelDevice != old[i].KernelDevice:
			a.report.well("drive " + d.name)
			a.report.say("drive %s: is %s (%s)", d.name, f.KernelDevice, strings.Join(f.Counted, " + "))
		}
		d.rows, d.counted = nil, len(f.Counted)
		for _, name := range append(slices.Clone(f.Counted), f.KernelDevice) {
			if name != "" && !slices.Contains(names, name) {
				d.rows = append(d.rows, len(names))
				names = append(names, name)
			}
		}
		if f.KernelDevice != old[i].KernelDevice || !slices.Equal(f.Counted, old[i].Counted) {
			d.unwrap = make([]blockstat.Unwrap, len(d.rows))
			d.journals = nil
		}
	}
	a.found.Store(&found)
	a.blocks.Want(names)
	a.scanAt = now
}

// scanJournals looks which of the drives carry a mounted file system with a journal.
func (a *agent) scanJournals() {
	mounted := a.journals.List()
	found := *a.found.Load()
	for i, d := range a.drives {
		f := &found[i]
		before := len(d.journals)
		d.journals = d.journals[:0]
		for _, j := range mounted {
			if f.KernelDevice != "" && (j.Device == f.KernelDevice || slices.Contains(f.Partitions, j.Device)) {
				d.journals = append(d.journals, j)
			}
		}
		if len(d.journals) != before {
			d.journalsDue = time.Now().Add(journalQuietTime)
		}
		if len(d.journals) > 0 && d.journals[0] != d.typed {
			d.journalsDue = time.Now().Add(journalQuietTime)
			// Asked once a mount: the list of mounts is long.
			d.typed = d.journals[0]
			d.journalKey = lineprotocol.AppendKey(nil, "fsjournal", "host", a.config.Host, "drive", d.name,
				"filesystem", a.filesystem(d.typed.Device))
		}
	}
}

// filesystem is the type of what is mounted from the device. Where the mount is not in sight
// (another mount namespace) it is taken to be ext4.
func (a *agent) filesystem(device string) string {
	f, err := procfile.Open(a.config.ProcRoot+"/mounts", 4<<10)
	if err != nil {
		return "ext4"
	}
	defer f.Close()
	mounts, err := f.Read()
	if err != nil {
		return "ext4"
	}
	for len(mounts) > 0 {
		var line []byte
		line, mounts = procfile.NextLine(mounts)
		if fields := bytes.Fields(line); len(fields) > 2 && string(fields[0]) == "/dev/"+device {
			return string(fields[2])
		}
	}
	return "ext4"
}

// readJournals encodes an fsjournal point of each drive with a journal. What is not asked stands as
// it was at any time since: nothing has been written.
func (a *agent) readJournals() {
	for _, d := range a.drives {
		if len(d.journals) == 0 {
			continue
		}
		now := time.Now()
		c, ok := a.counters(d)
		if !ok || c.Writes != d.written.Writes || c.WriteSectors != d.written.WriteSectors {
			d.written = c
			d.journalsDue = now.Add(journalQuietTime)
		}
		if !now.After(d.journalsDue) {
			now = readWithTimestamp(func() { d.askJournals(a.small[:]) })
		}
		if d.mounted == 0 {
			continue
		}
		a.encoder.BeginKey(d.journalKey)
		a.encoder.Int("transactions", int64(d.logged.Transactions))
		a.encoder.Int("blocks_logged", int64(d.logged.BlocksLogged))
		a.encoder.End(now.UnixNano())
	}
}

func (d *drive) askJournals(buf []byte) {
	d.logged, d.mounted = jbd2.Stats{}, 0
	for _, j := range d.journals {
		stats, err := j.Read(buf)
		if err != nil {
			continue // unmounted; the next scan drops it
		}
		d.logged.Transactions += stats.Transactions
		d.logged.BlocksLogged += stats.BlocksLogged
		d.mounted++
	}
}

// readLoad encodes the hostload point, without the fields that cannot be read.
func (a *agent) readLoad() {
	var busy, agent, joules float64
	var used int64
	var busyErr, usedErr error
	var hasJoules bool
	at := readWithTimestamp(func() {
		joules, hasJoules = a.load.PackageJoules()
		busy, busyErr = a.load.CPUBusySeconds()
		agent = hostload.AgentCPUSeconds()
		used, usedErr = a.load.MemoryUsedBytes()
	})
	e := &a.encoder
	e.BeginKey(a.loadKey)
	if busyErr != nil {
		a.report.trouble("CPU load", busyErr.Error())
	} else {
		e.Float("cpu_busy_seconds", busy)
	}
	e.Float("agent_cpu_seconds", agent)
	if usedErr != nil {
		a.report.trouble("memory use", usedErr.Error())
	} else {
		e.Int("memory_used_bytes", used)
	}
	if hasJoules {
		e.Float("package_joules", joules)
	}
	stats := a.writer.Stats()
	e.Int("spooled_bytes", stats.SpooledBytes)
	e.Int("dropped_lines", a.dropped.Load()+stats.RejectedLines)
	e.Int("skipped_ticks", a.skipped)
	e.End(at.UnixNano())
}

// watchWriter reports outages and rejections.
func (a *agent) watchWriter() {
	stats := a.writer.Stats()
	if stats.RejectedLines > a.rejected {
		a.report.trouble("InfluxDB: rejected lines", fmt.Sprintf("%d so far, kept in %s/rejected.lp: %s",
			stats.RejectedLines, a.config.Influx.SpoolDir, stats.LastError))
		a.rejected, a.refusal = stats.RejectedLines, stats.LastError
	}
	if stats.LastError == "" || stats.LastError == a.refusal {
		a.report.well("InfluxDB")
	} else {
		a.report.trouble("InfluxDB", stats.LastError+" (lines wait in the spool)")
	}
}
