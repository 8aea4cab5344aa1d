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
	server := httptest.NewServer(handler([]*Meter{m}, func() Status { return Status{} }))
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
	code, text := ask(t, m, "DELETE", "/recordings/tap", "")
	if code != 200 || !strings.Contains(text, `"recorded":6000`) || !strings.Contains(text, `"dropped":0`) {
		t.Errorf("%d %s", code, text)
	}
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		t.Errorf("%v %v", st, err)
	}
	m.endStream(Silent, "")
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
		{m, "POST", "/recordings", `{"meter":"other","path":"/x","max_bytes":1000000}`, `no meter "other"`},
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
