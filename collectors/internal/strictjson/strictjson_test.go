// SPDX-License-Identifier: GPL-3.0-or-later

package strictjson

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type example struct {
	Host  string  `json:"host"`
	Rate  float64 `json:"rate"`
	Inner struct {
		URL string `json:"url"`
	} `json:"inner"`
	Drives []struct {
		Name string `json:"name"`
	} `json:"drives"`
}

func TestDecodesWhatIsKnown(t *testing.T) {
	var got example
	if err := Decode([]byte(`{"host":"h","rate":0.5,"inner":{"url":"u"},"drives":[{"name":"a"},{"name":"b"}]}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.Host != "h" || got.Rate != 0.5 || got.Inner.URL != "u" || len(got.Drives) != 2 || got.Drives[1].Name != "b" {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsNameFileKeyAndWhatIsAllowed(t *testing.T) {
	for text, want := range map[string]string{
		`{"hots":"h"}`:                           `hots: unknown key: expected one of host, rate, inner, drives (found "h")`,
		`{"Host":"h"}`:                           "Host: unknown key",
		`{"inner":{"uri":"u"}}`:                  "inner.uri: unknown key: expected one of url",
		`{"drives":[{"name":"a"},{"nmae":"b"}]}`: "drives[1].nmae: unknown key: expected one of name",
		`{"host":"a","host":"b"}`:                "host: given twice",
		`{"rate":"fast"}`:                        "rate: found a JSON string: expected a number",
		`{"host":"h"} {"host":"i"}`:              "expected one JSON object",
		"{\n\"host\":\n":                         "line 3",
		`[]`:                                     "expected an object",
		`{"host":"h",}`:                          "line 1",
	} {
		path := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got example
		err := ReadFile(path, &got)
		if err == nil {
			t.Errorf("%s: taken", text)
		} else if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error is %q, expected %q", text, err, want)
		}
	}
}
