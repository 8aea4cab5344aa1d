// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shell is an application whose run and check are these scripts; $1 is the folder.
func shell(t *testing.T, run, check string) []string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "application.sh")
	text := "action=$1; shift\nif [ $action = run ]; then :\n" + run + "\nelse :\n" + check + "\nfi\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{"--application", "sh", "--application", script}
	return words
}

// witnessed runs durawriter write, and returns the lines that its witness got: it says stop at the
// last of so many reports.
func witnessed(t *testing.T, reports int, application []string) (lines []map[string]any, code int, complaint string) {
	t.Helper()
	where := filepath.Join(t.TempDir(), "witness")
	listener, err := net.Listen("unix", where)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan []map[string]any)
	go func() {
		var got []map[string]any
		defer func() { done <- got }()
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		scanner := bufio.NewScanner(connection)
		for scanner.Scan() {
			var line map[string]any
			if json.Unmarshal(scanner.Bytes(), &line) != nil {
				return
			}
			got = append(got, line)
			if line["event"] == "issued" {
				continue
			}
			reports--
			answer := "ok\n"
			if reports == 0 {
				answer = "stop\n"
			}
			connection.Write([]byte(answer))
		}
	}()
	var stderr bytes.Buffer
	words := append([]string{"write", "--campaign", strings.Repeat("0", 32), "--generation", "1",
		"--witness", "unix:" + where, "--directory", t.TempDir()}, application...)
	code = run(words, &bytes.Buffer{}, &stderr)
	return <-done, code, stderr.String()
}

func events(lines []map[string]any) string {
	var words []string
	for _, line := range lines {
		words = append(words, line["event"].(string))
	}
	return strings.Join(words, " ")
}

func TestTransactionsAreReportedAndTheApplicationWaitsForTheWitness(t *testing.T) {
	transact := `for id in 1 2 3; do echo "begin $id"; read ok || exit 0
[ $id = 2 ] && word=rollback || word=commit; echo "$word $id"; read ok || exit 0; done`
	lines, code, complaint := witnessed(t, 3, shell(t, transact, ""))
	if want := "issued acknowledged issued failed issued acknowledged"; events(lines) != want {
		t.Errorf("the witness got %q, want %q", events(lines), want)
	}
	if lines[0]["operation"] != "transaction" || lines[3]["error"] != "rolled back" {
		t.Errorf("got %v", lines)
	}
	if code != 0 {
		t.Errorf("after stop: exit %d: %s", code, complaint)
	}
}

func TestAnApplicationThatBreaksTheContractIsRefused(t *testing.T) {
	for script, want := range map[string]string{
		"echo hello":                           `printed "hello": expected one of begin, commit, rollback`,
		"echo begin 2; read ok":                `printed "begin 2" after transaction 0`,
		"echo begin 1; read ok; echo commit 2": `printed "commit 2" after transaction 1`,
		"echo begin 1; read ok; echo begin 2":  `printed "begin 2" after transaction 1`,
		"echo begin 0":                         `printed "begin 0"`,
		"echo begin 1; read ok; exit 3":        "the application: exit status 3",
		"true":                                 "the application ended by itself",
	} {
		if _, code, complaint := witnessed(t, 9, shell(t, script, "")); code != 1 || !strings.Contains(complaint, want) {
			t.Errorf("%s: exit %d, %q, want %q", script, code, complaint, want)
		}
	}
}

func surveyOf(t *testing.T, check string) (string, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	words := append([]string{"survey", "--campaign", strings.Repeat("0", 32), "--generation", "1",
		"--directory", t.TempDir()}, shell(t, "", check)...)
	code := run(words, &stdout, &stderr)
	return stdout.String() + stderr.String(), code
}

func TestASurveyHasWhatTheCheckerFound(t *testing.T) {
	got, code := surveyOf(t, "echo found 1; echo torn 4")
	want := `{"application":0}
{"transaction":1,"state":"found"}
{"transaction":4,"state":"torn"}
`
	if got != want || code != 0 {
		t.Errorf("exit %d, %q, want %q", code, got, want)
	}
}

func TestACheckerThatFailsIsAFindingWithItsLastWord(t *testing.T) {
	got, code := surveyOf(t, "echo found 1; echo first >&2; echo no such table >&2; exit 4")
	want := `{"application":4,"error":"no such table"}
{"transaction":1,"state":"found"}
`
	if got != want || code != 0 {
		t.Errorf("exit %d, %q, want %q", code, got, want)
	}
}

func TestACheckerThatPrintsSomethingElseIsRefused(t *testing.T) {
	if got, code := surveyOf(t, "echo lost 3"); code != 1 || !strings.Contains(got, "expected one of found, torn") {
		t.Errorf("exit %d, %q", code, got)
	}
}

func TestAnApplicationNeedsADirectory(t *testing.T) {
	var stderr bytes.Buffer
	words := []string{"survey", "--campaign", strings.Repeat("0", 32), "--device-fd", "0", "--application", "true"}
	if code := run(words, &bytes.Buffer{}, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "--application: expected --directory") {
		t.Errorf("exit %d, %q", code, stderr.String())
	}
}
