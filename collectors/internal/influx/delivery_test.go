// SPDX-License-Identifier: GPL-3.0-or-later

package influx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"joulerig/collectors/lineprotocol"
)

// onASmallDisk runs the test again in a process that has its own disk of so many bytes at the
// folder it is given; in that process it calls the function.
func onASmallDisk(t *testing.T, size int, test func(t *testing.T, dir string)) {
	t.Helper()
	const key = "JOULERIG_SMALL_DISK"
	if dir := os.Getenv(key); dir != "" {
		if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size)); err != nil {
			fmt.Println("cannot mount:", err)
			os.Exit(77)
		}
		test(t, dir)
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), key+"="+t.TempDir())
	again.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	output, err := again.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() != 77:
		t.Fatalf("on the small disk:\n%s", output)
	default:
		t.Skipf("this kernel gives a user no disk of his own: %v %s", err, output)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if _, err := f.Write([]byte{0}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	f.Close()
}

func TestASpoolThatFillsTheDiskIsDeliveredAndGoesOn(t *testing.T) {
	onASmallDisk(t, 3<<20, func(t *testing.T, dir string) {
		d := newDatabase(t)
		d.set(func(int, string) (int, string) { return 503, "down" })
		w := begin(t, config(d, dir))
		taken := 0
		var full error
		for ; taken < 1_000_000; taken++ {
			if full = w.Write([]byte(line(taken) + "\n")); full != nil {
				break
			}
		}
		if !errors.Is(full, syscall.ENOSPC) {
			t.Fatalf("after %d lines: %v", taken, full)
		}
		// Blocks of lines are refused whole where a part would have had room.
		for range 100 {
			if err := w.Write(bytes.Repeat([]byte(line(taken)+"\n"), 200)); err == nil {
				t.Fatal("200 lines were taken by a full disk")
			}
		}
		d.set(nil)
		eventually(t, "an empty spool", func() bool { return w.Stats().SpooledBytes == 0 })
		write(t, w, taken, taken+1000)
		closeWriter(t, w)
		expectLines(t, d.stored(), 0, taken+1000)
		if s := w.Stats(); s.SentLines != int64(taken)+1000 || s.RejectedLines != 0 || s.LastError != "" {
			t.Errorf("stats %+v", s)
		}
	})
}

// What is kept for a server that forgets goes first where the room is needed.
func TestWhatIsKeptTakesNoRoomFromWhatIsToBeSent(t *testing.T) {
	onASmallDisk(t, 3<<20, func(t *testing.T, dir string) {
		d := newDatabase(t)
		w := begin(t, config(d, dir))
		write(t, w, 0, 60000)
		eventually(t, "60000 lines", func() bool { return len(d.stored()) == 60000 })
		if kept, _ := filepath.Glob(filepath.Join(dir, "*.sent")); len(kept) < 2 {
			t.Errorf("kept are %v", kept)
		}
		d.set(func(int, string) (int, string) { return 503, "down" })
		taken := 60000
		for ; taken < 200_000; taken++ {
			if err := w.Write([]byte(line(taken) + "\n")); err != nil {
				break
			}
		}
		if bytes := (taken - 60000) * len(line(60000)+"\n"); bytes < 2<<20 {
			t.Errorf("only %d bytes were taken", bytes)
		}
		d.set(nil)
		eventually(t, "an empty spool", func() bool { return w.Stats().SpooledBytes == 0 })
		expectLines(t, d.stored(), 0, taken)
	})
}

func TestWhatIsKeptIsWithinTheBound(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	c := config(d, dir)
	c.MaxSpoolBytes = MinSpoolBytes
	w := begin(t, c)
	largest := int64(0)
	for k := range 400 {
		write(t, w, k*20, k*20+20)
		eventually(t, "an empty spool", func() bool { return w.Stats().SpooledBytes < MinSpoolBytes/2 })
		files, _ := filepath.Glob(filepath.Join(dir, "0*"))
		total := int64(0)
		for _, path := range files {
			if info, err := os.Stat(path); err == nil {
				total += info.Size()
			}
		}
		largest = max(largest, total)
	}
	closeWriter(t, w)
	expectLines(t, d.stored(), 0, 8000)
	if largest > MinSpoolBytes || largest < MinSpoolBytes/2 {
		t.Errorf("%d bytes on disk, at most %d are allowed", largest, MinSpoolBytes)
	}
}

