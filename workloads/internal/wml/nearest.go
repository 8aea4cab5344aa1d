// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import "slices"

// nearest is the known word with the smallest edit distance; the first by the alphabet of several.
func nearest(word string, known []string) string {
	best, bestDistance := "", 0
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if d := distance(word, candidate); best == "" || d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is Levenshtein's: letters to insert, delete or replace. Only the first 64 letters count.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// unknownWord refuses a word and names the nearest of the known ones.
func unknownWord(line int, what, word string, known []string) error {
	if len(known) == 0 {
		return failure(line, "%s %q: unknown; there is none", what, word)
	}
	return failure(line, "%s %q: unknown; nearest is %q", what, word, nearest(word, known))
}
