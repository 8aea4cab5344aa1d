// SPDX-License-Identifier: GPL-3.0-or-later

package filelayout

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"joulerig/workloads/internal/filesys"
)

func writer(t *testing.T) (*Writer, string) {
	t.Helper()
	directory := t.TempDir()
	system, err := filesys.OpenKernel(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { system.Release() })
	w, err := NewWriter(system, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return w, directory
}

func TestFilesAreWrittenWholeInTheFoldersTheyNeed(t *testing.T) {
	w, directory := writer(t)
	sizes := map[string]int64{"empty": 0, "a/b/c": 5, "a/b/d": pieceBytes, "a/e": 2*pieceBytes + 3}
	total := int64(0)
	for name, size := range sizes {
		if err := w.File(t.Context(), name, size); err != nil {
			t.Fatal(err)
		}
		total += size
		if info, err := os.Stat(filepath.Join(directory, name)); err != nil || info.Size() != size {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := w.Sync(); err != nil {
		t.Error(err)
	}
	if w.Files != 4 || w.Written != total {
		t.Errorf("reported %d files, %d bytes", w.Files, w.Written)
	}
}

func TestAnOldContentIsGone(t *testing.T) {
	w, directory := writer(t)
	path := filepath.Join(directory, "a")
	if err := os.WriteFile(path, make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.File(t.Context(), "a", 10); err != nil {
		t.Fatal(err)
	}
	if content, _ := os.ReadFile(path); len(content) != 10 || bytes.Equal(content, make([]byte, 10)) {
		t.Errorf("%v", content)
	}
}

func TestErrorsNameCallAndFile(t *testing.T) {
	w, directory := writer(t)
	if err := os.WriteFile(filepath.Join(directory, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.File(t.Context(), "file/a", 1); err == nil || err.Error() != "create file/a: not a directory" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.File(ctx, "b", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestPiecesDoNotCompress(t *testing.T) {
	for _, size := range []int{1, 7, 100, 1 << 16} {
		data, err := Piece(size, rand.New(rand.NewPCG(1, 1)))
		if err != nil || len(data) != size {
			t.Fatal(len(data), err)
		}
		var packed bytes.Buffer
		flat, _ := flate.NewWriter(&packed, flate.BestCompression)
		flat.Write(data)
		flat.Close()
		if packed.Len() < size {
			t.Errorf("%d bytes became %d", size, packed.Len())
		}
	}
}
