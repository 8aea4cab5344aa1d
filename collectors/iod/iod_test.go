// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"joulerig/collectors/internal/influxtest"
	"joulerig/tests/support/wait"
)

// The tests run the program as a host does: this test binary again, as iod.
func TestMain(m *testing.M) {
	if os.Getenv("IOD_TEST_MAIN") == "1" {
		main()
	}
	os.Exit(m.Run())
}

// host is a copy of the captured tree that a test may change.
type host struct {
	t    *testing.T
	root string
	conf map[string]any
}

func newHost(t *testing.T, influxURL string) *host {
	t.Helper()
	root := t.TempDir()
	if out, err := exec.Command("cp", "-a", "../internal/testdata/host1/.", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &host{t, root, map[string]any{
		"host": "vhost1", "interval_seconds": 0.02, "hostload_interval_seconds": 0.05, "health_interval_seconds": 0,
		"spool_dir": filepath.Join(root, "spool"), "socket": filepath.Join(root, "iod.sock"),
		"proc_root": filepath.Join(root, "proc"), "sys_root": filepath.Join(root, "sys"), "dev_root": filepath.Join(root, "dev"),
		"influx": map[string]any{"url": influxURL, "database": influxtest.Database, "flush_interval_seconds": 0.05},
		"drives": []map[string]any{
			{"name": "nvme-plp", "serial": "JRNVP0001"}, {"name": "nvme-noplp", "serial": "JRNVN0001"},
			{"name": "sata-plp", "serial": "JRSAP0001"}, {"name": "hdd-array", "md": "jr0"}, {"name": "nvdimm", "pmem": "pmem0"},
		},
	}}
}

func (h *host) path(parts ...string) string {
	return filepath.Join(append([]string{h.root}, parts...)...)
}

func (h *host) write(content string, parts ...string) {
	h.t.Helper()
	path := h.path(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	// In place, since iod keeps /proc/diskstats open.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		h.t.Fatal(err)
	}
	if err := f.Truncate(int64(len(content))); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) config() string {
	h.t.Helper()
	b, err := json.Marshal(h.conf)
	if err != nil {
		h.t.Fatal(err)
	}
	path := h.path("iod.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// output is what a process writes, readable while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

type process struct {
	*exec.Cmd
	stdout, stderr output
	t              *testing.T
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0], args...), t: t}
	p.Env = append(os.Environ(), "IOD_TEST_MAIN=1")
	p.Stdout, p.Stderr = &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// end sends the signal and gives the exit code.
func (p *process) end(signal syscall.Signal) int {
	p.t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	return p.exit()
}

func (p *process) exit() int {
	p.t.Helper()
	done := make(chan struct{})
	go func() { _ = p.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		p.t.Fatal("iod did not end within 10 s")
	}
	return p.ProcessState.ExitCode()
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	wait.For(t, 10*time.Second, what, condition)
}

func withInflux(t *testing.T) (*influxtest.Server, *host) {
	t.Parallel()
	s := influxtest.Start(t)
	h := newHost(t, s.URL)
	in := h.conf["influx"].(map[string]any)
	in["username"], in["password_file"] = influxtest.Username, s.PasswordFile
	return s, h
}

// last returns the newest value of each field, as the database prints it.
func last(s *influxtest.Server, measurement, drive string) map[string]string {
	series := s.Query(fmt.Sprintf(`SELECT * FROM %q WHERE drive = '%s' ORDER BY time DESC LIMIT 1`, measurement, drive))
	fields := map[string]string{}
	if len(series) == 1 {
		for i, column := range series[0].Columns {
			fields[column] = fmt.Sprint(series[0].Values[0][i])
		}
	}
	return fields
}

func expectFields(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: %s is %q, expected %q", what, key, got[key], value)
		}
	}
}

