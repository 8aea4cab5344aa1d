// SPDX-License-Identifier: GPL-3.0-or-later

package fileset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"joulerig/workloads"
	"joulerig/workloads/internal/filesys"
	"joulerig/workloads/internal/wml"
)

func define(entries int64) *wml.Fileset {
	return &wml.Fileset{
		Name: "set", Entries: entries, Size: wml.Fixed(5000), DirWidth: wml.Fixed(20), DirGamma: 1.5, PreallocPercent: 80,
	}
}

func set(t *testing.T, define *wml.Fileset, seed uint64) *Set {
	t.Helper()
	s, err := New(define, seed, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func personality(t *testing.T, name string) *wml.Program {
	t.Helper()
	source, _ := workloads.Personality(name)
	program, err := wml.Parse(name, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// shape of a set: directories below the root on the way to a file, and files of a directory.
func shape(s *Set) (meanDepth float64, filesOf map[string]int) {
	filesOf, sum := map[string]int{}, 0
	for _, f := range s.Files.files {
		directory := filepath.Dir(f.Name.String())
		sum += strings.Count(directory, "/")
		filesOf[directory]++
	}
	return float64(sum) / float64(s.Files.Len()), filesOf
}

func TestThePersonalitiesHaveTheirFiles(t *testing.T) {
	for _, c := range []struct {
		name            string
		files           int
		percent         float64
		meanBytes       float64
		flat            bool
		fewest, deepest float64 // mean directories on the way to a file: one that draws a great depth holds most files
	}{
		{"varmail", 1000, 80, 16384, true, 1, 1},
		{"fileserver", 10000, 80, 131072, false, 3.1, 8},
		{"webserver", 1000, 100, 16384, false, 2.3, 5},
		{"webproxy", 10000, 80, 16384, true, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := set(t, personality(t, c.name).Filesets[0], 1)
			if s.Files.Len() != c.files {
				t.Errorf("%d files, expected %d", s.Files.Len(), c.files)
			}
			share := 100 * float64(s.Files.Existing()) / float64(c.files)
			// Four standard deviations of a binomial share.
			if tolerance := 4 * math.Sqrt(c.percent*(100-c.percent)/float64(c.files)); math.Abs(share-c.percent) > tolerance {
				t.Errorf("%.1f %% of the files exist, expected %v", share, c.percent)
			}
			kolmogorovSmirnov(t, s, c.meanBytes)
			depth, filesOf := shape(s)
			t.Logf("files lie %.1f directories below the root, %d of which hold files", depth, len(filesOf))
			if depth < c.fewest || depth > c.deepest {
				t.Errorf("files lie %.2f directories deep, expected %v to %v", depth, c.fewest, c.deepest)
			}
			if c.flat != (len(filesOf) == 1) {
				t.Errorf("%d directories hold files", len(filesOf))
			}
			if width := float64(c.files) / float64(len(filesOf)); !c.flat && math.Abs(width-20) > 4 {
				t.Errorf("a directory holds %.1f files, expected about 20", width)
			}
		})
	}
}

// kolmogorovSmirnov refuses sizes that are not of the gamma distribution with shape 1.5 at a level
// of 1 %.
func kolmogorovSmirnov(t *testing.T, s *Set, mean float64) {
	t.Helper()
	var sizes []float64
	for _, f := range s.Files.files {
		sizes = append(sizes, float64(f.Size))
	}
	slices.Sort(sizes)
	n, distance := float64(len(sizes)), 0.0
	for i, size := range sizes {
		at := wml.Gamma(1.5, mean).CDF(size)
		distance = max(distance, at-float64(i)/n, float64(i+1)/n-at)
	}
	if limit := 1.63 / math.Sqrt(n); distance > limit {
		t.Errorf("sizes are %.4f from gamma(1.5) of mean %v, expected at most %.4f", distance, mean, limit)
	}
}

func TestTheSameSeedGivesTheSameSet(t *testing.T) {
	listing := func(seed uint64, number int) string {
		d := define(300)
		d.Size = wml.Drawn(wml.Gamma(1.5, 16384))
		s, err := New(d, seed, number)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range s.Files.files {
			all = append(all, fmt.Sprint(f.Name, f.Size, s.Files.idle[Exists].has(f.index)))
		}
		return strings.Join(all, "\n")
	}
	if first, second := listing(1, 0), listing(1, 0); first != second {
		t.Error("two sets of one seed differ")
	}
	if listing(1, 0) == listing(2, 0) || listing(1, 0) == listing(1, 1) {
		t.Error("sets of different seeds, or of different numbers, are the same")
	}
}

func TestTrees(t *testing.T) {
	fixed := func(gamma float64, width float64, entries, leaves int64) *wml.Fileset {
		d := define(entries)
		d.DirGamma, d.DirWidth, d.LeafDirectories = gamma, wml.Fixed(width), leaves
		return d
	}
	drawn := wml.Drawn(wml.Gamma(1.5, 2))
	depth := fixed(1.5, 5, 200, 0)
	depth.DirDepth = &drawn
	width := fixed(1.5, 5, 200, 0)
	width.DirWidth = drawn
	for name, d := range map[string]*wml.Fileset{
		"one file":              fixed(1.5, 20, 1, 0),
		"not random":            fixed(0, 10, 1000, 0),
		"width one":             fixed(1.5, 1, 10, 0),
		"leaf directories":      fixed(1.5, 10, 0, 50),
		"files and directories": fixed(1.5, 10, 100, 50),
		"drawn depth":           depth,
		"drawn width":           width,
	} {
		s := set(t, d, 3)
		if s.Files.Len() != int(d.Entries) || s.Leaves.Len() != int(d.LeafDirectories) {
			t.Errorf("%s: %d files, %d leaf directories", name, s.Files.Len(), s.Leaves.Len())
		}
		seen := map[string]bool{}
		for _, names := range [][]*File{s.Files.files, s.Leaves.files} {
			for _, f := range names {
				if seen[f.Name.String()] {
					t.Errorf("%s: %s twice", name, f.Name)
				}
				seen[f.Name.String()] = true
			}
		}
	}
	// log(1500) / log(10) is 3.2: the root, a directory in it, and one in that with ten files.
	if depth, filesOf := shape(set(t, fixed(0, 10, 1500, 0), 1)); depth != 2 || len(filesOf) != 150 {
		t.Errorf("depth %v, %d directories with files", depth, len(filesOf))
	}
}

func kernel(t *testing.T) (*filesys.Kernel, string) {
	t.Helper()
	directory := t.TempDir()
	k, err := filesys.OpenKernel(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Release() })
	return k, directory
}

// onDisk returns the files below a directory with their sizes, and how many directories there are.
func onDisk(t *testing.T, directory string) (files map[string]int64, directories int) {
	t.Helper()
	files = map[string]int64{}
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			directories++
			return nil
		}
		info, err := entry.Info()
		name, _ := filepath.Rel(directory, path)
		files[name] = info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files, directories
}

var data = slices.Repeat([]byte{1, 2, 3, 4}, 512)

func layOut(t *testing.T, s *Set, system filesys.FS) int64 {
	t.Helper()
	bytes, err := s.LayOut(context.Background(), system, data, 1)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestALayoutIsWhatTheSetSays(t *testing.T) {
	system, directory := kernel(t)
	d := define(200)
	d.Size, d.LeafDirectories = wml.Drawn(wml.Gamma(1.5, 3000)), 10
	s := set(t, d, 1)
	bytes := layOut(t, s, system)
	files, directories := onDisk(t, directory)
	if len(files) != s.Files.Existing() || directories != 1+s.Directories()+s.Leaves.Existing() {
		t.Errorf("%d files and %d directories on disk, %d, %d and %d in the set",
			len(files), directories, s.Files.Existing(), s.Directories(), s.Leaves.Existing())
	}
	sum := int64(0)
	for _, f := range s.existing() {
		if files[f.Name.String()] != f.Size {
			t.Errorf("%s: %d bytes, expected %d", f.Name, files[f.Name.String()], f.Size)
		}
		sum += f.Size
	}
	if sum != bytes {
		t.Errorf("%d bytes reported, %d written", bytes, sum)
	}
}

func TestALayoutReplacesAFormerOne(t *testing.T) {
	system, directory := kernel(t)
	layOut(t, set(t, define(300), 1), system)
	s := set(t, define(50), 2)
	layOut(t, s, system)
	if files, _ := onDisk(t, directory); len(files) != s.Files.Existing() {
		t.Errorf("%d files, expected %d", len(files), s.Files.Existing())
	}
}

func TestALayoutChangesNoOtherFiles(t *testing.T) {
	for _, foreign := range []string{"set/letter", "set/00000001/letter", "set"} {
		system, directory := kernel(t)
		path := filepath.Join(directory, foreign)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte("dear"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := set(t, define(50), 1).LayOut(context.Background(), system, data, 1)
		if err == nil || !strings.Contains(err.Error(), foreign) {
			t.Errorf("%s: %v", foreign, err)
		}
		if files, _ := onDisk(t, directory); len(files) != 1 || files[foreign] != 4 {
			t.Errorf("%s: left %v", foreign, files)
		}
	}
}

func TestAReusedTreeIsCorrectedOnly(t *testing.T) {
	system, directory := kernel(t)
	d := define(3)
	d.Reuse, d.PreallocPercent = true, 100
	s := set(t, d, 1)
	if bytes := layOut(t, s, system); bytes != 3*5000 {
		t.Fatal(bytes)
	}
	truncate := func(i int, size int64) {
		if err := os.Truncate(filepath.Join(directory, s.Files.files[i].Name.String()), size); err != nil {
			t.Fatal(err)
		}
	}
	truncate(0, 9000)
	truncate(1, 100)
	if bytes := layOut(t, set(t, d, 1), system); bytes != 5000 {
		t.Errorf("%d bytes written, expected the one short file", bytes)
	}
	files, _ := onDisk(t, directory)
	for name, size := range files {
		if size != 5000 {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}

// failing fails one call with an error of the kernel.
type failing struct {
	filesys.FS
	call  string
	errno unix.Errno
}

func (f failing) Mkdir(n filesys.Name, mode uint32) error {
	if f.call == "mkdir" {
		return f.errno
	}
	return f.FS.Mkdir(n, mode)
}

func (f failing) Open(n filesys.Name, flags int, mode uint32) (int, error) {
	if f.call == "create" && flags&unix.O_CREAT != 0 {
		return -1, f.errno
	}
	return f.FS.Open(n, flags, mode)
}

func (f failing) Write(d int, data []byte) (int, error) {
	if f.call == "write" {
		return -1, f.errno
	}
	return f.FS.Write(d, data)
}

func TestALayoutThatFailsSaysWhereOnce(t *testing.T) {
	for call, errno := range map[string]unix.Errno{"mkdir": unix.EROFS, "create": unix.EROFS, "write": unix.ENOSPC} {
		system, _ := kernel(t)
		_, err := set(t, define(50), 1).LayOut(context.Background(), failing{system, call, errno}, data, 1)
		if !errors.Is(err, errno) || !strings.HasPrefix(err.Error(), call+" set") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func TestALayoutEndsWithItsContext(t *testing.T) {
	system, directory := kernel(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := set(t, define(5000), 1).LayOut(ctx, system, data, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if files, _ := onDisk(t, directory); len(files) != 0 {
		t.Errorf("%d files", len(files))
	}
}
