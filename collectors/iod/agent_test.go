// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// ticking is an agent of the captured host that ticks when a test says so. Its InfluxDB is away.
type ticking struct {
	*agent
	host *host
	now  time.Time
}

func newTicking(t *testing.T) *ticking {
	t.Helper()
	h := newHost(t, "http://127.0.0.1:1")
	delete(h.conf, "socket")
	c, err := readConfig(h.config())
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.blocks.Close()
		a.load.Close()
		a.journals.Close()
		_ = a.writer.Close(t.Context())
	})
	// Lines stay in the encoder, where a test reads them.
	now := time.Now()
	a.spoolAt = now.Add(time.Hour)
	a.resolve(now)
	return &ticking{a, h, now}
}

// tick ticks a time after the tick before, and returns the lines that it encodes.
func (a *ticking) tick(later time.Duration) string {
	a.now = a.now.Add(later)
	a.encoder.Reset()
	a.agent.tick(a.now)
	return string(a.encoder.Bytes())
}

// edit replaces text in a file of the host.
func (a *ticking) edit(old, replacement string, parts ...string) {
	a.host.t.Helper()
	b, err := os.ReadFile(a.host.path(parts...))
	if err != nil || strings.Count(string(b), old) != 1 {
		a.host.t.Fatalf("%q stands %d times in %v (%v)", old, strings.Count(string(b), old), parts, err)
	}
	a.host.write(strings.Replace(string(b), old, replacement, 1), parts...)
}

func (a *ticking) rename(from, to string) {
	a.host.t.Helper()
	if err := os.Rename(a.host.path(from), a.host.path(to)); err != nil {
		a.host.t.Fatal(err)
	}
}

// field is the value of a field in a drive's line, "" where there is none.
func field(lines, measurement, drive, name string) string {
	for _, line := range strings.Split(lines, "\n") {
		if strings.HasPrefix(line, measurement+",") && strings.Contains(line, "drive="+drive) {
			if found := regexp.MustCompile(`[ ,]` + name + `=([^i, ]*)`).FindStringSubmatch(line); found != nil {
				return found[1]
			}
		}
	}
	return ""
}

func expectField(t *testing.T, lines, measurement, drive, name, want string) {
	t.Helper()
	if got := field(lines, measurement, drive, name); got != want {
		t.Errorf("%s of %s: %s is %q, want %q", measurement, drive, name, got, want)
	}
}

const oneTick = 20 * time.Millisecond

func TestADriveCountsByItsPathsAndByItsHeadWhereThereAreNone(t *testing.T) {
	a := newTicking(t)
	a.edit("nvme1n1 0 0 0 0 0 0 0", "nvme1n1 5 0 8 1 2 0 16", "proc/diskstats")
	lines := a.tick(oneTick)
	expectField(t, lines, "blockio", "nvme-noplp", "reads", "711")
	expectField(t, lines, "blockio", "nvme-noplp", "writes", "305")
	a.edit(" 259       3 nvme1c1n1 700 ", " 259       3 other1 700 ", "proc/diskstats")
	a.edit(" 259       4 nvme1c2n1 11 ", " 259       4 other2 11 ", "proc/diskstats")
	lines = a.tick(oneTick)
	expectField(t, lines, "blockio", "nvme-noplp", "reads", "5")
	expectField(t, lines, "blockio", "nvme-noplp", "writes", "2")
}

// Times of 32 bits wrap; what was carried on belongs to the path whose times they are.
func TestPathsThatComeAndGoKeepNoTimesOfOthers(t *testing.T) {
	a := newTicking(t)
	a.edit("nvme1c1n1 700 0 5600 70 300 0 2400 33 0 90 103 1 0 8 1 ", "nvme1c1n1 7 0 5600 70 3 0 2400 4294967290 0 90 103 0 0 0 0 ",
		"proc/diskstats")
	expectField(t, a.tick(oneTick), "blockio", "nvme-noplp", "write_seconds", "4.294967291e+06")
	a.edit("nvme1c1n1 7 0 5600 70 3 0 2400 4294967290 ", "nvme1c1n1 7 0 5600 70 3 0 2400 4 ", "proc/diskstats")
	expectField(t, a.tick(oneTick), "blockio", "nvme-noplp", "write_seconds", "4.294967301e+06")

	a.rename("sys/block/nvme1c1n1", "sys/unplugged")
	a.edit(" 259       3 nvme1c1n1 7 ", " 259       3 other1 7 ", "proc/diskstats")
	lines := a.tick(oneTick)
	expectField(t, lines, "blockio", "nvme-noplp", "writes", "5")
	expectField(t, lines, "blockio", "nvme-noplp", "write_seconds", "0.001")

	a.rename("sys/unplugged", "sys/block/nvme1c1n1")
	a.edit(" 259       3 other1 7 ", " 259       3 nvme1c1n1 7 ", "proc/diskstats")
	lines = a.tick(oneTick)
	expectField(t, lines, "blockio", "nvme-noplp", "writes", "8")
	expectField(t, lines, "blockio", "nvme-noplp", "write_seconds", "0.005")
}