func TestWritesWhatTheHostCounts(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	eventually(t, "20 points of a drive", func() bool { return s.Count("blockio", "reads") >= 100 })
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	expectFields(t, "nvme-plp", last(s, "blockio", "nvme-plp"), map[string]string{
		"host": "vhost1", "reads": "1200", "read_bytes": "50331648", "read_seconds": "0.48", "writes": "56000",
		"write_bytes": "3758096384", "write_seconds": "91.234", "flushes": "5400", "flush_seconds": "0.723",
		"discards": "120", "discard_bytes": "503316480", "in_flight": "3", "busy_seconds": "45.678",
	})
	expectFields(t, "both paths of nvme-noplp", last(s, "blockio", "nvme-noplp"), map[string]string{
		"reads": "711", "write_bytes": "1249280", "flushes": "22",
	})
	expectFields(t, "hdd-array", last(s, "blockio", "hdd-array"), map[string]string{"writes": "6000"})
	expectFields(t, "nvdimm", last(s, "blockio", "nvdimm"), map[string]string{"reads": "77"})
	expectFields(t, "journal of nvme-plp", last(s, "fsjournal", "nvme-plp"), map[string]string{
		"filesystem": "ext4", "transactions": "2092", "blocks_logged": "20920",
	})
	expectFields(t, "journal of sata-plp", last(s, "fsjournal", "sata-plp"), map[string]string{
		"filesystem": "ocfs2", "transactions": "0", "blocks_logged": "0",
	})
	series := s.Query(`SELECT * FROM hostload ORDER BY time DESC LIMIT 1`)
	load := map[string]string{}
	for i, column := range series[0].Columns {
		load[column] = fmt.Sprint(series[0].Values[0][i])
	}
	expectFields(t, "hostload", load, map[string]string{
		"cpu_busy_seconds": "150.23", "memory_used_bytes": "1024000000", "package_joules": "0", "dropped_lines": "0",
	})
	if load["agent_cpu_seconds"] == "" || load["spooled_bytes"] == "" || load["skipped_ticks"] == "" {
		t.Errorf("hostload %v", load)
	}
}

func TestPointsComeAtTheInterval(t *testing.T) {
	s, h := withInflux(t)
	h.conf["interval_seconds"] = 0.1
	p := start(t, "--config", h.config())
	const observed = 1550 * time.Millisecond
	time.Sleep(observed)
	p.end(syscall.SIGTERM)
	series := s.Query(`SELECT reads FROM blockio WHERE drive = 'nvme-plp'`)
	n := len(series[0].Values)
	if n < 12 || n > 18 {
		t.Errorf("%d points in %v at 10 Hz", n, observed)
	}
}

// Devices change names while the agent runs: the counts follow the serial.
func TestCountsFollowTheSerialThroughARename(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	eventually(t, "points", func() bool { return s.Count("blockio", "reads") > 0 })
	swap := func(from, to string) {
		if err := os.Rename(h.path("sys/block", from), h.path("sys/block", to)); err != nil {
			t.Fatal(err)
		}
	}
	swap("sda", "sdx")
	b, _ := os.ReadFile(h.path("proc/diskstats"))
	h.write(strings.Replace(string(b), " sda 9000 ", " sdx 9001 ", 1), "proc/diskstats")
	eventually(t, "the count under the new name", func() bool { return last(s, "blockio", "sata-plp")["reads"] == "9001" })
	// A drive that takes the free name is not taken for the old one.
	swap("sdb", "sda")
	b, _ = os.ReadFile(h.path("proc/diskstats"))
	h.write(strings.Replace(string(b), " sdb 10 ", " sda 777 ", 1), "proc/diskstats")
	more := s.Count("blockio", "reads") + 50
	eventually(t, "points after it", func() bool { return s.Count("blockio", "reads") >= more })
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := last(s, "blockio", "sata-plp")["reads"]; got != "9001" {
		t.Errorf("reads %s", got)
	}
	if !strings.Contains(p.stderr.String(), "drive sata-plp: is sdx") {
		t.Errorf("stderr %q", p.stderr.String())
	}
}

