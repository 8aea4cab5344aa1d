// SPDX-License-Identifier: GPL-3.0-or-later

// Package strictjson reads configuration files: an unknown key, a wrong type
// or a second document is an error that names file, key and what is allowed.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// ReadFile decodes the JSON object in the file into target, a pointer to a struct.
func ReadFile(path string, target any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := Decode(data, target); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Decode is ReadFile without the file.
func Decode(data []byte, target any) error {
	if err := checkKeys(data, reflect.TypeOf(target).Elem(), ""); err != nil {
		return err
	}
	if err := json.Unmarshal(data, target); err != nil {
		return explain(data, err)
	}
	return nil
}

// explain puts encoding/json's errors in terms of the file.
func explain(data []byte, err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		return fmt.Errorf("%s: found a JSON %s: expected %s", wrongType.Field, wrongType.Value, kindName(wrongType.Type))
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		return fmt.Errorf("line %d: %w: expected one JSON object", line, err)
	}
	return err
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	}
	return "an object"
}

// checkKeys walks objects and arrays of objects; what else is wrong is left to
// Unmarshal.
func checkKeys(data []byte, t reflect.Type, path string) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Slice:
		var elements []json.RawMessage
		if err := json.Unmarshal(data, &elements); err != nil {
			return nil
		}
		for i, element := range elements {
			if err := checkKeys(element, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		decoder := json.NewDecoder(bytes.NewReader(data))
		if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
			return nil
		}
		seen := map[string]bool{}
		for decoder.More() {
			token, err := decoder.Token()
			if err != nil {
				return nil
			}
			key := token.(string)
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				return nil
			}
			full := key
			if path != "" {
				full = path + "." + key
			}
			field, allowed := find(t, key)
			if field == nil {
				return fmt.Errorf("%s: unknown key: expected one of %s (found %s)", full, strings.Join(allowed, ", "), shorten(value))
			}
			if seen[key] {
				return fmt.Errorf("%s: given twice: expected once", full)
			}
			seen[key] = true
			if err := checkKeys(value, field, full); err != nil {
				return err
			}
		}
	}
	return nil
}

// shorten gives a value as one line for an error.
func shorten(value json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, value) != nil {
		return "?"
	}
	return fmt.Sprintf("%.60s", line.String())
}

// find gives the type of the field with that key, and all keys.
func find(t reflect.Type, key string) (found reflect.Type, keys []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		keys = append(keys, name)
		if name == key {
			found = t.Field(i).Type
		}
	}
	return found, keys
}
