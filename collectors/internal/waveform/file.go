// SPDX-License-Identifier: GPL-3.0-or-later

package waveform

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// The file is a chain of records behind Parquet's magic, the footer at its end:
//
//	"PAR1" { "JRWF" u32 head length, u32 body length,
//	         u32 CRC-32 of the head, u32 CRC-32 of the body, head, body } footer
//
// little endian. The first record's head is the Contents as they were at Create, its body is empty.
// The others' head is a recordHead, their body a row group.
const (
	recordMagic  = "JRWF"
	recordPrefix = 20
)

// recordHead is what is new since the record before, and the row group's entry.
type recordHead struct {
	Rail   int          `json:"rail"`
	Counts Counts       `json:"counts"` // Recorded: with this row group
	Last   Last         `json:"last"`
	Clock  []ClockPoint `json:"clock"`
	Gaps   []Gap        `json:"gaps"`
	Entry  []byte       `json:"entry"` // format.RowGroup in Thrift's compact protocol, offsets from the body's beginning
}

// storage is the file: *os.File.
type storage interface {
	io.Writer
	io.Seeker
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// kept is a row group in the file, with what is needed to take it back.
type kept struct {
	entry  format.RowGroup
	at     int64 // of its record
	last   Last
	before *Last // of the rail, before this one
}

type writer struct {
	file     storage
	path     string // without PartialSuffix
	maxBytes int64
	encoder  *encoder
	contents Contents
	last     []*Last // by rail
	groups   []kept
	size     int64
	reserve  int64 // what the footer may come to
	counts   Counts
	cut      int64 // not yet handed to the Recorder
	newClock []ClockPoint
	newGaps  []Gap
	stopped  error
}

const (
	// Room in the footer for what has no separate share: the schema, the counters, an error's text.
	footerBase = 4096
	// A pair or a gap in JSON, all digits used.
	footerEntry = 160
	// An entry's offsets grow when they count from the file's beginning.
	footerOffsets = 160
)

func newWriter(file storage, path string, meta Meta, maxBytes int64) (*writer, error) {
	w := &writer{
		file: file, path: path, maxBytes: maxBytes, encoder: newEncoder(meta), last: make([]*Last, len(meta.Rails)),
		contents: Contents{Version: 1, Meta: meta, Clock: []ClockPoint{}, Gaps: []Gap{}},
	}
	head, err := json.Marshal(&w.contents)
	if err != nil {
		return nil, err
	}
	w.reserve = int64(len(head)) + footerBase + int64(len(meta.Rails)+4)*footerEntry
	begin := append([]byte(magic), record(head, nil)...)
	if int64(len(begin))+w.reserve > maxBytes {
		return nil, fmt.Errorf("a bound of %d bytes (allowed: at least %d for these rails)", maxBytes, int64(len(begin))+w.reserve)
	}
	if _, err := file.Write(begin); err != nil {
		return nil, err
	}
	w.size = int64(len(begin))
	return w, nil
}

func record(head, body []byte) []byte {
	b := make([]byte, 0, recordPrefix+len(head))
	b = append(b, recordMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(head))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, head...)
}

// take gets what is new from the capture's side.
func (w *writer) take(clock []ClockPoint, gaps []Gap, counts Counts) {
	w.counts.Dropped, w.counts.Cut = counts.Dropped, counts.Cut
	if w.stopped != nil {
		return
	}
	w.newClock = append(w.newClock, clock...)
	w.newGaps = append(w.newGaps, gaps...)
}

// commit moves what is new to the contents: it is in the file, or will be in the footer.
func (w *writer) commit() {
	w.contents.Clock = append(w.contents.Clock, w.newClock...)
	for _, g := range w.newGaps {
		if n := len(w.contents.Gaps); n > 0 {
			before := &w.contents.Gaps[n-1]
			if before.Rail == g.Rail && before.Stream == g.Stream && before.First+uint64(before.Samples) == g.First {
				before.Samples += g.Samples
				continue
			}
		}
		w.contents.Gaps = append(w.contents.Gaps, g)
	}
	w.newClock, w.newGaps = w.newClock[:0], w.newGaps[:0]
}