// Another program's data fill the disk: not even the offset can be written.
func TestLinesInTheSpoolAreDeliveredWhileTheDiskIsFull(t *testing.T) {
	onASmallDisk(t, 1<<20, func(t *testing.T, dir string) {
		d := newDatabase(t)
		d.set(func(int, string) (int, string) { return 503, "down" })
		if err := os.WriteFile(filepath.Join(dir, "offset"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w := begin(t, config(d, dir))
		write(t, w, 0, 1000)
		if err := os.Truncate(filepath.Join(dir, "offset"), 0); err != nil { // as on a file system that copies on write
			t.Fatal(err)
		}
		fill(t, filepath.Join(dir, "ballast"))
		bad := line(500) + "\n"
		d.set(func(_ int, body string) (int, string) {
			if strings.Contains(body, bad) {
				return 400, `{"error":"field type conflict"}`
			}
			return 204, ""
		})
		eventually(t, "999 lines", func() bool { return len(d.stored()) >= 999 })
		eventually(t, "the books", func() bool { s := w.Stats(); return s.SentLines == 999 && s.RejectedLines == 1 })
		if stored := d.stored(); len(stored) != 999 {
			t.Errorf("%d lines: some were sent again and again", len(stored))
		}
		if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
			t.Fatal(err)
		}
		write(t, w, 1000, 1010)
		closeWriter(t, w)
		expectLines(t, d.stored()[999:], 1000, 1010)
	})
}

// What answers at the URL is a web server, not the database.
func TestOnlyAnInfluxDBTakesOrRefusesLines(t *testing.T) {
	for _, answer := range []struct {
		status int
		body   string
	}{
		{200, "<html>welcome</html>"}, {200, ""}, {202, ""}, {400, "Client sent an HTTP request to an HTTPS server.\n"},
		{422, "<html>no</html>"}, {400, `{"status":"bad"}`},
	} {
		d := newDatabase(t)
		d.set(func(int, string) (int, string) { return answer.status, answer.body })
		w := begin(t, config(d, t.TempDir()))
		write(t, w, 0, 100)
		eventually(t, "an error that names the answer", func() bool {
			return strings.Contains(w.Stats().LastError, fmt.Sprint(answer.status))
		})
		if s := w.Stats(); s.SentLines != 0 || s.RejectedLines != 0 || s.SpooledBytes == 0 || strings.Contains(s.LastError, "\n") {
			t.Errorf("%d %q: stats %+v", answer.status, answer.body, s)
		}
		d.set(nil)
		eventually(t, "100 lines", func() bool { return len(d.stored()) == 100 })
		expectLines(t, d.stored(), 0, 100)
	}
}

// A line that comes between the look at how much there is and the reading of it.
func TestALineLongerThanTheBufferIsNotTaken(t *testing.T) {
	for _, length := range []int{100, 32 << 10, 33 << 10, lineprotocol.MaxLineBytes - 1} {
		sp, err := openSpool(t.TempDir(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		long := []byte("m s=\"" + strings.Repeat("x", length-7-21) + "\" 1700000000000000000\n")
		if err := sp.append(long); err != nil {
			t.Fatal(err)
		}
		w := &Writer{spool: sp, limit: maxBatchBytes}
		b, err := w.nextBatch(0)
		if err != nil || b.torn != "" || b.lines != 1 || !bytes.Equal(b.bytes, long) {
			t.Errorf("a line of %d bytes: %d lines in %d bytes, torn %q, %v", len(long), b.lines, len(b.bytes), b.torn, err)
		}
		_ = sp.close()
	}
}

// After a power cut blocks of a file may be zeros, in the middle of lines too.
func TestLinesWithHolesAreNotSent(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	var content []byte
	for i := range 400 {
		content = append(content, line(i)+"\n"...)
	}
	const hole, holeEnd = 4096, 8192
	for i := hole; i < holeEnd; i++ {
		content[i] = 0
	}
	if err := os.WriteFile(filepath.Join(dir, "00000000000000000001.lp"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	w := begin(t, config(d, dir))
	write(t, w, 400, 410)
	closeWriter(t, w)
	first := bytes.Count(content[:hole], newline)
	last := 400 - bytes.Count(content[holeEnd:], newline) + 1 // the line that the hole ends in is lost
	if content[holeEnd-1] == 0 && first >= last {
		t.Fatalf("lines %d to %d", first, last)
	}
	stored := d.stored()
	expectLines(t, stored[:first], 0, first)
	expectLines(t, stored[first:], last, 410)
	if s := w.Stats(); s.RejectedLines != 1 || !strings.Contains(s.LastError, "torn") {
		t.Errorf("stats %+v", s)
	}
}

func TestATornSpoolLosesItsEndOnly(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 20 {
		d := newDatabase(t)
		d.set(func(int, string) (int, string) { return 500, "down" })
		dir := t.TempDir()
		c := config(d, dir)
		c.MaxSpoolBytes = 1 << 20 // segments of 128 KiB
		w := begin(t, c)
		write(t, w, 0, 8000)
		kill(w)
		files := spoolFiles(t, dir)
		if len(files) < 3 {
			t.Fatalf("%d segments", len(files))
		}
		newest := files[len(files)-1]
		content, err := os.ReadFile(newest)
		if err != nil {
			t.Fatal(err)
		}
		at := random.Intn(len(content))
		torn := content[:at:at]
		if random.Intn(2) == 0 {
			torn = append(torn, make([]byte, len(content)-at)...)
		}
		if err := os.WriteFile(newest, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		d = newDatabase(t) // the other may still store a request that the killed writer had sent
		c.URL = d.URL
		whole := 8000 - bytes.Count(content[at:], newline)
		next := begin(t, c)
		write(t, next, 8000, 8100)
		closeWriter(t, next)
		stored := d.stored()
		expectLines(t, stored[:whole], 0, whole)
		expectLines(t, stored[whole:], 8000, 8100)
		if s := next.Stats(); s.RejectedLines > 1 || s.SpooledBytes != 0 {
			t.Errorf("stats %+v", s)
		}
	}
}

func TestASegmentThatAnotherProcessRemovesHoldsUpNothing(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed":   os.Remove,
		"shortened": func(path string) error { return os.Truncate(path, 1000) },
		"emptied":   func(path string) error { return os.Truncate(path, 0) },
	} {
		for _, which := range []int{0, 1} {
			d := newDatabase(t)
			d.set(func(int, string) (int, string) { return 500, "down" })
			dir := t.TempDir()
			c := config(d, dir)
			c.MaxSpoolBytes = 256 << 10
			w := begin(t, c)
			write(t, w, 0, 3000)
			eventually(t, "a refusal", func() bool { return w.Stats().LastError != "" })
			if err := harm(spoolFiles(t, dir)[which]); err != nil {
				t.Fatal(err)
			}
			d.set(nil)
			eventually(t, "an empty spool", func() bool { return w.Stats().SpooledBytes == 0 })
			write(t, w, 3000, 3010)
			closeWriter(t, w)
			stored := d.stored()
			expectLines(t, stored[len(stored)-10:], 3000, 3010)
			for i := 1; i < len(stored); i++ {
				if stored[i] <= stored[i-1] && len(stored[i]) <= len(stored[i-1]) {
					t.Fatalf("%s: %q comes after %q", name, stored[i], stored[i-1])
				}
			}
			// An open file outlives its name.
			if s := w.Stats(); (s.RejectedLines == 0) != (name == "removed" && which == 0) {
				t.Errorf("%s %d: stats %+v", name, which, s)
			}
		}
	}
}

func TestASlowServerGetsSmallerBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for a slow server")
	}
	d := newDatabase(t)
	const manages = 100 << 10
	stored := d.Config.Handler
	var mu sync.Mutex
	posts := 0
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		posts++
		mu.Unlock()
		if len(body) > manages {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
			return
		}
		stored.ServeHTTP(w, r)
	})
	c := config(d, t.TempDir())
	c.FlushIntervalSeconds = 1
	w, err := open(c, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(w) })
	write(t, w, 0, 20000)
	eventually(t, "20000 lines", func() bool { return len(d.stored()) == 20000 })
	closeWriter(t, w)
	expectLines(t, d.stored(), 0, 20000)
	if s := w.Stats(); s.SentLines != 20000 || s.RejectedLines != 0 {
		t.Errorf("stats %+v", s)
	}
}

