// SPDX-License-Identifier: GPL-3.0-or-later

// Package strictjson reads configuration files: a key that is not known is an error, and each error names file, key, value and
// what is allowed, on one line.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
)

// ReadFile decodes the JSON file into the struct that into points to. Keys are those of the fields' json tags.
func ReadFile(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := Decode(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Decode is ReadFile for what has been read.
func Decode(data []byte, into any) error {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
			return fmt.Errorf("line %d: %w (allowed: a JSON object)", line, err)
		}
		return err
	}
	return decode("", whole, reflect.ValueOf(into).Elem())
}

func decode(path string, raw json.RawMessage, into reflect.Value) error {
	switch into.Kind() {
	case reflect.Struct:
		return decodeStruct(path, raw, into)
	case reflect.Slice:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return wrong(path, raw, "a list")
		}
		into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
		for i, item := range items {
			if err := decode(fmt.Sprintf("%s[%d]", path, i), item, into.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, into.Addr().Interface()) != nil {
		return wrong(path, raw, kindName(into.Type()))
	}
	return nil
}

func decodeStruct(path string, raw json.RawMessage, into reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return wrong(path, raw, "an object")
	}
	fields := map[string]int{}
	var allowed []string
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = i
			allowed = append(allowed, name)
		}
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		full := name
		if path != "" {
			full = path + "." + name
		}
		at, known := fields[name]
		if !known {
			return fmt.Errorf("%s: unknown key, value %s (allowed: %s)", full, shorten(members[name]), strings.Join(allowed, ", "))
		}
		if err := decode(full, members[name], into.Field(at)); err != nil {
			return err
		}
	}
	return nil
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64, reflect.Uint32:
		return "a whole number"
	case reflect.Map:
		return "an object of strings"
	}
	return t.String()
}

func wrong(path string, raw json.RawMessage, allowed string) error {
	if path == "" {
		path = "the whole"
	}
	return fmt.Errorf("%s: %s (allowed: %s)", path, shorten(raw), allowed)
}

func shorten(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	if b.Len() > 60 {
		return b.String()[:60] + "..."
	}
	return b.String()
}