func TestNoCountIsAnybodysWhereDrivesCannotBeIdentified(t *testing.T) {
	a := newTicking(t)
	expectField(t, a.tick(oneTick), "blockio", "nvme-plp", "reads", "1200")
	a.rename("sys/block", "sys/hidden")
	lines := a.tick(resolveInterval)
	if strings.Contains(lines, "blockio,") || strings.Contains(lines, "fsjournal,") {
		t.Errorf("lines of unknown drives: %s", lines)
	}
	a.rename("sys/hidden", "sys/block")
	expectField(t, a.tick(resolveInterval), "blockio", "nvme-plp", "reads", "1200")
}

// A device that came is looked for every second: its links may appear after it.
func TestADriveIsLookedUpAgainSoonAfterADeviceCame(t *testing.T) {
	a := newTicking(t)
	a.rename("sys/block/sda", "sys/not-yet")
	a.edit(" sda 9000 ", " sdx 9001 ", "proc/diskstats")
	expectField(t, a.tick(oneTick), "blockio", "sata-plp", "reads", "")
	a.rename("sys/not-yet", "sys/block/sdx")
	expectField(t, a.tick(oneTick), "blockio", "sata-plp", "reads", "")
	expectField(t, a.tick(time.Second), "blockio", "sata-plp", "reads", "9001")
}

// Between two readings another drive takes the name: its counts fell.
func TestCountsThatFellAreAttributedToTheDriveWhoseTheyAre(t *testing.T) {
	a := newTicking(t)
	a.tick(oneTick)
	a.rename("sys/block/sda", "sys/block/was-a")
	a.rename("sys/block/sdb", "sys/block/sda")
	a.rename("sys/block/was-a", "sys/block/sdb")
	const first, second = "9000 100 1800000 45000 20000 500 4000000 4294967000 1", "10 0 80 1 20 0 160 2 0"
	a.edit(" sda "+first, " sda "+second, "proc/diskstats")
	a.edit(" sdb "+second, " sdb "+first, "proc/diskstats")
	expectField(t, a.tick(oneTick), "blockio", "sata-plp", "reads", "9000")
}

const info = "proc/fs/jbd2/nvme0n1p1-8/info"

func (a *ticking) transactions(n string) {
	a.host.write(n+" transactions (1 requested), each up to 8192 blocks\naverage: \n  10 logged blocks per transaction\n", info)
}

// quiet lets the time pass in which a journal is asked at every tick.
func (a *ticking) quiet() {
	for _, d := range a.drives {
		d.journalsDue = time.Now().Add(-time.Second)
	}
}

// asking says that the time is not over.
func (a *ticking) asking() {
	for _, d := range a.drives {
		d.journalsDue = time.Now().Add(time.Hour)
	}
}

func TestAJournalIsAskedWhileItsDriveIsWrittenTo(t *testing.T) {
	a := newTicking(t)
	a.tick(oneTick)
	a.asking()
	expectField(t, a.tick(oneTick), "fsjournal", "nvme-plp", "transactions", "2092")
	a.transactions("2093")
	a.quiet()
	lines := a.tick(oneTick)
	expectField(t, lines, "fsjournal", "nvme-plp", "transactions", "2092") // nothing was written
	expectField(t, lines, "fsjournal", "nvme-plp", "blocks_logged", "20920")

	a.edit(" 480 56000 1200 7340032 ", " 480 56000 1200 7340040 ", "proc/diskstats") // merged into a write
	expectField(t, a.tick(oneTick), "fsjournal", "nvme-plp", "transactions", "2093")
	a.transactions("2094")
	a.quiet()
	a.edit(" 480 56000 1200 7340040 ", " 480 56001 1200 7340040 ", "proc/diskstats")
	expectField(t, a.tick(oneTick), "fsjournal", "nvme-plp", "transactions", "2094")
}

