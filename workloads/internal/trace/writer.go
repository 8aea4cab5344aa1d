// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Writer writes a trace; Flush it at the end.
type Writer struct{ out *bufio.Writer }

// NewWriter begins a trace with a comment of one line that says where it comes from.
func NewWriter(out io.Writer, comment string) *Writer {
	w := &Writer{bufio.NewWriter(out)}
	fmt.Fprintf(w.out, "# %s\n# SECONDS THREAD CALL PATH ...\n", strings.Join(strings.Fields(comment), " "))
	return w
}

// File declares a file that is there before.
func (w *Writer) File(path string, bytes int64) {
	fmt.Fprintf(w.out, "file %s %d\n", field(path), bytes)
}

// Operation writes a line; rest is what follows the path: numbers, or Rename's new path.
func (w *Writer) Operation(timeNS, thread int64, call Call, path string, rest ...any) {
	fmt.Fprintf(w.out, "%d.%09d %d %s %s", timeNS/1e9, timeNS%1e9, thread, call, field(path))
	for _, value := range rest {
		if newPath, is := value.(string); is {
			value = field(newPath)
		}
		fmt.Fprintf(w.out, " %v", value)
	}
	w.out.WriteByte('\n')
}

// Flush writes what is not yet written, and gives the first error there was.
func (w *Writer) Flush() error { return w.out.Flush() }

// field quotes a path where it must be.
func field(path string) string {
	plain := func(r rune) bool {
		return unicode.IsPrint(r) && r != ' ' && r != '"' && r != '#' && r != unicode.ReplacementChar
	}
	if path != "" && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return strconv.Quote(path)
}
