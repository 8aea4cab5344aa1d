// SPDX-License-Identifier: GPL-3.0-or-later

package influx_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/influxtest"
	"joulerig/collectors/lineprotocol"
	"joulerig/tests/support/wait"
)

const t0 = int64(1700000000123456789)

func openAt(t *testing.T, s *influxtest.Server, spoolDir string) *influx.Writer {
	t.Helper()
	w, err := influx.Open(influx.Config{URL: s.URL, Database: influxtest.Database, Username: influxtest.Username,
		PasswordFile: s.PasswordFile, SpoolDir: spoolDir, FlushIntervalSeconds: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

func put(t *testing.T, w *influx.Writer, format string, args ...any) {
	t.Helper()
	if err := w.Write(fmt.Appendf(nil, format+"\n", args...)); err != nil {
		t.Fatal(err)
	}
}

func flush(t *testing.T, w *influx.Writer) influx.Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return w.Stats()
}

// Every character that the encoder escapes, and nanoseconds, survive the way into the database.
func TestEncodedPointsComeBack(t *testing.T) {
	s := influxtest.Start(t)
	w := openAt(t, s, t.TempDir())
	var e lineprotocol.Encoder
	e.Begin("m, 1").Tag("tag, =1", `v, =w"\x`)
	e.Float("f =,x", 1e21)
	e.Float("small", -2.5e-7)
	e.Int("i", -9223372036854775808)
	e.String("s", `quote " back\slash, = end\`)
	e.End(t0)
	if err := w.Write(e.Bytes()); err != nil {
		t.Fatal(err)
	}
	if stats := flush(t, w); stats.SentLines != 1 || stats.RejectedLines != 0 {
		t.Fatalf("stats %+v", stats)
	}
	series := s.Query(`SELECT "f =,x", small, i, s FROM "m, 1" GROUP BY *`)
	if len(series) != 1 {
		t.Fatalf("series %+v", series)
	}
	row := series[0].Values[0]
	if series[0].Tags["tag, =1"] != `v, =w"\x` || fmt.Sprint(row[0]) != fmt.Sprint(t0) ||
		fmt.Sprint(row[3]) != "-9223372036854775808" || row[4] != `quote " back\slash, = end\` {
		t.Errorf("series %+v", series)
	}
	if f, _ := row[1].(json.Number).Float64(); f != 1e21 {
		t.Errorf("float %v", row[1])
	}
	if f, _ := row[2].(json.Number).Float64(); f != -2.5e-7 {
		t.Errorf("float %v", row[2])
	}
}

func TestAnOutageOfTheServerLosesAndDoublesNothing(t *testing.T) {
	s := influxtest.Start(t)
	w := openAt(t, s, t.TempDir())
	for i := range 3000 {
		put(t, w, "outage,tag=a value=%di %d", i, t0+int64(i))
		switch i {
		case 1000:
			wait.For(t, 5*time.Second, "lines are sent", func() bool { return w.Stats().SentLines > 0 })
			s.Stop()
		case 2000:
			wait.For(t, 5*time.Second, "the outage is noticed", func() bool { return w.Stats().LastError != "" })
			s.Restart()
		}
	}
	stats := flush(t, w)
	if n := s.Count("outage", "value"); n != 3000 || stats.SentLines != 3000 || stats.RejectedLines != 0 {
		t.Errorf("%d points, stats %+v", n, stats)
	}
}

func TestOnlyTheLineOfTheWrongTypeIsRejected(t *testing.T) {
	s := influxtest.Start(t)
	w := openAt(t, s, t.TempDir())
	for i := range 100 {
		suffix := "i"
		if i == 50 {
			suffix = "" // a float among integers
		}
		put(t, w, "typed value=%d%s %d", i, suffix, t0+int64(i))
	}
	stats := flush(t, w)
	if n := s.Count("typed", "value"); n != 99 || stats.SentLines != 99 || stats.RejectedLines != 1 {
		t.Errorf("%d points, stats %+v", n, stats)
	}
	if !strings.Contains(stats.LastError, "field type conflict") {
		t.Errorf("last error %q", stats.LastError)
	}
}

func TestADatabaseMadeLaterGetsTheLines(t *testing.T) {
	s := influxtest.Start(t)
	s.Query("DROP DATABASE " + influxtest.Database)
	w := openAt(t, s, t.TempDir())
	put(t, w, "later value=1i %d", t0)
	wait.For(t, 5*time.Second, "the missing database is reported", func() bool {
		return strings.Contains(w.Stats().LastError, "database not found")
	})
	s.Query("CREATE DATABASE " + influxtest.Database)
	if stats := flush(t, w); stats.SentLines != 1 || s.Count("later", "value") != 1 {
		t.Errorf("stats %+v", stats)
	}
}

func TestASpoolSentTwiceMakesNoSecondPoints(t *testing.T) {
	s := influxtest.Start(t)
	for range 2 {
		w := openAt(t, s, t.TempDir())
		for i := range 200 {
			put(t, w, "twice,tag=a value=%di %d", i, t0+int64(i))
		}
		flush(t, w)
	}
	if n := s.Count("twice", "value"); n != 200 {
		t.Errorf("%d points", n)
	}
}
