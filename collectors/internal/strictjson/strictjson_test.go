// SPDX-License-Identifier: GPL-3.0-or-later

package strictjson

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type config struct {
	Name   string            `json:"name"`
	Rate   float64           `json:"rate"`
	Count  int               `json:"count"`
	Set    map[string]string `json:"set"`
	Meters []struct {
		Rail string `json:"rail"`
	} `json:"meters"`
}

func TestWhatIsRightIsRead(t *testing.T) {
	var c config
	err := Decode([]byte(`{"name":"a","rate":2,"count":3,"set":{"k":"v"},"meters":[{"rail":"12v"},{"rail":"5v"}]}`), &c)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "a" || c.Rate != 2 || c.Count != 3 || c.Set["k"] != "v" || len(c.Meters) != 2 || c.Meters[1].Rail != "5v" {
		t.Errorf("%+v", c)
	}
}

func TestErrorsNameFileKeyValueAndWhatIsAllowed(t *testing.T) {
	for text, want := range map[string]string{
		`{"nam":"a"}`:                       `c.json: nam: unknown key, value "a" (allowed: name, rate, count, set, meters)`,
		`{"meters":[{"rail":"a"},{"x":1}]}`: `c.json: meters[1].x: unknown key, value 1 (allowed: rail)`,
		`{"rate":"fast"}`:                   `c.json: rate: "fast" (allowed: a number)`,
		`{"count":1.5}`:                     `c.json: count: 1.5 (allowed: a whole number)`,
		`{"name":null}`:                     `c.json: name: null (allowed: a string)`,
		`{"set":{"a":1}}`:                   `c.json: set: {"a":1} (allowed: an object of strings)`,
		`{"meters":{}}`:                     `c.json: meters: {} (allowed: a list)`,
		`[]`:                                `c.json: the whole: [] (allowed: an object)`,
		"{\n\"name\": }":                    `c.json: line 2: `,
	} {
		path := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var c config
		err := ReadFile(path, &c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