// add writes a row group. After an error, which is that of the first that was not written, all are
// cut.
func (w *writer) add(g *group) error {
	rows := int64(len(g.volts))
	if w.stopped == nil {
		w.stopped = w.tryAdd(g, rows)
	}
	if w.stopped != nil {
		w.cut += rows
	}
	return w.stopped
}

func (w *writer) tryAdd(g *group, rows int64) error {
	if len(w.groups) == maxGroups {
		w.contents.Truncated = true
		return ErrFull
	}
	body, entry, err := w.encoder.group(g)
	if err != nil {
		return w.failed(err)
	}
	run := g.runs[len(g.runs)-1]
	last := Last{g.rail, g.stream, run.first + uint64(run.n) - 1}
	counts := w.counts
	counts.Recorded += rows
	entryBytes := compact(&entry)
	head := marshal(&recordHead{Rail: g.rail, Counts: counts, Last: last, Clock: w.newClock, Gaps: w.newGaps, Entry: entryBytes})
	prefix := record(head, body)
	reserve := w.reserve + int64(len(entryBytes)) + footerOffsets + footerEntry*int64(len(w.newClock)+len(w.newGaps))
	size := w.size + int64(len(prefix)) + int64(len(body))
	if size+reserve > w.maxBytes {
		w.contents.Truncated = true
		return ErrFull
	}
	for _, part := range [][]byte{prefix, body} {
		if _, err := w.file.Write(part); err != nil {
			return w.failed(err)
		}
	}
	w.groups = append(w.groups, kept{
		entry: moved(entry, w.size+int64(len(prefix)), len(w.groups)), at: w.size, last: last, before: w.last[g.rail],
	})
	w.last[g.rail] = &last
	w.size, w.reserve, w.counts.Recorded = size, reserve, counts.Recorded
	w.commit()
	return nil
}

// failed puts the file's end back behind the last whole row group.
func (w *writer) failed(err error) error {
	w.contents.Error = reason(err)
	if back := w.toEnd(w.size); back != nil {
		w.contents.Error += "; " + reason(back)
	}
	return errors.New(w.contents.Error)
}

// reason is an error without the file's name, which may be a long one.
func reason(err error) string {
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	text := err.Error()
	return text[:min(len(text), 200)]
}

func (w *writer) toEnd(size int64) error {
	if err := w.file.Truncate(size); err != nil {
		return err
	}
	_, err := w.file.Seek(size, io.SeekStart)
	return err
}

func (w *writer) handCut() int64 {
	n := w.cut
	w.cut = 0
	return n
}

// finish writes the footer and gives the file its name.
func (w *writer) finish() (Summary, error) {
	defer w.file.Close()
	if w.stopped == nil {
		// Pairs after the last row group: they bracket its last samples.
		w.fit()
	}
	w.commit()
	err := w.end()
	// On a full disk the footer has no room either, but for that of the row groups that give way to
	// it.
	for n := 1; err != nil && len(w.groups) > 0 && n <= len(w.groups); n *= 2 {
		w.contents.Error = reason(err)
		for range n {
			w.takeBack()
		}
		if back := w.toEnd(w.size); back != nil {
			break
		}
		err = w.end()
	}
	if err != nil {
		w.contents.Error = reason(err)
		return w.summary(), fmt.Errorf("waveform %s: %w", w.path+PartialSuffix, err)
	}
	if err := os.Rename(w.path+PartialSuffix, w.path); err != nil {
		return w.summary(), fmt.Errorf("waveform: %w", err)
	}
	if err := syncFolder(filepath.Dir(w.path)); err != nil {
		return w.summary(), fmt.Errorf("waveform: %w", err)
	}
	return w.summary(), nil
}

// fit drops new pairs and gaps that the bound has no room for.
func (w *writer) fit() {
	room := max(0, (w.maxBytes-w.size-w.reserve)/footerEntry)
	w.newClock = w.newClock[:min(int64(len(w.newClock)), room)]
	w.newGaps = w.newGaps[:min(int64(len(w.newGaps)), room-int64(len(w.newClock)))]
}

func (w *writer) takeBack() {
	g := w.groups[len(w.groups)-1]
	w.groups = w.groups[:len(w.groups)-1]
	w.size = g.at
	w.last[g.last.Rail] = g.before
	w.counts.Recorded -= g.entry.NumRows
	w.counts.Cut += g.entry.NumRows
}

