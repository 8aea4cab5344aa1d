// SPDX-License-Identifier: GPL-3.0-or-later

package influx

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrSpoolFull is what Write's error wraps when max_spool_bytes is reached.
var ErrSpoolFull = errors.New("the spool is full")

const (
	segmentSuffix    = ".lp"
	maxSegmentBytes  = 1 << 20
	maxRejectedBytes = 1 << 20 // of rejected.lp; one predecessor is kept
	// Segments that the server acknowledged are kept up to this, for the case that it forgets them.
	sentSuffix   = ".sent"
	maxSentBytes = 64 << 20
)

// spool is a queue of lines in the segment files of a directory.
//
//	00000000000000000007.lp   lines, oldest first; a process appends only to segments it made
//	00000000000000000006.sent all acknowledged; the newest are kept while there is room
//	server                    which start of the server acknowledged last
//	offset                    what is acknowledged: segment, byte offset, CRC-32
//	rejected.lp, rejected.lp.1  lines the server refused, each batch behind a # comment
//	lock                      held while a process has the spool open
//
// Durability: append hands the lines to the kernel with one write(2) before it returns, so they
// outlive the process. There is no fsync per append, since it would load the very disks under test:
// after a power cut or a kernel crash the last seconds (the kernel's write-back, 30 s by default)
// may be missing or torn. close syncs what is still unsent.
type spool struct {
	dir          string
	maxBytes     int64
	segmentBytes int64
	lock         *os.File
	offsetFile   *os.File

	mu       sync.Mutex
	segments []*segment // oldest first; the last one is appended to if active
	active   bool
	nextSeq  uint64
	head     int64 // acknowledged bytes of segments[0]
	bytes    int64 // of all segment files

	sent      []*segment // acknowledged and kept, oldest first
	sentBytes int64
}

type segment struct {
	seq  uint64
	size int64
	file *os.File // nil: closed
}

func (s *spool) path(seq uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%020d%s", seq, segmentSuffix))
}

func openSpool(dir string, maxBytes int64) (*spool, error) {
	s := &spool{dir: dir, maxBytes: maxBytes, segmentBytes: min(maxSegmentBytes, maxBytes/8)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("influx.spool_dir: %w", err)
	}
	var err error
	if s.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("influx.spool_dir: %w", err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("influx.spool_dir: %s: another process has it open: expected a separate directory for each collector", dir)
	}
	if s.offsetFile, err = os.OpenFile(filepath.Join(dir, "offset"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("influx.spool_dir: %w", err)
	}
	if err := s.recover(); err != nil {
		s.offsetFile.Close()
		s.lock.Close()
		return nil, fmt.Errorf("influx.spool_dir: %w", err)
	}
	if info, err := s.offsetFile.Stat(); err == nil && info.Size() == 0 {
		// Its block is taken now: later the disk may be full. If it is full already, acknowledge says so.
		_ = s.writeOffset(0, 0)
	}
	return s, nil
}

// recover takes over the segments of earlier processes.
func (s *spool) recover() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	ackSeq, ackOffset := s.readOffset()
	s.nextSeq = ackSeq + 1
	for _, entry := range entries {
		name, isSegment := strings.CutSuffix(entry.Name(), segmentSuffix)
		name, isSent := strings.CutSuffix(name, sentSuffix)
		seq, err := strconv.ParseUint(name, 10, 64)
		if !(isSegment || isSent) || err != nil || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		s.nextSeq = max(s.nextSeq, seq+1)
		switch g := (&segment{seq: seq, size: info.Size()}); {
		case isSent:
			s.sent = append(s.sent, g)
			s.sentBytes += g.size
			continue
		case seq < ackSeq || (seq == ackSeq && ackOffset >= info.Size()) || info.Size() == 0:
			if err := s.setAside(g); err != nil {
				return err
			}
			continue
		}
		s.segments = append(s.segments, &segment{seq: seq, size: info.Size()})
		s.bytes += info.Size()
	}
	slices.SortFunc(s.segments, bySeq)
	slices.SortFunc(s.sent, bySeq)
	s.evict(min(maxSentBytes, s.maxBytes-s.bytes))
	if len(s.segments) > 0 && s.segments[0].seq == ackSeq {
		s.head = ackOffset
	}
	return nil
}

func bySeq(a, b *segment) int { return cmp.Compare(a.seq, b.seq) }

