// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"joulerig/workloads/internal/wml"
)

// Sizes are a distribution of bytes: a number, or gamma:MEAN:SHAPE.
type Sizes struct {
	text        string
	mean, shape float64 // shape 0: always the mean
}

// Set reads one, as a flag does.
func (s *Sizes) Set(text string) error {
	wrong := fmt.Errorf("%q: expected bytes, or gamma:MEAN:SHAPE", text)
	mean, shape, gamma := text, "", false
	if rest, found := strings.CutPrefix(text, "gamma:"); found {
		if mean, shape, gamma = strings.Cut(rest, ":"); !gamma {
			return wrong
		}
	}
	read := Sizes{text: text}
	var err error
	if read.mean, err = strconv.ParseFloat(mean, 64); err != nil || !(read.mean >= 1 && read.mean <= 1<<40) {
		return wrong
	}
	if gamma {
		if read.shape, err = strconv.ParseFloat(shape, 64); err != nil || !(read.shape > 0 && read.shape <= 1e6) {
			return wrong
		}
	}
	*s = read
	return nil
}

func (s *Sizes) String() string { return s.text }

// draw returns a size from 1 to most.
func (s *Sizes) draw(random *rand.Rand, most int64) int64 {
	bytes := s.mean
	if s.shape > 0 {
		bytes = wml.Gamma(s.shape, s.mean).Draw(random)
	}
	return max(1, int64(min(math.Round(bytes), float64(most))))
}

// Synthetic is a trace to make: reads, writes and unlinks, of which the shares are exact but for
// rounding, and an fsync right after some of the writes.
type Synthetic struct {
	Operations  int64   // reads, writes and unlinks
	WriteShare  float64 // of the operations
	UnlinkShare float64 // of the operations
	SyncShare   float64 // of the writes: those with an fsync
	Files       int
	FileBytes   Sizes
	IOBytes     Sizes // of a read or write, cut at the file's end
	Threads     int
	Rate        float64 // operations a second, for a timed replay
	Seed        uint64
}

// Check names the option that cannot be used.
func (s *Synthetic) Check() error {
	share := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case s.Operations < 1:
		return fmt.Errorf("--ops: %d: expected 1 or more", s.Operations)
	case !share(s.WriteShare) || !share(s.UnlinkShare) || s.WriteShare+s.UnlinkShare > 1:
		return fmt.Errorf("--write-share, --unlink-share: %v, %v: expected 0 to 1, together too", s.WriteShare, s.UnlinkShare)
	case !share(s.SyncShare):
		return fmt.Errorf("--sync-share: %v: expected 0 to 1", s.SyncShare)
	case s.Files < 1:
		return fmt.Errorf("--files: %d: expected 1 or more", s.Files)
	case s.Threads < 1 || s.Threads > maxThreads:
		return fmt.Errorf("--threads: %d: expected 1 to %d", s.Threads, maxThreads)
	case !(s.Rate > 0):
		return fmt.Errorf("--rate: %v: expected more than 0", s.Rate)
	}
	return nil
}

// Generate writes the trace; the same settings give the same.
func (s *Synthetic) Generate(out io.Writer) error {
	g := &generator{
		Synthetic: s, random: rand.New(rand.NewPCG(s.Seed, 0)), sizes: make([]int64, s.Files),
		out: NewWriter(out, fmt.Sprintf("synthetic: %d operations, writes %v, unlinks %v, synced %v of the writes, "+
			"%d files of %s bytes, %s bytes each, seed %d",
			s.Operations, s.WriteShare, s.UnlinkShare, s.SyncShare, s.Files, &s.FileBytes, &s.IOBytes, s.Seed)),
	}
	for i := range g.sizes {
		g.sizes[i] = s.FileBytes.draw(g.random, math.MaxInt64)
		g.out.File(g.name(i), g.sizes[i])
	}
	writes := int64(math.Round(s.WriteShare * float64(s.Operations)))
	g.writes = deck{writes, s.Operations}
	g.unlinks = deck{int64(math.Round(s.UnlinkShare * float64(s.Operations))), s.Operations - writes}
	g.syncs = deck{int64(math.Round(s.SyncShare * float64(writes))), writes}
	for n := range s.Operations {
		g.operation(int64(float64(n) / s.Rate * 1e9))
	}
	return g.out.Flush()
}

// deck is drawn from: so many of all are hits, in random order.
type deck struct{ hits, all int64 }

func (d *deck) draw(random *rand.Rand) bool {
	hit := random.Int64N(d.all) < d.hits
	d.all--
	if hit {
		d.hits--
	}
	return hit
}

type generator struct {
	*Synthetic
	random                 *rand.Rand
	sizes                  []int64 // by file; 0: it is unlinked
	writes, unlinks, syncs deck
	out                    *Writer
}

const filesAFolder = 100

func (g *generator) name(file int) string {
	return fmt.Sprintf("%05d/%08d", file/filesAFolder, file)
}

func (g *generator) operation(timeNS int64) {
	thread, file := g.random.Int64N(int64(g.Threads)), g.random.IntN(g.Files)
	if g.writes.draw(g.random) {
		g.write(timeNS, thread, file)
		return
	}
	unlink := g.unlinks.draw(g.random)
	if file = g.existing(file); g.sizes[file] == 0 { // none is there: it is made first, with a write that is in no share
		g.make(timeNS, thread, file)
	}
	if unlink {
		g.out.Operation(timeNS, thread, Unlink, g.name(file))
		g.sizes[file] = 0
		return
	}
	offset, bytes := g.place(file)
	g.out.Operation(timeNS, thread, Read, g.name(file), offset, bytes)
}

func (g *generator) write(timeNS, thread int64, file int) {
	if g.sizes[file] == 0 {
		g.make(timeNS, thread, file)
	} else {
		offset, bytes := g.place(file)
		g.out.Operation(timeNS, thread, Write, g.name(file), offset, bytes)
	}
	if g.syncs.draw(g.random) {
		g.out.Operation(timeNS, thread, Fsync, g.name(file))
	}
}

// make writes a file that was unlinked whole, as another file.
func (g *generator) make(timeNS, thread int64, file int) {
	g.sizes[file] = g.FileBytes.draw(g.random, MaxBytes)
	g.out.Operation(timeNS, thread, Write, g.name(file), 0, g.sizes[file])
}

// existing returns the first file from one on that is there.
func (g *generator) existing(file int) int {
	for n := range g.Files {
		if next := (file + n) % g.Files; g.sizes[next] > 0 {
			return next
		}
	}
	return file
}

// place draws where in a file to read or write, at a multiple of the bytes.
func (g *generator) place(file int) (offset, bytes int64) {
	bytes = g.IOBytes.draw(g.random, min(g.sizes[file], MaxBytes))
	return g.random.Int64N(g.sizes[file]/bytes) * bytes, bytes
}