// appendPower appends a line like a power point, number k of a rail.
func appendPower(e *lineprotocol.Encoder, key []byte, k int64) {
	watts := 6 + float64(k%977)/131
	e.BeginKey(key)
	e.Float("volts", 12-float64(k%997)/1231)
	e.Float("amps", watts/12)
	e.Float("watts", watts)
	e.Float("watts_min", watts-1.0/3)
	e.Float("watts_max", watts+1.0/3)
	for i, counter := range []string{"joules", "joules_low", "joules_high"} {
		e.Float(counter, float64(k)*0.0672341+float64(i)/7)
	}
	for _, counter := range []string{"samples", "expected"} {
		e.Int(counter, k*200)
	}
	for _, counter := range []string{"lost", "repeated", "duplicate", "surplus"} {
		e.Int(counter, k/100)
	}
	e.Float("gap_seconds", float64(k/100)/20000)
	e.Float("clock_residual_seconds", 1.234567e-5)
	e.String("session", "0123456789ab")
	e.End(1700000000000000000 + k*10_000_000)
}

// hourServer checks that lines come in order and once, without keeping them.
type hourServer struct {
	t        *testing.T
	mu       sync.Mutex
	hash     map[string]int64 // next time expected, by series
	received int64
	out      bool
}

func (s *hourServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n')
		l := body[:end]
		body = body[end+1:]
		var at int64
		for _, digit := range l[bytes.LastIndexByte(l, ' ')+1:] {
			at = at*10 + int64(digit-'0')
		}
		series := l[:bytes.IndexByte(l, ' ')]
		if want := s.hash[string(series)]; at != want {
			s.t.Errorf("series %s: time %d, expected %d", series, at, want)
		}
		s.hash[string(series)] = at + 10_000_000
		s.received++
	}
	w.WriteHeader(http.StatusNoContent)
}