func (w *writer) end() error {
	w.contents.Counts = w.counts
	w.contents.Last = []Last{}
	for _, last := range w.last {
		if last != nil {
			w.contents.Last = append(w.contents.Last, *last)
		}
	}
	groups := make([]format.RowGroup, len(w.groups))
	for i, g := range w.groups {
		groups[i] = g.entry
	}
	b := footer(groups, &w.contents)
	if _, err := w.file.Write(b); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.contents.Bytes = w.size + int64(len(b))
	return nil
}

// syncFolder has the names in a folder on disk, without which a file is lost with the power.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func (w *writer) summary() Summary {
	s := w.contents.Summary
	s.Counts = w.counts
	return s
}

// Recover makes PATH from the PATH.partial that a crash left: what is whole of it, in order. It
// refuses a file that is still being written, one that is none of ours, and one of which PATH
// exists.
func Recover(path string) (Summary, error) {
	partial := path + PartialSuffix
	if _, err := os.Lstat(path); err == nil {
		return Summary{}, fmt.Errorf("waveform %s: %w", path, os.ErrExist)
	}
	file, err := os.OpenFile(partial, os.O_RDWR, 0)
	if err != nil {
		return Summary{}, fmt.Errorf("waveform: %w", err)
	}
	w := &writer{file: file, path: path}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return Summary{}, fmt.Errorf("waveform %s: it is being written", partial)
	}
	if err := w.load(bufio.NewReaderSize(file, 1<<20)); err != nil {
		file.Close()
		return Summary{}, fmt.Errorf("waveform %s: %w", partial, err)
	}
	if err := w.toEnd(w.size); err != nil {
		file.Close()
		return Summary{}, fmt.Errorf("waveform: %w", err)
	}
	w.contents.Recovered = true
	return w.finish()
}

// load reads the chain of records up to the first that is not whole.
func (w *writer) load(r io.Reader) error {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r, begin); err != nil || string(begin) != magic {
		return errors.New("not a waveform file")
	}
	head, body, err := readRecord(r)
	if err != nil {
		return errors.New("not a waveform file, or nothing of it is left")
	}
	if err := json.Unmarshal(head, &w.contents); err != nil || w.contents.Version != 1 || len(body) != 0 {
		return errors.New("not a waveform file of version 1")
	}
	w.last = make([]*Last, len(w.contents.Rails))
	w.size = int64(len(magic) + recordPrefix + len(head))
	for {
		head, body, err := readRecord(r)
		if err != nil {
			return nil // the end, or what the crash tore
		}
		var h recordHead
		var entry format.RowGroup
		if json.Unmarshal(head, &h) != nil || thrift.Unmarshal(new(thrift.CompactProtocol), h.Entry, &entry) != nil ||
			h.Rail < 0 || h.Rail >= len(w.last) || len(w.groups) == maxGroups {
			return nil
		}
		at := w.size
		w.size += int64(recordPrefix + len(head))
		w.groups = append(w.groups, kept{moved(entry, w.size, len(w.groups)), at, h.Last, w.last[h.Rail]})
		w.size += int64(len(body))
		w.last[h.Rail] = &h.Last
		w.counts = h.Counts
		w.newClock, w.newGaps = h.Clock, h.Gaps
		w.commit()
	}
}

func readRecord(r io.Reader) (head, body []byte, err error) {
	prefix := make([]byte, recordPrefix)
	if _, err := io.ReadFull(r, prefix); err != nil {
		return nil, nil, err
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(prefix[4*i:]) }
	// A torn length must not make a torn gigabyte of memory.
	if string(prefix[:4]) != recordMagic || word(1) > 64<<20 || word(2) > 64<<20 {
		return nil, nil, errors.New("no record")
	}
	head, body = make([]byte, word(1)), make([]byte, word(2))
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, err
	}
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, nil, err
	}
	if crc32.ChecksumIEEE(head) != word(3) || crc32.ChecksumIEEE(body) != word(4) {
		return nil, nil, errors.New("a torn record")
	}
	return head, body, nil
}
