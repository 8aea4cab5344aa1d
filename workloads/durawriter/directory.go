// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"joulerig/workloads/internal/sectortag"
)

// The files of a generation's folder, one for each way of asking for durability.
const (
	overwriteFile = "overwrite" // overwrite in place, fsync
	appendFile    = "append"    // append, fdatasync
	dsyncFile     = "dsync"     // overwrite in place, O_DSYNC
	unflushedFile = "unflushed" // overwrite in place, never flushed
	nextFile      = "next"      // create, fsync ...
	currentFile   = "current"   // ... rename, fsync of the directory
)

const (
	slotsOfAFile       = 64
	slotSectorsOfAFile = 16
	syncShare          = 0.5 // of the writes are followed by the call that makes them durable
)

// directoryLoad is the load on a file system, in a folder of the generation's own.
type directoryLoad struct {
	writer *writer
	random *rand.Rand
	path   string
	files  map[string]*os.File
	end    uint64 // of the append file
}

func generationFolder(directory string, generation uint32) string {
	return filepath.Join(directory, fmt.Sprintf("generation-%04d", generation))
}

// makeGenerationFolder makes the folder of a generation, and returns its path. Those of earlier
// ones go: they have been surveyed, and a file system would be full of them after some tens of
// cuts.
func makeGenerationFolder(directory string, generation uint32) (string, error) {
	path := generationFolder(directory, generation)
	there, err := filepath.Glob(filepath.Join(directory, "generation-*"))
	if err != nil {
		return "", err
	}
	for _, other := range there {
		if other == path {
			continue
		}
		if err := os.RemoveAll(other); err != nil {
			return "", err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return "", err
	}
	return path, flushDirectory(directory)
}

// newDirectoryLoad makes the folder and its files; whatever is done in the folder, the ledger
// knows.
func newDirectoryLoad(w *writer, directory string, random *rand.Rand) (*directoryLoad, error) {
	path, err := makeGenerationFolder(directory, w.generation)
	if err != nil {
		return nil, err
	}
	l := &directoryLoad{writer: w, random: random, path: path, files: map[string]*os.File{}}
	for _, name := range []string{overwriteFile, appendFile, dsyncFile, unflushedFile} {
		if err := l.layOut(name); err != nil {
			return nil, err
		}
	}
	return l, l.flushNames()
}

// layOut creates a file, fills those that will be overwritten, and flushes it.
func (l *directoryLoad) layOut(name string) error {
	if err := l.create(name); err != nil {
		return err
	}
	if name != appendFile {
		if err := l.write(name, 0, slotsOfAFile*slotSectorsOfAFile); err != nil {
			return err
		}
	}
	return l.flush(name, "fsync")
}

// step does one thing, chosen at random.
func (l *directoryLoad) step() error {
	switch l.random.IntN(5) {
	case 0:
		return l.overwrite(overwriteFile, "fsync")
	case 1:
		return l.append()
	case 2:
		return l.overwrite(dsyncFile, "")
	case 3:
		return l.overwrite(unflushedFile, "")
	default:
		return l.replace()
	}
}

func (l *directoryLoad) overwrite(name, sync string) error {
	sectors := 1 + l.random.IntN(slotSectorsOfAFile)
	slot := l.random.IntN(slotsOfAFile)
	if err := l.write(name, uint64(slot*slotSectorsOfAFile*sectortag.SectorBytes), sectors); err != nil {
		return err
	}
	if sync == "" || l.random.Float64() >= syncShare {
		return nil
	}
	return l.flush(name, sync)
}

func (l *directoryLoad) append() error {
	sectors := 1 + l.random.IntN(slotSectorsOfAFile)
	if err := l.write(appendFile, l.end, sectors); err != nil {
		return err
	}
	l.end += uint64(sectors * sectortag.SectorBytes)
	if l.random.Float64() >= syncShare {
		return nil
	}
	return l.flush(appendFile, "fdatasync")
}

// replace puts a new version in the place of the current file, as an editor or a database does.
func (l *directoryLoad) replace() error {
	if err := l.create(nextFile); err != nil {
		return err
	}
	sectors := 1 + l.random.IntN(4*slotSectorsOfAFile)
	version := l.writer.last.Load() + 1
	if err := l.write(nextFile, 0, sectors); err != nil {
		return err
	}
	if err := l.flush(nextFile, "fsync"); err != nil {
		return err
	}
	rename := operation{
		Sequence: l.writer.next(), Operation: opRename, Call: "rename",
		Target: currentFile, From: nextFile, Version: version,
	}
	err := l.writer.do(rename, func() error {
		return os.Rename(filepath.Join(l.path, nextFile), filepath.Join(l.path, currentFile))
	})
	if err != nil {
		return err
	}
	return l.flushNames()
}

func (l *directoryLoad) create(name string) error {
	what := operation{Sequence: l.writer.next(), Operation: opCreate, Call: "open O_CREAT", Target: name}
	return l.writer.do(what, func() error {
		flags := os.O_CREATE | os.O_TRUNC | os.O_RDWR
		if name == dsyncFile {
			flags |= unix.O_DSYNC
		}
		file, err := os.OpenFile(filepath.Join(l.path, name), flags, 0o644)
		if err != nil {
			return err
		}
		if before := l.files[name]; before != nil {
			before.Close()
		}
		l.files[name] = file
		return nil
	})
}

func (l *directoryLoad) write(name string, offset uint64, sectors int) error {
	what := operation{
		Sequence: l.writer.next(), Operation: opWrite, Call: "pwrite",
		Target: name, Offset: offset, Bytes: uint64(sectors * sectortag.SectorBytes),
	}
	if name == dsyncFile {
		what.Operation, what.Call = opDurableWrite, "pwrite O_DSYNC"
	}
	data := make([]byte, what.Bytes)
	l.writer.fill(data, what.Sequence, contentName(name), offset)
	return l.writer.do(what, func() error {
		_, err := l.files[name].WriteAt(data, int64(offset))
		return err
	})
}

func (l *directoryLoad) flush(name, call string) error {
	what := operation{Sequence: l.writer.next(), Operation: opFlush, Call: call, Target: name}
	return l.writer.do(what, func() error {
		if call == "fdatasync" {
			return unix.Fdatasync(int(l.files[name].Fd()))
		}
		return l.files[name].Sync()
	})
}

func (l *directoryLoad) flushNames() error {
	what := operation{Sequence: l.writer.next(), Operation: opFlushNames, Call: "fsync of the directory"}
	return l.writer.do(what, func() error { return flushDirectory(l.path) })
}

// contentName is the file that a content was made for: a rename does not make it another's.
func contentName(file string) string {
	if file == currentFile {
		return nextFile
	}
	return file
}

func flushDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}

// readFile returns a file's content up to a sector that could not be read whole.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}