// setAside keeps a segment that is acknowledged.
func (s *spool) setAside(g *segment) error {
	if g.size == 0 {
		return os.Remove(s.path(g.seq))
	}
	if err := os.Rename(s.path(g.seq), s.sentPath(g.seq)); err != nil {
		return err
	}
	s.sent = append(s.sent, g)
	s.sentBytes += g.size
	return nil
}

func (s *spool) sentPath(seq uint64) string {
	return strings.TrimSuffix(s.path(seq), segmentSuffix) + sentSuffix
}

// evict removes the oldest segments that are kept beyond a bound.
func (s *spool) evict(bound int64) {
	for len(s.sent) > 0 && s.sentBytes > bound {
		_ = os.Remove(s.sentPath(s.sent[0].seq))
		s.sentBytes -= s.sent[0].size
		s.sent = s.sent[1:]
	}
}

// rewind puts all that is kept in front of what is to be sent. It returns how many bytes go out
// again.
func (s *spool) rewind() (again int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.sent) - 1; n >= 0; n-- {
		g := s.sent[n]
		if err := os.Rename(s.sentPath(g.seq), s.path(g.seq)); err != nil {
			return again, err
		}
		if again == 0 {
			again = s.head
			s.head = 0
		}
		s.sent = s.sent[:n]
		s.sentBytes -= g.size
		s.segments = append([]*segment{g}, s.segments...)
		s.bytes += g.size
		again += g.size
	}
	if again == 0 {
		again, s.head = s.head, 0
	}
	if len(s.segments) > 0 {
		err = s.writeOffset(s.segments[0].seq, 0)
	}
	return again, err
}

// readOffset gives zeros when there is none or it is damaged: everything is then sent again, which
// changes nothing in the database.
func (s *spool) readOffset() (seq uint64, offset int64) {
	b := make([]byte, 64)
	n, _ := s.offsetFile.ReadAt(b, 0)
	var sum uint32
	if _, err := fmt.Sscanf(string(b[:n]), "%d %d %x", &seq, &offset, &sum); err != nil {
		return 0, 0
	}
	if sum != offsetSum(seq, offset) || offset < 0 {
		return 0, 0
	}
	return seq, offset
}

func offsetSum(seq uint64, offset int64) uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%020d %020d", seq, offset))
}

// writeOffset overwrites the record of fixed length in place. One small pwrite(2) is whole to any
// reader of the file after a crash of the process; after a power cut the checksum decides. A rename
// would add a transaction of the file system's journal every second to a host that is being
// measured.
func (s *spool) writeOffset(seq uint64, offset int64) error {
	_, err := s.offsetFile.WriteAt(fmt.Appendf(nil, "%020d %020d %08x\n", seq, offset, offsetSum(seq, offset)), 0)
	return err
}

// append adds whole lines, or none.
func (s *spool) append(lines []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(s.maxBytes - s.bytes - int64(len(lines)))
	err := s.tryAppend(lines)
	if errors.Is(err, syscall.ENOSPC) && len(s.sent) > 0 {
		s.evict(0)
		err = s.tryAppend(lines)
	}
	return err
}

func (s *spool) tryAppend(lines []byte) error {
	if s.bytes+int64(len(lines)) > s.maxBytes {
		return fmt.Errorf("%w: %s: %d bytes, max_spool_bytes %d", ErrSpoolFull, s.dir, s.bytes, s.maxBytes)
	}
	if s.active && s.tail().size >= s.segmentBytes {
		s.seal()
	}
	if !s.active {
		f, err := os.OpenFile(s.path(s.nextSeq), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		s.segments = append(s.segments, &segment{seq: s.nextSeq, file: f})
		s.nextSeq++
		s.active = true
	}
	tail := s.tail()
	n, err := tail.file.Write(lines)
	if err != nil {
		if n > 0 && tail.file.Truncate(tail.size) != nil {
			// The torn end stays: close the segment behind it, and let the reader find it there.
			tail.size += int64(n)
			s.bytes += int64(n)
			s.seal()
		}
		return err
	}
	tail.size += int64(n)
	s.bytes += int64(n)
	return nil
}

func (s *spool) tail() *segment { return s.segments[len(s.segments)-1] }

// seal ends the active segment. The file of the head stays open: the sender may be reading it.
func (s *spool) seal() {
	s.active = false
	if len(s.segments) > 1 {
		s.tail().close()
	}
}

func (g *segment) close() {
	if g.file != nil {
		g.file.Close()
		g.file = nil
	}
}

// pending is the number of bytes not yet acknowledged.
func (s *spool) pending() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes - s.head
}