// A load that begins while the drives are looked up, which takes a while on a busy host, is not
// counted as from before it.
func TestAPointIsFromWhenItsCountsWereRead(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	eventually(t, "journal points", func() bool { return last(s, "fsjournal", "nvme-plp")["transactions"] == "2092" })
	// The look-up reads this and waits until something is written.
	slow := h.path("sys/block/loop0/serial")
	if err := syscall.Mkfifo(slow, 0o600); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(h.path("proc/diskstats"))
	stats := string(b) + "  65 0 sdq 5 0 40 1 6 0 48 1 0 2 2 0 0 0 0 0 0\n"
	h.write(stats, "proc/diskstats")
	gate, err := os.OpenFile(slow, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(slow); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // the look-up waits meanwhile, over two intervals
	begin := time.Now()
	const before, after = " 480 56000 1200 ", " 480 56001 1200 "
	if !strings.Contains(stats, before) {
		t.Fatalf("no%sin %s", before, stats)
	}
	h.write(strings.Replace(stats, before, after, 1), "proc/diskstats")
	h.write("2093 transactions (2093 requested), each up to 8192 blocks\naverage: \n  10 logged blocks per transaction\n",
		"proc/fs/jbd2/nvme0n1p1-8/info")
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	for measurement, changed := range map[string]string{"blockio": "writes = 56001", "fsjournal": "transactions = 2093"} {
		first := fmt.Sprintf(`SELECT * FROM %q WHERE drive = 'nvme-plp' AND %s ORDER BY time LIMIT 1`, measurement, changed)
		var series []influxtest.Series
		eventually(t, changed, func() bool { series = s.Query(first); return len(series) == 1 })
		ns, _ := series[0].Values[0][0].(json.Number).Int64()
		if ns < begin.UnixNano() {
			t.Errorf("%s: the first %s is stamped %v before it was so", measurement, changed, time.Duration(begin.UnixNano()-ns))
		}
	}
	p.end(syscall.SIGTERM)
}

func TestAReadingThatTookLongIsMadeAgain(t *testing.T) {
	for _, c := range []struct{ slow, made int }{{0, 1}, {1, 2}, {promptTries - 1, promptTries}, {promptTries, promptTries}} {
		made := 0
		var began time.Time
		at := readWithTimestamp(func() {
			began = time.Now()
			if made++; made <= c.slow {
				time.Sleep(2 * promptTime)
			}
		})
		// A reading that was meant to be quick may be slow on a busy machine.
		if made < c.made || made > promptTries {
			t.Errorf("%d slow readings: %d made, expected %d", c.slow, made, c.made)
		}
		if at.After(began) || began.Sub(at) > promptTime {
			t.Errorf("%d slow readings: the time is %v before the last one", c.slow, began.Sub(at))
		}
	}
}

func TestADriveThatGoesAndComesBack(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	eventually(t, "points", func() bool { return s.Count("blockio", "reads") > 0 })
	with, _ := os.ReadFile(h.path("proc/diskstats"))
	var without []string
	for _, line := range strings.SplitAfter(string(with), "\n") {
		if !strings.Contains(line, " sda ") {
			without = append(without, line)
		}
	}
	if err := os.Rename(h.path("sys/block/sda"), h.path("unplugged")); err != nil {
		t.Fatal(err)
	}
	h.write(strings.Join(without, ""), "proc/diskstats")
	eventually(t, "word of it", func() bool { return strings.Contains(p.stderr.String(), "drive sata-plp: no drive with serial") })
	if err := os.Rename(h.path("unplugged"), h.path("sys/block/sdq")); err != nil {
		t.Fatal(err)
	}
	h.write(strings.Join(without, "")+"  65 0 sdq 5 0 40 1 6 0 48 1 0 2 2 0 0 0 0 0 0\n", "proc/diskstats")
	eventually(t, "the counts of its new life", func() bool { return last(s, "blockio", "sata-plp")["reads"] == "5" })
	p.end(syscall.SIGTERM)
	if n := strings.Count(p.stderr.String(), "drive sata-plp: no drive"); n != 1 {
		t.Errorf("reported %d times: %q", n, p.stderr.String())
	}
}

func TestAnUnmountEndsTheJournalAndTheNextMountStartsIt(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	eventually(t, "journal points", func() bool { return last(s, "fsjournal", "nvme-plp")["transactions"] == "2092" })
	if err := os.RemoveAll(h.path("proc/fs/jbd2/nvme0n1p1-8")); err != nil {
		t.Fatal(err)
	}
	more := s.Count("blockio", "reads") + 25
	eventually(t, "points after the unmount", func() bool { return s.Count("blockio", "reads") >= more })
	n := len(s.Query(`SELECT transactions FROM fsjournal WHERE drive = 'nvme-plp'`)[0].Values)
	h.write("3 transactions (3 requested), each up to 8192 blocks\naverage: \n  7 logged blocks per transaction\n", "proc/fs/jbd2/nvme0n1-8/info")
	eventually(t, "the new mount", func() bool { return last(s, "fsjournal", "nvme-plp")["blocks_logged"] == "21" })
	p.end(syscall.SIGTERM)
	if n == 0 {
		t.Error("no points of the first mount")
	}
}

func send(t *testing.T, h *host, datagrams ...string) {
	t.Helper()
	var conn net.Conn
	eventually(t, "the socket", func() bool {
		var err error
		conn, err = net.Dial("unixgram", h.path("iod.sock"))
		return err == nil
	})
	defer conn.Close()
	for _, d := range datagrams {
		if _, err := conn.Write([]byte(d)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTakesLinesOfOthersAndRefusesWhatIsNone(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	long := strings.Repeat("phase,run=r2,phase=long start_ns=1i 1700000000000000002\n", 1000)
	send(t, h,
		"phase,run=r1,phase=idle start_ns=1i 1700000000000000001\nphase,run=r1,phase=tail start_ns=2i 1700000000000000001\n",
		"phase,run=r1 start_ns=3i\n", "phase start_ns=4i 1700000000\n", "torn,a=b x=1i 170", long)
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := s.Count("phase", "start_ns"); n != 3 {
		t.Errorf("%d phase points, expected 3", n)
	}
	if !strings.Contains(p.stderr.String(), "socket: refused lines: line 1: no time") {
		t.Errorf("stderr %q", p.stderr.String())
	}
}

func TestADatagramHasItCountAndSendAtOnce(t *testing.T) {
	s, h := withInflux(t)
	h.conf["influx"].(map[string]any)["flush_interval_seconds"] = 60
	p := start(t, "--config", h.config())
	asked := time.Now().UnixNano()
	send(t, h, "phase,run=r1,phase=tail start_ns=2i 1700000000000000001\n", "send\n")
	eventually(t, "the line of another", func() bool { return s.Count("phase", "start_ns") == 1 })
	eventually(t, "a count of the drives from after it was asked for", func() bool {
		return len(s.Query(fmt.Sprintf(`SELECT reads FROM blockio WHERE time > %d`, asked))) > 0
	})
	p.end(syscall.SIGTERM)
	if text := p.stderr.String(); strings.Contains(text, "refused") {
		t.Errorf("stderr %q", text)
	}
}

func TestRefusedLinesAreCounted(t *testing.T) {
	s, h := withInflux(t)
	p := start(t, "--config", h.config())
	send(t, h, "a b=1i\nc d=1i\n")
	eventually(t, "2 dropped lines", func() bool {
		series := s.Query(`SELECT last(dropped_lines) FROM hostload`)
		return len(series) == 1 && fmt.Sprint(series[0].Values[0][1]) == "2"
	})
	p.end(syscall.SIGTERM)
}

func TestAnOutageIsLoggedOnceAndLosesNothing(t *testing.T) {
	s, h := withInflux(t)
	s.Stop()
	p := start(t, "--config", h.config())
	send(t, h, "phase,run=r1 start_ns=1i 1700000000000000001\n")
	eventually(t, "word of the outage", func() bool { return strings.Contains(p.stderr.String(), "iod: InfluxDB: ") })
	s.Restart()
	eventually(t, "the line", func() bool { return s.Count("phase", "start_ns") == 1 })
	eventually(t, "word of its end", func() bool { return strings.Contains(p.stderr.String(), "InfluxDB: works again") })
	p.end(syscall.SIGTERM)
	if n := strings.Count(p.stderr.String(), "lines wait in the spool"); n != 1 {
		t.Errorf("reported %d times: %q", n, p.stderr.String())
	}
}

func TestEndsWithTheServerAwayAndSendsAtTheNextStart(t *testing.T) {
	s, h := withInflux(t)
	s.Stop()
	p := start(t, "--config", h.config())
	send(t, h, "phase,run=r1 start_ns=1i 1700000000000000001\n")
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(p.stderr.String(), "stay in the spool") {
		t.Errorf("stderr %q", p.stderr.String())
	}
	s.Restart()
	next := start(t, "--config", h.config())
	eventually(t, "the line", func() bool { return s.Count("phase", "start_ns") == 1 })
	next.end(syscall.SIGTERM)
}

func TestSurvivesAKill(t *testing.T) {
	s, h := withInflux(t)
	s.Stop()
	p := start(t, "--config", h.config())
	send(t, h, "phase,run=r1 start_ns=1i 1700000000000000001\n")
	eventually(t, "the line in the spool", func() bool {
		files, _ := filepath.Glob(h.path("spool", "0*.lp"))
		for _, file := range files {
			if b, _ := os.ReadFile(file); bytes.Contains(b, []byte("phase,run=r1")) {
				return true
			}
		}
		return false
	})
	_ = p.Process.Kill()
	p.exit()
	s.Restart()
	next := start(t, "--config", h.config()) // also takes the dead one's socket over
	eventually(t, "the line", func() bool { return s.Count("phase", "start_ns") == 1 })
	if code := next.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, next.stderr.String())
	}
}

func TestAFailingHealthSourceIsLoggedOnceAndStopsNothing(t *testing.T) {
	s, h := withInflux(t)
	h.conf["health_interval_seconds"] = 1
	h.conf["smartctl"] = h.path("no-smartctl")
	p := start(t, "--config", h.config())
	const observed = 2300 * time.Millisecond // two intervals of the health, and more
	time.Sleep(observed)
	p.end(syscall.SIGTERM)
	if n := s.Count("blockio", "reads"); n < 100 {
		t.Errorf("%d points", n)
	}
	for _, subject := range []string{"health of nvme-plp", "health of nvme-noplp", "health of sata-plp"} {
		if n := strings.Count(p.stderr.String(), subject); n != 1 {
			t.Errorf("%s reported %d times: %q", subject, n, p.stderr.String())
		}
	}
}

func TestHealthOfASATADrive(t *testing.T) {
	s, h := withInflux(t)
	h.conf["smartctl"] = h.path("smartctl")
	script := "#!/bin/sh\necho '{\"temperature\":{\"current\":31},\"power_on_time\":{\"hours\":5}}'\nexit 4\n"
	if err := os.WriteFile(h.path("smartctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--config", h.config())
	eventually(t, "a health point", func() bool { return last(s, "drive_health", "sata-plp")["power_on_hours"] == "5" })
	p.end(syscall.SIGTERM)
	expectFields(t, "health", last(s, "drive_health", "sata-plp"), map[string]string{"temperature_celsius": "31"})
}

func TestResolvePrintsTheDrives(t *testing.T) {
	h := newHost(t, "http://127.0.0.1:1")
	p := start(t, "resolve", "--config", h.config())
	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.String())
	}
	var got struct {
		Host   string
		Drives []struct {
			Name, Serial string
			KernelDevice string `json:"kernel_device"`
		}
	}
	if err := json.Unmarshal([]byte(p.stdout.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Host != "vhost1" || len(got.Drives) != 5 || got.Drives[0].KernelDevice != "nvme0n1" || got.Drives[3].KernelDevice != "md127" {
		t.Errorf("got %+v", got)
	}
}

func TestResolveFailsWithAMissingDrive(t *testing.T) {
	h := newHost(t, "http://127.0.0.1:1")
	h.conf["drives"] = []map[string]any{{"name": "x", "serial": "NOSUCH"}}
	p := start(t, "resolve", "--config", h.config())
	if code := p.exit(); code != 1 || p.stderr.String() != "iod: drive x: no drive with serial NOSUCH\n" {
		t.Errorf("exit code %d, stderr %q", code, p.stderr.String())
	}
}

func TestBadConfigIsOneLineAndExitCode2(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *host)
		want   string
	}{
		"unknown key":   {func(h *host) { h.conf["intervall"] = 1 }, `unknown field "intervall"`},
		"unknown drive": {func(h *host) { h.conf["drives"] = []map[string]any{{"name": "x", "dev": "/dev/sda"}} }, `unknown field "dev"`},
		"no identity":   {func(h *host) { h.conf["drives"] = []map[string]any{{"name": "x"}} }, "drives[0]: x: expected serial"},
		"twice":         {func(h *host) { h.conf["drives"] = []map[string]any{{"name": "x", "md": "a"}, {"name": "x", "md": "b"}} }, "drives[1].name: x: given twice"},
		"interval":      {func(h *host) { h.conf["interval_seconds"] = 0 }, "interval_seconds: 0: expected 0.01 to 60"},
		"type":          {func(h *host) { h.conf["interval_seconds"] = "fast" }, "config.interval_seconds of type float64"},
		"no host":       {func(h *host) { delete(h.conf, "host") }, "host: empty"},
		"no drives":     {func(h *host) { delete(h.conf, "drives") }, "drives: empty"},
		"no spool":      {func(h *host) { delete(h.conf, "spool_dir") }, "spool_dir: empty"},
		"url":           {func(h *host) { h.conf["influx"].(map[string]any)["url"] = "localhost" }, "influx.url: \"localhost\": expected http://"},
		"password file": {func(h *host) {
			in := h.conf["influx"].(map[string]any)
			in["username"], in["password_file"] = "u", "/does/not/exist"
		}, "influx.password_file: open /does/not/exist"},
		"proc root":       {func(h *host) { h.conf["proc_root"] = "/does/not/exist" }, "proc_root: open /does/not/exist/diskstats"},
		"socket is taken": {func(h *host) { h.write("x", "iod.sock") }, "is not a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, "http://127.0.0.1:1")
			c.change(h)
			p := start(t, "--config", h.config())
			code := p.exit()
			if got := p.stderr.String(); code != 2 || !strings.Contains(got, c.want) || !strings.Contains(got, "iod.json") || strings.Count(got, "\n") != 1 {
				t.Errorf("exit code %d, stderr %q, expected %q", code, got, c.want)
			}
		})
	}
}

func TestBadArgumentsAreOneLineAndExitCode2(t *testing.T) {
	for _, args := range [][]string{{}, {"--conf", "x"}, {"--config"}, {"--config", "x", "y"}, {"--config", "/does/not/exist"}, {"run"}} {
		p := start(t, args...)
		if code := p.exit(); code != 2 || strings.Count(p.stderr.String(), "\n") != 1 {
			t.Errorf("%v: exit code %d, stderr %q", args, code, p.stderr.String())
		}
	}
}

func TestTwoAgentsDoNotShareASpool(t *testing.T) {
	h := newHost(t, "http://127.0.0.1:1")
	first := start(t, "--config", h.config())
	eventually(t, "the first agent", func() bool { _, err := os.Stat(h.path("iod.sock")); return err == nil })
	second := start(t, "--config", h.config())
	if code := second.exit(); code != 2 || !strings.Contains(second.stderr.String(), "another process") {
		t.Errorf("exit code %d, stderr %q", code, second.stderr.String())
	}
	if code := first.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the first: exit code %d", code)
	}
}