// Whether something was written is not known of a drive whose counts are gone.
func TestAJournalIsAskedWhereItsDrivesCountsAreGone(t *testing.T) {
	a := newTicking(t)
	a.tick(oneTick)
	a.asking()
	expectField(t, a.tick(oneTick), "fsjournal", "nvme-plp", "transactions", "2092")
	for n := range a.drives[0].rows {
		a.blocks.Row(a.drives[0].rows[n]).Present = false
	}
	a.transactions("2093")
	a.quiet()
	a.encoder.Reset()
	a.readJournals()
	expectField(t, string(a.encoder.Bytes()), "fsjournal", "nvme-plp", "transactions", "2093")
}

// A datagram asks once.
func TestWhatIsAskedForAtOnceIsAskedForOnce(t *testing.T) {
	a := newTicking(t)
	a.asked.Store(true)
	if lines := a.tick(oneTick); lines != "" {
		t.Errorf("lines wait though they were asked for at once: %s", lines)
	}
	a.spoolAt = a.now.Add(time.Hour)
	if lines := a.tick(oneTick); lines == "" {
		t.Error("lines go out one by one after they were asked for once")
	}
}

func TestLinesAreGatheredForOneWrite(t *testing.T) {
	a := newTicking(t)
	a.spoolAt = a.now
	if lines := a.tick(0); lines != "" {
		t.Errorf("lines are due and wait: %s", lines)
	}
	written := a.writer.Stats().WrittenLines
	if a.tick(oneTick); a.writer.Stats().WrittenLines != written {
		t.Error("a second write within the interval")
	}
	if a.tick(spoolInterval); a.writer.Stats().WrittenLines == written {
		t.Error("no write after the interval")
	}
}

func TestLinesThatCannotBeSpooledAreCounted(t *testing.T) {
	a := newTicking(t)
	_ = a.writer.Close(t.Context())
	if a.spool([]byte("a b=1i 1\nc d=1i 1\n")) || a.dropped.Load() != 2 {
		t.Errorf("%d lines dropped, want 2", a.dropped.Load())
	}
}

func TestTheLastCountsAreReadAtTheEnd(t *testing.T) {
	a := newTicking(t)
	a.config.IntervalSeconds = 3600
	a.spoolAt = time.Time{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { a.sampleUntil(ctx); close(ended) }()
	eventually(t, "the first tick", func() bool { return a.writer.Stats().WrittenLines > 0 })
	a.edit(" 480 56000 1200 ", " 480 56001 1200 ", "proc/diskstats")
	cancel()
	<-ended
	files, _ := filepath.Glob(a.host.path("spool", "0*.lp"))
	spooled, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := string(spooled)
	expectField(t, lines[strings.LastIndex(lines, "blockio,host=vhost1,drive=nvme-plp"):], "blockio", "nvme-plp", "writes", "56001")
}

// A busy host: nothing of the queue was taken when the agent is to end.
func TestWhatIsInTheQueueAtTheEndIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	in, err := openInlet(path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.UnixConn).SetWriteBuffer(2 * maxDatagramBytes); err != nil {
		t.Fatal(err)
	}
	sent := []string{"a b=1i 1700000000000000001\n", "c d=1i 1700000000000000001\n", strings.Repeat("long x=1i 1700000000000000001\n", 2000)}
	for _, datagram := range append(sent, "no line", strings.Repeat("longer x=1i 1700000000000000001\n", maxDatagramBytes/32+1)) {
		if _, err := conn.Write([]byte(datagram)); err != nil {
			t.Fatal(err)
		}
	}
	var taken []string
	refused := 0
	in.end()
	in.receive(func(lines []byte) bool { taken = append(taken, string(lines)); return true }, func() {}, func(lines int, _ string) { refused++ })
	if !slices.Equal(taken, sent) || refused != 2 {
		t.Errorf("%d datagrams were taken and %d refused, want %d and 2", len(taken), refused, len(sent))
	}
	in.drain()
}
