// SPDX-License-Identifier: GPL-3.0-or-later

package influx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"joulerig/collectors/lineprotocol"
	"joulerig/tests/support/wait"
)

// database answers /write: by default it stores the lines and says 204.
type database struct {
	*httptest.Server
	mu     sync.Mutex
	lines  []string // stored, in order
	posts  int
	answer func(post int, body string) (status int, message string) // nil: 204
	header http.Header
}

func newDatabase(t *testing.T) *database {
	d := &database{}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/debug/vars" {
			http.NotFound(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.posts++
		d.header = r.Header.Clone()
		if q := r.URL.Query(); r.Method != "POST" || r.URL.Path != "/write" || q.Get("db") != "joule rig" || q.Get("precision") != "ns" {
			t.Errorf("request %s %s", r.Method, r.URL)
		}
		status, message := 204, ""
		if d.answer != nil {
			status, message = d.answer(d.posts, string(body))
		}
		if status == 204 {
			d.lines = append(d.lines, split(string(body))...)
		}
		if status == 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, message)
	}))
	t.Cleanup(d.Close)
	return d
}

func split(lines string) []string {
	return strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
}

func (d *database) stored() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func (d *database) set(answer func(int, string) (int, string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

func config(d *database, spoolDir string) Config {
	return Config{URL: d.URL, Database: "joule rig", SpoolDir: spoolDir, FlushIntervalSeconds: MinFlushIntervalSeconds}
}

func begin(t *testing.T, c Config) *Writer {
	t.Helper()
	w, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(w) })
	return w
}

// kill ends a writer as SIGKILL would: nothing is flushed, synced or tidied.
func kill(w *Writer) {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if closed {
		return
	}
	w.cancel()
	close(w.closing)
	<-w.done
	w.spool.offsetFile.Close()
	w.spool.lock.Close()
}

func line(i int) string { return fmt.Sprintf("m,tag=a value=%di %d", i, 1700000000000000000+i) }

