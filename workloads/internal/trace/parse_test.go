// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestParseReadsWhatWriterWrites(t *testing.T) {
	var text bytes.Buffer
	w := NewWriter(&text, "a\ntest")
	paths := []string{"a", "d/a b", `quo"te`, "#x", "größe", "tab\tnew\nline", "back\\slash"}
	w.File("a", 12345)
	for i, path := range paths {
		w.Operation(int64(i)*1_500_000_000+7, 40, Write, path, 4096, i)
	}
	w.Operation(60e9, 41, Rename, "a", "d/b c")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	read := parsed(t, text.String())
	if len(read.Operations) != len(paths)+1 || len(read.Threads) != 2 || read.Threads[1] != 41 {
		t.Fatalf("%d operations of threads %v in\n%s", len(read.Operations), read.Threads, text.String())
	}
	for i, path := range paths {
		o := read.Operations[i]
		if read.Paths[o.Path].Name != path || o.TimeNS != int64(i)*1_500_000_000+7 || o.Offset != 4096 || o.Bytes != int64(i) || o.Call != Write {
			t.Errorf("%q became %+v of %q", path, o, read.Paths[o.Path].Name)
		}
	}
	if last := read.Operations[len(paths)]; read.Paths[last.To].Name != "d/b c" || read.Paths[0].Declared != 12345 {
		t.Errorf("%+v, %+v", last, read.Paths)
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	const good = "# comment\n0.5 1 open a # opened\n"
	for line, want := range map[string]string{
		"0.5 1 open":              "3 fields: expected SECONDS THREAD CALL PATH ..., or file PATH BYTES",
		"x 1 open a":              `time "x": expected seconds, 0 or more`,
		"-1 1 open a":             `time "-1": expected seconds, 0 or more`,
		"NaN 1 open a":            `time "NaN": expected seconds, 0 or more`,
		"0.4 1 open a":            "time 0.4: expected at least that of the line before",
		"1 x open a":              `thread "x": expected 0 to 9223372036854775807`,
		"1 1 ope a":               `call "ope": expected one of ["read" "write" "append" "fsync"`,
		"1 1 open /etc/passwd":    `path "/etc/passwd": expected a path below the directory, such as a/b`,
		"1 1 open ../a":           `path "../a": expected a path below the directory, such as a/b`,
		"1 1 rename a ../b":       `path "../b": expected a path below the directory, such as a/b`,
		"1 1 open /":              `path "/": expected a path below the directory, such as a/b`,
		`1 1 open "a`:             `"a: expected the quote's end`,
		"1 1 read a 0":            "read: 1 fields after the path: expected 2: OFFSET BYTES",
		"1 1 fsync a 0 5":         "fsync: 2 fields after the path: expected 0: ",
		"1 1 read a -1 5":         `offset "-1": expected 0 to`,
		"1 1 read a 0 2000000000": `bytes "2000000000": expected 0 to 1073741824`,
		"file a":                  "file: expected PATH BYTES after it",
		"file a many":             `size "many": expected 0 to`,
	} {
		_, err := Parse(strings.NewReader(good+line+"\n"), "t")
		if err == nil || !strings.HasPrefix(err.Error(), "t:3: "+want) {
			t.Errorf("%s: %v, want t:3: %s", line, err, want)
		}
	}
	if _, err := Parse(strings.NewReader("# nothing\n"), "t"); err == nil || err.Error() != "t: no operation in it" {
		t.Errorf("an empty trace: %v", err)
	}
	if _, err := Parse(strings.NewReader(good+strings.Repeat("x", maxLineBytes+1)), "t"); err == nil || !strings.HasPrefix(err.Error(), "t:3: ") {
		t.Errorf("a line without end: %v", err)
	}
}

func TestATraceHasAsManyThreadsAsAReplayCan(t *testing.T) {
	var text strings.Builder
	for thread := range maxThreads + 1 {
		fmt.Fprintf(&text, "0 %d stat a\n", thread)
	}
	if _, err := Parse(strings.NewReader(text.String()), "t"); err == nil || err.Error() != "t:4097: thread 4096: expected at most 4096 different ones" {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(everyCall)
	f.Add("file a 5\n1e3 2 rename \"x y\" z/\n")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := Parse(strings.NewReader(text), "t")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not one line", err)
			}
			return
		}
		_, _ = newPlan(read)
	})
}
