// SPDX-License-Identifier: GPL-3.0-or-later

// Package workloads holds the workloads that ship with the programs made of this folder. It is not
// in personalities/ itself, for Go takes a .f file in addition to its own for Fortran.
package workloads

import (
	"embed"
	"path"
	"strings"
)

//go:embed personalities/*.f
var personalities embed.FS

// Personalities are the names of those that ship, by the alphabet.
func Personalities() []string {
	entries, _ := personalities.ReadDir("personalities") // cannot fail: it is of this program
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".f"))
	}
	return names
}

// Personality is the text of one, in the workload model language; false if there is none of that
// name.
func Personality(name string) ([]byte, bool) {
	source, err := personalities.ReadFile(path.Join("personalities", name+".f"))
	return source, err == nil
}