// An hour without InfluxDB: 100 points a second of 8 rails. The default bound of the spool holds
// them, memory does not grow with them, and they come in order, each once. A tenth of the hour
// unless JOULERIG_WHOLE_HOUR is set, which takes a minute and 1.3 GB.
func TestAnHourWithoutADatabase(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: an hour of lines")
	}
	const hour, rails = 100 * 3600, 8
	points := hour / 10
	if os.Getenv("JOULERIG_WHOLE_HOUR") != "" {
		points = hour
	}
	lines := int64(points * rails)
	server := &hourServer{t: t, hash: map[string]int64{}, out: true}
	s := httptest.NewServer(server)
	defer s.Close()
	var keys [][]byte
	for rail := range rails {
		key := lineprotocol.AppendKey(nil, "power", "meter", fmt.Sprintf("tap%da", rail/2+1), "rail", fmt.Sprintf("12v-%d", rail), "host", "vhost1", "drive", "nvme-plp")
		keys = append(keys, key)
		server.hash[string(key)] = 1700000000000000000
	}
	w := begin(t, Config{URL: s.URL, Database: "joulerig", SpoolDir: t.TempDir(), FlushIntervalSeconds: 0.2})
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	var e lineprotocol.Encoder
	for k := range int64(points) {
		for _, key := range keys {
			appendPower(&e, key, k)
		}
		if k%20 == 19 { // powerd hands on what comes together within 0.1 s
			if err := w.Write(e.Bytes()); err != nil {
				t.Fatal(err)
			}
			e.Reset()
		}
	}
	spooled := w.Stats().SpooledBytes
	if an := spooled * hour / int64(points); an > DefaultMaxSpoolBytes || an < 1<<30 {
		t.Errorf("an hour is %d bytes, the spool takes %d", an, int64(DefaultMaxSpoolBytes))
	}
	began := time.Now()
	server.mu.Lock()
	server.out = false
	server.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	if server.received != lines {
		t.Errorf("%d lines arrived, %d were written", server.received, points*rails)
	}
	if s := w.Stats(); s.SentLines != lines || s.RejectedLines != 0 || s.SpooledBytes != 0 {
		t.Errorf("stats %+v", s)
	}
	if grown := (after.Maxrss - before.Maxrss) << 10; grown > 32<<20 {
		t.Errorf("%d MiB of memory for %d MiB of spool", grown>>20, spooled>>20)
	}
	t.Logf("%d lines, %d MiB, delivered in %v", lines, spooled>>20, time.Since(began).Round(time.Millisecond))
}
