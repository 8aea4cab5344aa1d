// SPDX-License-Identifier: GPL-3.0-or-later

package influx_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/influxtest"
	"joulerig/tests/support/wait"
)

const series = 8

// point is line k of the test: each has a series, a time and a value that no other has.
func point(k int) string {
	return fmt.Sprintf("delivery,rail=r%d value=%di %d\n", k%series, k, t0+int64(k/series)*10_000_000)
}

// expectPoints asks the database for all that it has: points 0 to n-1, each with its own value.
func expectPoints(t *testing.T, s *influxtest.Server, n int) {
	t.Helper()
	total := 0
	for _, found := range s.Query("SELECT value FROM delivery GROUP BY rail") {
		var rail int
		fmt.Sscanf(found.Tags["rail"], "r%d", &rail)
		for i, row := range found.Values {
			at, _ := row[0].(json.Number).Int64()
			value, _ := row[1].(json.Number).Int64()
			if value != int64(i*series+rail) || at != t0+int64(i)*10_000_000 {
				t.Fatalf("point %d of rail %d is %d at %d", i, rail, value, at-t0)
			}
			total++
		}
	}
	if total != n {
		t.Errorf("%d points, %d were written", total, n)
	}
}

func closeWithin(t *testing.T, w *influx.Writer, limit time.Duration) influx.Stats {
	t.Helper()
	wait.Until(limit, func() bool { return w.Stats().SpooledBytes == 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return w.Stats()
}

// InfluxDB 1.6 forgets at the second kill what it acknowledged since the first (README.md): what
// was sent lately is sent again.
func TestInfluxdKilledInTheMiddleOfBatchesLosesAndDoublesNothing(t *testing.T) {
	s := influxtest.Start(t)
	dir := t.TempDir()
	w := openAt(t, s, dir)
	const n = 150_000
	put(t, w, "%s", point(0)[:len(point(0))-1])
	wait.For(t, 10*time.Second, "the first line is sent", func() bool { return w.Stats().SentLines > 0 })
	s.Stop()
	for k := 1; k < n; k++ {
		put(t, w, "%s", point(k)[:len(point(k))-1])
	}
	kills := 0
	random := rand.New(rand.NewSource(time.Now().UnixNano()))
	for kills < 6 && w.Stats().SpooledBytes > 0 {
		s.Restart()
		progress := func() int64 { s := w.Stats(); return s.SentLines + s.ResentLines }
		sent := progress()
		wait.Until(12*time.Second, func() bool { return progress() != sent })
		time.Sleep(time.Duration(random.Intn(100)) * time.Millisecond) // the kill comes at any point of a batch
		if w.Stats().SpooledBytes > 0 {
			kills++
		}
		s.Stop()
	}
	if kills < 2 {
		t.Errorf("influxd was killed %d times while there was something to send: too few to prove anything", kills)
	}
	s.Restart()
	stats := closeWithin(t, w, 30*time.Second)
	if stats.SentLines != n || stats.RejectedLines != 0 || stats.ResentLines == 0 {
		t.Errorf("stats %+v", stats)
	}
	expectPoints(t, s, n)

	// The next process knows the server by its start: it sends again only to another one.
	next := openAt(t, s, dir)
	put(t, next, "after value=1i %d", t0)
	if stats := closeWithin(t, next, 10*time.Second); stats.ResentLines != 0 || stats.SentLines != 1 {
		t.Errorf("the same server: stats %+v", stats)
	}
	s.Stop()
	s.Restart()
	last := openAt(t, s, dir)
	put(t, last, "after value=2i %d", t0+1)
	if stats := closeWithin(t, last, 10*time.Second); stats.ResentLines < n || stats.SentLines != 1 {
		t.Errorf("another start of it: stats %+v", stats)
	}
	expectPoints(t, s, n)
}

// How long the writer waits for an answer, and how late a late one is.
const (
	patience    = 300 * time.Millisecond
	answersLate = 500 * time.Millisecond
)

// faults stands before an influxd and lets things go wrong.
type faults struct {
	http.Handler
	mu     sync.Mutex
	random *rand.Rand
	met    map[string]int
	off    bool
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	kinds := []string{"none", "none", "none", "answer lost", "500 though applied", "503", "connection lost", "first half applied", "late"}
	kind := kinds[f.random.Intn(len(kinds))]
	if f.off {
		kind = "none"
	}
	f.met[kind]++
	f.mu.Unlock()
	pass := func(w http.ResponseWriter, body []byte) {
		again := r.Clone(r.Context())
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		f.Handler.ServeHTTP(w, again)
	}
	aside := httptest.NewRecorder()
	switch kind {
	case "none":
		pass(w, body)
	case "answer lost":
		pass(aside, body)
		panic(http.ErrAbortHandler)
	case "500 though applied":
		pass(aside, body)
		w.WriteHeader(500)
		fmt.Fprint(w, `{"error":"timeout"}`)
	case "503":
		w.WriteHeader(503)
	case "connection lost":
		panic(http.ErrAbortHandler)
	case "first half applied":
		if end := bytes.LastIndexByte(body[:len(body)/2], '\n') + 1; end > 0 {
			pass(aside, body[:end])
		}
		panic(http.ErrAbortHandler)
	case "late":
		pass(aside, body)
		time.Sleep(answersLate)
		w.WriteHeader(204)
	}
}

func TestWhateverBecomesOfABatchEachPointIsThereOnceWithItsValue(t *testing.T) {
	s := influxtest.Start(t)
	f := &faults{Handler: s.Proxy(), random: rand.New(rand.NewSource(2)), met: map[string]int{}}
	front := httptest.NewServer(f)
	defer front.Close()
	w, err := influx.OpenWithTimeout(influx.Config{URL: front.URL, Database: influxtest.Database, Username: influxtest.Username,
		PasswordFile: s.PasswordFile, SpoolDir: t.TempDir(), FlushIntervalSeconds: 0.05}, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	k := 0
	every := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.met) == 7
	}
	for deadline := time.Now().Add(60 * time.Second); !every() && time.Now().Before(deadline); {
		for range 160 {
			if err := w.Write([]byte(point(k))); err != nil {
				t.Fatal(err)
			}
			k++
		}
		time.Sleep(20 * time.Millisecond) // at the pace of a capture
	}
	f.mu.Lock()
	f.off = true
	if len(f.met) != 7 {
		t.Errorf("only these were met: %v", f.met)
	}
	f.mu.Unlock()
	stats := closeWithin(t, w, 20*time.Second)
	expectPoints(t, s, k)
	if stats.SentLines != int64(k) || stats.RejectedLines != 0 {
		t.Errorf("%d points, stats %+v", k, stats)
	}
}

// An outage in which the collector dies, twice, and the spool passes from one process to the next.
func TestAnOutageOverRestartsOfTheCollector(t *testing.T) {
	s := influxtest.Start(t)
	dir := t.TempDir()
	s.Stop()
	const n = 30_000
	for part := range 3 {
		w := openAt(t, s, dir)
		for k := part * n / 3; k < (part+1)*n/3; k++ {
			put(t, w, "%s", point(k)[:len(point(k))-1])
		}
		if part < 2 {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			if err := w.Close(ended); err == nil {
				t.Error("Close does not say that lines stay in the spool")
			}
			continue
		}
		s.Restart()
		if stats := closeWithin(t, w, 20*time.Second); stats.SentLines != n || stats.WrittenLines != n/3 {
			t.Errorf("stats %+v", stats)
		}
	}
	expectPoints(t, s, n)
}
