// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func ask(t *testing.T, m *Meter, method, path, body string) (int, string) {
	t.Helper()
	return askBelow(t, os.TempDir(), m, method, path, body)
}

// askBelow asks a powerd that is configured for recordings in dir.
func askBelow(t *testing.T, dir string, m *Meter, method, path, body string) (int, string) {
	t.Helper()
	server := httptest.NewServer(handler([]*Meter{m}, dir, func() Status { return Status{} }))
	defer server.Close()
	request := httptest.NewRequest(method, server.URL+path, strings.NewReader(body))
	request.RequestURI = ""
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestARunIsRecordedSampleBySampleWhereAsked(t *testing.T) {
	m, _ := testMeter(t)
	path := filepath.Join(t.TempDir(), "waveform-tap.parquet")
	play(t, m, 50e9, 1000)
	if code, text := ask(t, m, "POST", "/recordings", `{"meter":"tap","path":"`+path+`","max_bytes":1000000}`); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	m.endStream(Silent, "")
	play(t, m, 60e9, 3000)
	if status, _, _ := m.status(); status.Recording != path {
		t.Errorf("the status says that it is recorded to %q", status.Recording)
	}
	code, text := ask(t, m, "DELETE", "/recordings/tap", "")
	if code != 200 || !strings.Contains(text, `"recorded":6000`) || !strings.Contains(text, `"dropped":0`) {
		t.Errorf("%d %s", code, text)
	}
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		t.Errorf("%v %v", st, err)
	}
	if status, _, _ := m.status(); status.Recording != "" {
		t.Errorf("the status says that it is recorded to %q still", status.Recording)
	}
	m.endStream(Silent, "")
}

func TestOnlyFilesBelowTheConfiguredFolderAreWritten(t *testing.T) {
	m, _ := testMeter(t)
	top := t.TempDir()
	dir, other := filepath.Join(top, "results"), filepath.Join(top, "results-of-others")
	for _, folder := range []string{filepath.Join(dir, "run"), other} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out": other, "in": filepath.Join(dir, "run")} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(top, "linked-results")
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	body := func(path string) string { return `{"meter":"tap","path":"` + path + `","max_bytes":1000000}` }
	for _, c := range []struct{ dir, path, says string }{
		{dir, "/w", "allowed: a file below " + dir},
		{dir, other + "/w", "allowed: a file below " + dir},
		{dir, dir + "/../w", "allowed: a file below " + dir},
		{dir, dir + "/run/../../results-of-others/w", "allowed: a file below " + dir},
		{dir, dir + "/out/w", "allowed: a file below " + dir},
		{dir, top, "allowed: a file below " + dir},
		{dir, dir, "allowed: a file below " + dir},
		{dir, "", "not absolute"},
		{dir, "run/w", "not absolute"},
		{dir, dir + "/no-such-run/w", "no such file or directory"},
		{"", dir + "/run/w", "recordings_dir is not configured"},
		{filepath.Join(top, "none"), dir + "/run/w", "recordings_dir: "},
	} {
		if code, text := askBelow(t, c.dir, m, "POST", "/recordings", body(c.path)); code != 400 || !strings.Contains(text, c.says) {
			t.Errorf("%q of %q: %d %s", c.path, c.dir, code, text)
		}
	}
	for _, c := range []struct{ dir, path string }{{dir, dir + "/w"}, {dir, dir + "/run/w"}, {dir, dir + "/in/v"}, {dir, dir + "/out/../x"}, {linked, dir + "/run/u"}} {
		if code, text := askBelow(t, c.dir, m, "POST", "/recordings", body(c.path)); code != 200 {
			t.Errorf("%q of %q: %d %s", c.path, c.dir, code, text)
		}
		askBelow(t, c.dir, m, "DELETE", "/recordings/tap", "")
	}
	for _, folder := range []string{top, other} {
		if left, err := filepath.Glob(filepath.Join(folder, "[uvwx]*")); err != nil || len(left) > 0 {
			t.Errorf("%s: %v %v", folder, left, err)
		}
	}
}

func TestARecordingThatCannotBeIsRefusedWithTheReason(t *testing.T) {
	m, _ := testMeter(t)
	polled := newTestMeter(t, pollConfig(), &lines{})
	dir := t.TempDir()
	for _, c := range []struct {
		m                        *Meter
		method, path, body, says string
	}{
		{m, "POST", "/recordings", `{"meter":"tap","path":"here","max_bytes":1000000}`, "not absolute"},
		{m, "POST", "/recordings", `{"meter":"other","path":"` + dir + `/w","max_bytes":1000000}`, `no meter "other"`},
		{m, "POST", "/recordings", `{"meter":"tap","path":"` + dir + `/w","max_bytes":10}`, "allowed"},
		{m, "POST", "/recordings", `{"meter":"tap","file":"/x"}`, "file"},
		{m, "DELETE", "/recordings/tap", "", "not being recorded"},
		{polled, "POST", "/recordings", `{"meter":"psu","path":"` + dir + `/w","max_bytes":1000000}`, "polled"},
	} {
		if code, text := ask(t, c.m, c.method, c.path, c.body); code != 400 || !strings.Contains(text, c.says) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, code, text)
		}
	}
}
