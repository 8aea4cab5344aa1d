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

func TestDecodesKnownKeys(t *testing.T) {
	var got example
	text := `{"host":"h","rate":0.5,"inner":{"url":"u"},"drives":[{"name":"a"},{"name":"b"}]}`
	if err := Decode(strings.NewReader(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Host != "h" || got.Rate != 0.5 || got.Inner.URL != "u" || len(got.Drives) != 2 || got.Drives[1].Name != "b" {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsNameTheFileAndTheKeyOnOneLine(t *testing.T) {
	for text, want := range map[string]string{
		`{"hots":"h"}`:                           `unknown field "hots"`,
		`{"inner":{"uri":"u"}}`:                  `unknown field "uri"`,
		`{"drives":[{"name":"a"},{"nmae":"b"}]}`: `unknown field "nmae"`,
		`{"rate":"fast"}`:                        "example.rate of type float64",
		`{"host":"h"} {"host":"i"}`:              "more than one JSON object",
		`{"host":"h"}}`:                          "more than one JSON object",
		"{\n\"host\":\n":                         "unexpected EOF",
		`[]`:                                     "cannot unmarshal array",
		`{"host":"h",}`:                          "invalid character",
	} {
		path := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got example
		err := ReadFile(path, &got)
		if err == nil {
			t.Errorf("%s: accepted", text)
		} else if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error is %q, expected %q", text, err, want)
		}
	}
}