func write(t *testing.T, w *Writer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := w.Write([]byte(line(i) + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

func expectLines(t *testing.T, got []string, from, to int) {
	t.Helper()
	if len(got) != to-from {
		t.Fatalf("%d lines stored, expected %d", len(got), to-from)
	}
	for i, l := range got {
		if l != line(from+i) {
			t.Fatalf("line %d is %q, expected %q", i, l, line(from+i))
		}
	}
}

func closeWriter(t *testing.T, w *Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	wait.For(t, 5*time.Second, what, condition)
}

func spoolFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "0*.lp"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestLinesArriveInOrderAndOnce(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	w := begin(t, config(d, dir))
	write(t, w, 0, 12000)
	closeWriter(t, w)
	expectLines(t, d.stored(), 0, 12000)
	if s := w.Stats(); s.WrittenLines != 12000 || s.SentLines != 12000 || s.RejectedLines != 0 || s.SpooledBytes != 0 || s.LastError != "" {
		t.Errorf("stats %+v", s)
	}
	if files := spoolFiles(t, dir); len(files) != 0 {
		t.Errorf("the spool keeps %v", files)
	}
}

func TestABatchHasAtMost5000Lines(t *testing.T) {
	d := newDatabase(t)
	d.set(func(_ int, body string) (int, string) {
		if n := strings.Count(body, "\n"); n > 5000 {
			t.Errorf("a batch of %d lines", n)
		}
		return 204, ""
	})
	c := config(d, t.TempDir())
	c.FlushIntervalSeconds = 60
	w := begin(t, c)
	write(t, w, 0, 11000)
	closeWriter(t, w)
	if d.posts < 3 {
		t.Errorf("%d posts for 11000 lines", d.posts)
	}
	expectLines(t, d.stored(), 0, 11000)
}

func TestLinesGoOutWithinTheFlushInterval(t *testing.T) {
	d := newDatabase(t)
	w := begin(t, config(d, t.TempDir()))
	write(t, w, 0, 3)
	eventually(t, "3 lines without Close", func() bool { return len(d.stored()) == 3 })
}

func TestLinesGoOutAtOnceWhenSendAsksForIt(t *testing.T) {
	d := newDatabase(t)
	c := config(d, t.TempDir())
	c.FlushIntervalSeconds = MaxFlushIntervalSeconds
	w := begin(t, c)
	write(t, w, 0, 3)
	w.Send()
	eventually(t, "3 lines without Close", func() bool { return len(d.stored()) == 3 })
}

func TestBasicAuthenticationComesFromThePasswordFile(t *testing.T) {
	d := newDatabase(t)
	c := config(d, t.TempDir())
	c.Username, c.PasswordFile = "iod", filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(c.PasswordFile, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := begin(t, c)
	refused := false
	d.set(func(int, string) (int, string) {
		if user, password, _ := (&http.Request{Header: d.header}).BasicAuth(); user != "iod" || password != "new" {
			refused = true
			return 401, `{"error":"authorization failed"}`
		}
		return 204, ""
	})
	write(t, w, 0, 1)
	eventually(t, "a refusal", func() bool { return strings.Contains(w.Stats().LastError, "authorization failed") })
	if err := os.WriteFile(c.PasswordFile, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the line, with the new password", func() bool { return len(d.stored()) == 1 })
	if !refused || w.Stats().RejectedLines != 0 {
		t.Errorf("refused %v, stats %+v", refused, w.Stats())
	}
}

func TestOutageIsRetriedAndLosesNothing(t *testing.T) {
	for _, status := range []int{500, 503, 429, 404, 302} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.set(func(post int, _ string) (int, string) {
				if post <= 2 {
					return status, `{"error":"not now"}`
				}
				return 204, ""
			})
			w := begin(t, config(d, t.TempDir()))
			write(t, w, 0, 100)
			eventually(t, "an error in the stats", func() bool { return strings.Contains(w.Stats().LastError, "not now") })
			if w.Stats().SpooledBytes == 0 {
				t.Error("spooled_bytes is 0 in an outage")
			}
			eventually(t, "100 lines", func() bool { return len(d.stored()) == 100 })
			expectLines(t, d.stored(), 0, 100)
			eventually(t, "stats that say so", func() bool {
				s := w.Stats()
				return s.SentLines == 100 && s.RejectedLines == 0 && s.SpooledBytes == 0 && s.LastError == ""
			})
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	c := config(d, dir)
	c.URL = "http://127.0.0.1:1"
	w := begin(t, c)
	write(t, w, 0, 10)
	eventually(t, "an error in the stats", func() bool { return strings.Contains(w.Stats().LastError, "refused") })
	if err := w.Close(context.Background()); err == nil || !strings.Contains(err.Error(), "stay in the spool") {
		t.Errorf("Close: %v", err)
	}
	next := begin(t, config(d, dir))
	closeWriter(t, next)
	expectLines(t, d.stored(), 0, 10)
}

func TestLostAnswerIsSentAgain(t *testing.T) {
	d := newDatabase(t)
	stored := d.Config.Handler
	var once sync.Once
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stored.ServeHTTP(httptest.NewRecorder(), r)
		lose := false
		once.Do(func() { lose = true })
		if lose {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(204)
	})
	c := config(d, t.TempDir())
	c.FlushIntervalSeconds = 0.2
	w := begin(t, c)
	write(t, w, 0, 5)
	eventually(t, "the batch twice", func() bool { return len(d.stored()) >= 10 })
	expectLines(t, d.stored()[:5], 0, 5)
	expectLines(t, d.stored()[5:], 0, 5)
	eventually(t, "5 lines counted once", func() bool { return w.Stats().SentLines == 5 })
}

// A server of 2.x stores nothing of a batch with a bad line.
func TestBadLinesAreFoundAndTheOthersStored(t *testing.T) {
	d := newDatabase(t)
	d.set(func(_ int, body string) (int, string) {
		for _, bad := range []int{17, 90} {
			if strings.Contains(body, line(bad)+"\n") {
				return 400, `{"code":"invalid","message":"partial write: field type conflict"}`
			}
		}
		return 204, ""
	})
	dir := t.TempDir()
	c := config(d, dir)
	c.FlushIntervalSeconds = 60
	w := begin(t, c)
	write(t, w, 0, 100)
	closeWriter(t, w)
	var want []string
	for i := range 100 {
		if i != 17 && i != 90 {
			want = append(want, line(i))
		}
	}
	if got := d.stored(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("stored %d lines: %v", len(got), got)
	}
	if s := w.Stats(); s.SentLines != 98 || s.RejectedLines != 2 || !strings.Contains(s.LastError, "field type conflict") {
		t.Errorf("stats %+v", s)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "rejected.lp"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(kept), line(17)+"\n") || !strings.Contains(string(kept), line(90)+"\n") || strings.Contains(string(kept), line(18)+"\n") {
		t.Errorf("rejected.lp holds %q", kept)
	}
}

func TestSearchForBadLinesIsBounded(t *testing.T) {
	d := newDatabase(t)
	d.set(func(int, string) (int, string) { return 400, `{"error":"all bad"}` })
	dir := t.TempDir()
	c := config(d, dir)
	c.FlushIntervalSeconds = 60
	w := begin(t, c)
	write(t, w, 0, 3000)
	closeWriter(t, w)
	if s := w.Stats(); s.RejectedLines != 3000 || s.SentLines != 0 || s.SpooledBytes != 0 {
		t.Errorf("stats %+v", s)
	}
	if d.posts > 2*maxSplitPosts {
		t.Errorf("%d posts", d.posts)
	}
	kept, _ := os.ReadFile(filepath.Join(dir, "rejected.lp"))
	if n := strings.Count(string(kept), "m,tag=a "); n != 3000 {
		t.Errorf("rejected.lp holds %d lines", n)
	}
}

func TestRejectedFileIsBounded(t *testing.T) {
	d := newDatabase(t)
	d.set(func(int, string) (int, string) { return 400, `{"error":"bad"}` })
	dir := t.TempDir()
	w := begin(t, config(d, dir))
	long := []byte("m s=\"" + strings.Repeat("x", 60000) + "\" 1700000000000000000\n")
	for range 60 {
		if err := w.Write(long); err != nil {
			t.Fatal(err)
		}
	}
	closeWriter(t, w)
	var total int64
	for _, name := range []string{"rejected.lp", "rejected.lp.1"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 2*(maxRejectedBytes+maxBatchBytes) {
		t.Errorf("%d bytes of rejected lines are kept", total)
	}
	if n := w.Stats().RejectedLines; n != 60 {
		t.Errorf("%d rejected", n)
	}
}

func TestTooLargeBatchIsSplitNotRejected(t *testing.T) {
	d := newDatabase(t)
	d.set(func(_ int, body string) (int, string) {
		if len(body) > 2000 {
			return 413, "Request Entity Too Large"
		}
		return 204, ""
	})
	c := config(d, t.TempDir())
	c.FlushIntervalSeconds = 60
	w := begin(t, c)
	write(t, w, 0, 4000)
	closeWriter(t, w)
	expectLines(t, d.stored(), 0, 4000)
	if s := w.Stats(); s.RejectedLines != 0 || s.SentLines != 4000 {
		t.Errorf("stats %+v", s)
	}
}

func TestRestartGoesOnFromTheAcknowledgedOffset(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	w := begin(t, config(d, dir))
	write(t, w, 0, 50)
	eventually(t, "50 lines acknowledged", func() bool { return w.Stats().SentLines == 50 })
	d.set(func(int, string) (int, string) { return 500, "down" })
	write(t, w, 50, 80)
	eventually(t, "a refusal", func() bool { return w.Stats().LastError != "" })
	kill(w)
	d.set(nil)
	next := begin(t, config(d, dir))
	write(t, next, 80, 90)
	closeWriter(t, next)
	expectLines(t, d.stored(), 0, 90)
	if s := next.Stats(); s.WrittenLines != 10 || s.SentLines != 40 {
		t.Errorf("stats %+v", s)
	}
}

func TestDamagedOffsetSendsAgainInsteadOfSkipping(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	w := begin(t, config(d, dir))
	write(t, w, 0, 20)
	eventually(t, "20 lines acknowledged", func() bool { return w.Stats().SentLines == 20 })
	kill(w)
	if err := os.WriteFile(filepath.Join(dir, "offset"), []byte("00000000000000000001 00000000000000000099 00000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := begin(t, config(d, dir))
	closeWriter(t, next)
	expectLines(t, d.stored()[20:], 0, 20)
}

func TestTornLastLineOfACrash(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	d.set(func(int, string) (int, string) { return 500, "down" })
	w := begin(t, config(d, dir))
	write(t, w, 0, 10)
	kill(w)
	files := spoolFiles(t, dir)
	f, err := os.OpenFile(files[len(files)-1], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "m,tag=a value=1")
	f.Close()
	d.set(nil)
	next := begin(t, config(d, dir))
	write(t, next, 10, 20)
	closeWriter(t, next)
	expectLines(t, d.stored(), 0, 20)
	if s := next.Stats(); s.RejectedLines != 1 || !strings.Contains(s.LastError, "torn") {
		t.Errorf("stats %+v", s)
	}
	if kept, _ := os.ReadFile(filepath.Join(dir, "rejected.lp")); !strings.Contains(string(kept), "m,tag=a value=1\n") {
		t.Errorf("rejected.lp holds %q", kept)
	}
	if files := spoolFiles(t, dir); len(files) != 0 {
		t.Errorf("the spool keeps %v", files)
	}
}

func TestSegmentOfZerosAfterAPowerCut(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "00000000000000000003.lp"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	w := begin(t, config(d, dir))
	write(t, w, 0, 5)
	closeWriter(t, w)
	expectLines(t, d.stored(), 0, 5)
	if s := w.Stats(); s.RejectedLines == 0 || s.SpooledBytes != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestFullSpoolRefusesAndTakesAgainLater(t *testing.T) {
	d := newDatabase(t)
	d.set(func(int, string) (int, string) { return 503, "down" })
	dir := t.TempDir()
	c := config(d, dir)
	c.MaxSpoolBytes = MinSpoolBytes
	w := begin(t, c)
	taken := 0
	var err error
	for ; err == nil && taken < 100000; taken++ {
		err = w.Write([]byte(line(taken) + "\n"))
	}
	taken--
	if !errors.Is(err, ErrSpoolFull) {
		t.Fatalf("after %d lines: %v, expected ErrSpoolFull", taken, err)
	}
	var onDisk int64
	for _, path := range spoolFiles(t, dir) {
		info, _ := os.Stat(path)
		onDisk += info.Size()
	}
	if onDisk > MinSpoolBytes {
		t.Errorf("%d bytes on disk, at most %d are allowed", onDisk, MinSpoolBytes)
	}
	if s := w.Stats(); s.WrittenLines != int64(taken) {
		t.Errorf("%d lines counted as written, %d taken", s.WrittenLines, taken)
	}
	d.set(nil)
	eventually(t, "an empty spool", func() bool { return w.Stats().SpooledBytes == 0 })
	write(t, w, taken, taken+10)
	closeWriter(t, w)
	expectLines(t, d.stored(), 0, taken+10)
}

func TestWriteRefusesLinesThatAreNotWhole(t *testing.T) {
	d := newDatabase(t)
	w := begin(t, config(d, t.TempDir()))
	if err := w.Write([]byte("m a=1 1")); err == nil {
		t.Error("a line without an end was taken")
	}
	if err := w.Write([]byte("m s=\"" + strings.Repeat("x", lineprotocol.MaxLineBytes) + "\" 1\n")); err == nil {
		t.Error("a line that is too long was taken")
	}
	closeWriter(t, w)
	if err := w.Write([]byte("m a=1 1\n")); err == nil {
		t.Error("a closed writer took a line")
	}
}

func TestCloseDoesNotWaitForAStalledServer(t *testing.T) {
	d := newDatabase(t)
	release := make(chan struct{})
	d.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	w := begin(t, config(d, t.TempDir()))
	write(t, w, 0, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := w.Close(ctx); err == nil || !strings.Contains(err.Error(), "stay in the spool") {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
}

func TestTwoWritersDoNotShareASpool(t *testing.T) {
	d := newDatabase(t)
	dir := t.TempDir()
	begin(t, config(d, dir))
	if w, err := Open(config(d, dir)); err == nil {
		kill(w)
		t.Error("the second writer opened the same spool")
	} else if !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v does not name the directory", err)
	}
}

func TestBadConfigIsRefusedWithTheKey(t *testing.T) {
	good := Config{URL: "http://127.0.0.1:1", Database: "d", SpoolDir: t.TempDir()}
	for key, change := range map[string]func(*Config){
		"influx.url":                    func(c *Config) { c.URL = "127.0.0.1:8086" },
		"influx.database":               func(c *Config) { c.Database = "" },
		"influx.spool_dir":              func(c *Config) { c.SpoolDir = "" },
		"influx.username":               func(c *Config) { c.PasswordFile = "x" },
		"influx.password_file":          func(c *Config) { c.Username, c.PasswordFile = "u", "/does/not/exist" },
		"influx.max_spool_bytes":        func(c *Config) { c.MaxSpoolBytes = 10 },
		"influx.flush_interval_seconds": func(c *Config) { c.FlushIntervalSeconds = -1 },
	} {
		c := good
		change(&c)
		w, err := Open(c)
		if err == nil {
			kill(w)
			t.Errorf("%s: taken", key)
		} else if !strings.HasPrefix(err.Error(), key+":") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error is %q", key, err)
		}
	}
}

// A server reports when it was started: only another start may have forgotten lines.
func TestLinesAreSentAgainToAServerThatWasRestartedAndToNoOther(t *testing.T) {
	d := newDatabase(t)
	var started atomic.Pointer[string]
	stored := d.Config.Handler
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/debug/vars" {
			fmt.Fprintf(w, `{"system":{"started":%q}}`, *started.Load())
			return
		}
		stored.ServeHTTP(w, r)
	})
	dir := t.TempDir()
	sent := 0
	for _, c := range []struct {
		start  string
		resent int64
	}{{"first", 0}, {"first", 0}, {"second", 30}, {"second", 0}} {
		started.Store(&c.start)
		w := begin(t, config(d, dir)) // with a new connection
		write(t, w, sent, sent+10)
		sent += 10
		closeWriter(t, w)
		if s := w.Stats(); s.ResentLines != c.resent || s.SentLines != 10 {
			t.Errorf("%d lines, to start %q: stats %+v, want %d resent", sent, c.start, s, c.resent)
		}
	}
	if n := len(d.stored()); n != sent+30 {
		t.Errorf("%d lines arrived, want %d", n, sent+30)
	}
}
