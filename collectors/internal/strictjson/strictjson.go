// SPDX-License-Identifier: GPL-3.0-or-later

// Package strictjson reads what the controller sends to a collector: one JSON object without an
// unknown key.
package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile decodes the JSON object in the file into target, a pointer to a struct. Errors name the
// file and the key.
func ReadFile(path string, target any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := Decode(file, target); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Decode decodes the JSON object that the reader holds, to its end, into target.
func Decode(reader io.Reader, target any) error {
	decoder := json.NewDecoder(reader)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("more than one JSON object: expected one")
	}
	return nil
}