// next reads the oldest unacknowledged bytes of one segment into buf. sealed says that nothing will
// be added behind them in that segment.
func (s *spool) next(buf []byte) (chunk []byte, sealed bool, err error) {
	s.mu.Lock()
	if len(s.segments) == 0 {
		s.mu.Unlock()
		return nil, false, nil
	}
	g := s.segments[0]
	offset, n := s.head, min(int64(len(buf)), g.size-s.head)
	sealed = (len(s.segments) > 1 || !s.active) && offset+n == g.size
	if g.file == nil && n > 0 {
		g.file, err = os.Open(s.path(g.seq))
	}
	s.mu.Unlock()
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("read the spool: %w: %w", errGone, err)
	}
	if err != nil {
		return nil, false, err
	}
	if n == 0 {
		return nil, sealed, nil
	}
	// Only the caller, which is alone in this, replaces the head.
	got, err := g.file.ReadAt(buf[:n], offset)
	if int64(got) == n {
		return buf[:n], sealed, nil
	}
	if errors.Is(err, io.EOF) {
		// Another process shortened the file: what is left of it goes out first.
		if end := bytes.LastIndexByte(buf[:got], '\n') + 1; end > 0 {
			return buf[:end], false, nil
		}
		err = errGone
	}
	return nil, false, fmt.Errorf("read the spool: %w", err)
}

// errGone says that bytes of the spool are not there any more.
var errGone = errors.New("a segment has lost bytes that were in it")

// forget gives up what is left of the first segment, which cannot be had again. It returns how many
// bytes that is.
func (s *spool) forget() (lost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[0]
	lost = g.size - s.head
	if len(s.segments) == 1 {
		s.active = false
	}
	_ = s.writeOffset(g.seq, g.size)
	s.takeFirst()
	_ = os.Remove(s.path(g.seq))
	return lost
}

// acknowledge advances the offset by n bytes and removes a segment that is done. Of an error
// nothing is lost, and the spool goes on: it means that after a crash lines may be sent again, or,
// on a full disk, that this cannot be noted at present.
func (s *spool) acknowledge(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segments[0]
	s.head += n
	err := s.writeOffset(g.seq, s.head)
	if err != nil {
		err = fmt.Errorf("write the spool's offset: %w", err)
	}
	if s.head < g.size || (len(s.segments) == 1 && s.active && g.size < s.segmentBytes) {
		return err
	}
	if len(s.segments) == 1 {
		s.active = false
	}
	s.takeFirst()
	if aside := s.setAside(g); aside != nil {
		err = fmt.Errorf("set a sent segment of the spool aside: %w", aside)
	}
	s.evict(min(maxSentBytes, s.maxBytes-s.bytes))
	return err
}

func (s *spool) takeFirst() {
	g := s.segments[0]
	g.close()
	s.segments = s.segments[1:]
	s.head = 0
	s.bytes -= g.size
}

// keepRejected puts lines aside for people to look at. Bounded: at most two files of about
// maxRejectedBytes, the older lines go.
func (s *spool) keepRejected(reason string, lines []byte) error {
	path := filepath.Join(s.dir, "rejected.lp")
	if info, err := os.Stat(path); err == nil && info.Size() >= maxRejectedBytes {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	entry := fmt.Appendf(nil, "# %s %s\n", time.Now().UTC().Format(time.RFC3339), strings.ReplaceAll(reason, "\n", " "))
	entry = append(entry, lines...)
	if entry[len(entry)-1] != '\n' {
		entry = append(entry, '\n')
	}
	_, err = f.Write(entry)
	return err
}

// server is which start of the server acknowledged last; "": not known.
func (s *spool) server() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "server"))
	return strings.TrimSpace(string(b))
}

func (s *spool) setServer(started string) error {
	return os.WriteFile(filepath.Join(s.dir, "server"), []byte(started+"\n"), 0o600)
}

// close leaves the unsent lines on disk, synced.
func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if s.active && s.bytes > s.head {
		keep(s.tail().file.Sync())
		keep(s.offsetFile.Sync())
	}
	if len(s.segments) == 1 && s.bytes == s.head {
		keep(s.setAside(s.segments[0]))
	}
	for _, g := range s.segments {
		g.close()
	}
	s.segments, s.active = nil, false
	keep(s.offsetFile.Close())
	keep(s.lock.Close())
	return first
}
