// SPDX-License-Identifier: GPL-3.0-or-later

// Package influxtest runs a real influxd (1.x) for tests, with authentication, in a temporary
// directory and on a free port.
package influxtest

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"joulerig/tests/support/wait"
)

// Server is an influxd with the database Database and its administrator.
type Server struct {
	URL          string
	PasswordFile string
	t            testing.TB
	dir, port    string
	process      *exec.Cmd
}

// What the server knows.
const (
	Database = "joulerig"
	Username = "admin"
	password = "sesame open"
)

// Start starts a server that ends with the test, which is skipped where there is no influxd, and by
// "go test -short".
func Start(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: starts an influxd")
	}
	if _, err := exec.LookPath("influxd"); err != nil {
		t.Skip("no influxd in PATH")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	dir := t.TempDir()
	s := &Server{URL: "http://127.0.0.1:" + port, PasswordFile: filepath.Join(dir, "password"), t: t, dir: dir, port: port}
	if err := os.WriteFile(s.PasswordFile, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "influxd.conf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	s.Restart()
	s.Query(fmt.Sprintf("CREATE USER %s WITH PASSWORD '%s' WITH ALL PRIVILEGES", Username, password))
	s.Query("CREATE DATABASE " + Database)
	return s
}

// Restart starts the server again after Stop, with its data.
func (s *Server) Restart() {
	s.t.Helper()
	s.process = exec.Command("influxd", "run", "-config", filepath.Join(s.dir, "influxd.conf"))
	s.process.Env = append(os.Environ(),
		"INFLUXDB_META_DIR="+s.dir+"/meta", "INFLUXDB_DATA_DIR="+s.dir+"/data", "INFLUXDB_DATA_WAL_DIR="+s.dir+"/wal",
		"INFLUXDB_HTTP_BIND_ADDRESS=127.0.0.1:"+s.port, "INFLUXDB_BIND_ADDRESS=127.0.0.1:0",
		"INFLUXDB_HTTP_AUTH_ENABLED=true", "INFLUXDB_REPORTING_DISABLED=true", "INFLUXDB_MONITOR_STORE_ENABLED=false",
	)
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	wait.For(s.t, 10*time.Second, "influxd answers", func() bool {
		resp, err := http.Get(s.URL + "/ping")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

// Proxy passes requests on to the server: for tests that stand between it and its client.
func (s *Server) Proxy() http.Handler {
	target, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // a client that gives up is no error of a test
	return proxy
}

// Stop ends the server; its data stays until the test ends.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// Series is one series of a result.
type Series struct {
	Name    string            `json:"name"`
	Tags    map[string]string `json:"tags"`
	Columns []string          `json:"columns"`
	Values  [][]any           `json:"values"` // numbers are json.Number
}

// Query runs an InfluxQL statement.
func (s *Server) Query(q string) []Series {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.URL+"/query?"+url.Values{"db": {Database}, "epoch": {"ns"}, "q": {q}}.Encode(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.SetBasicAuth(Username, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Results []struct {
			Series []Series `json:"series"`
			Error  string   `json:"error"`
		} `json:"results"`
		Error string `json:"error"`
	}
	decoder := json.NewDecoder(resp.Body)
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	if answer.Error != "" || len(answer.Results) != 1 || answer.Results[0].Error != "" {
		s.t.Fatalf("%s: %+v", q, answer)
	}
	return answer.Results[0].Series
}

// Count is the number of points of a measurement that have the field.
func (s *Server) Count(measurement, field string) int64 {
	s.t.Helper()
	series := s.Query(fmt.Sprintf("SELECT count(%q) FROM %q", field, measurement))
	if len(series) == 0 {
		return 0
	}
	n, _ := series[0].Values[0][1].(json.Number).Int64()
	return n
}
