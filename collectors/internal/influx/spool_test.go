// SPDX-License-Identifier: GPL-3.0-or-later

package influx

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"joulerig/tests/support/powercut"
)

const spoolBytes = 1 << 20 // in segments of 128 KiB

func openedSpool(t *testing.T, dir string) *spool {
	t.Helper()
	s, err := openSpool(dir, spoolBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

// block is so many bytes of lines; the blocks of a test are of their own.
func block(n, bytes int) []byte {
	head := fmt.Sprintf("m block=%di,text=\"", n)
	return []byte(head + strings.Repeat("x", bytes-len(head)-4) + "\" 1\n")
}

func put(t *testing.T, s *spool, blocks ...[]byte) {
	t.Helper()
	for _, b := range blocks {
		if err := s.append(b); err != nil {
			t.Fatal(err)
		}
	}
}

func acknowledge(t *testing.T, s *spool, n int) {
	t.Helper()
	if err := s.acknowledge(int64(n)); err != nil {
		t.Fatal(err)
	}
}

// unsent reads all that waits, and leaves it there.
func unsent(t *testing.T, s *spool) (all []byte) {
	t.Helper()
	dir := s.dir
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	again := openedSpool(t, dir)
	buf := make([]byte, spoolBytes)
	for {
		chunk, _, err := again.next(buf)
		if err != nil {
			t.Fatal(err)
		}
		if len(chunk) == 0 {
			return all
		}
		all = append(all, chunk...)
		acknowledge(t, again, len(chunk))
	}
}

func files(t *testing.T, s *spool, pattern string) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// A server that was restarted may have forgotten what it acknowledged of the segment that is still
// being sent, too.
func TestARewindSendsTheAcknowledgedHeadAgain(t *testing.T) {
	for name, sent := range map[string]int{"and nothing is kept": 0, "and a segment is kept": 130 << 10} {
		s := openedSpool(t, t.TempDir())
		var all []byte
		if sent > 0 {
			all = block(0, sent)
			put(t, s, all)
			acknowledge(t, s, sent)
		}
		all = append(append(all, block(1, 1000)...), block(2, 2000)...)
		put(t, s, block(1, 1000), block(2, 2000))
		acknowledge(t, s, 1000)
		again, err := s.rewind()
		if err != nil || again != int64(sent+1000) || s.pending() != int64(sent+3000) {
			t.Errorf("%s: %d bytes go out again, %d wait, %v", name, again, s.pending(), err)
		}
		if got := unsent(t, s); !bytes.Equal(got, all) {
			t.Errorf("%s: %d bytes are sent, want %d", name, len(got), len(all))
		}
	}
}

// A segment grows until it is full, also where all of it is acknowledged by then: it is then kept.
func TestASegmentThatIsSentWhileItGrowsIsFullOneDay(t *testing.T) {
	s := openedSpool(t, t.TempDir())
	for n := range 300 {
		put(t, s, block(n, 1000))
		acknowledge(t, s, 1000)
		if s.pending() != 0 || s.bytes > s.segmentBytes+1000 {
			t.Fatalf("after %d blocks %d bytes are in segments, %d wait", n+1, s.bytes, s.pending())
		}
	}
	if kept := files(t, s, "*.sent"); len(kept) != 2 {
		t.Errorf("kept are %v", kept)
	}
}

// A crash may come between the acknowledgement and the renaming of the segments before.
func TestSegmentsBeforeTheAcknowledgedOneAreNotSentAgain(t *testing.T) {
	s := openedSpool(t, t.TempDir())
	put(t, s, block(0, 130<<10), block(1, 130<<10), block(2, 1000), block(3, 1000))
	acknowledge(t, s, 130<<10)
	acknowledge(t, s, 130<<10)
	acknowledge(t, s, 1000)
	for _, sent := range files(t, s, "*.sent") {
		if err := os.Rename(sent, strings.TrimSuffix(sent, sentSuffix)+segmentSuffix); err != nil {
			t.Fatal(err)
		}
	}
	if got := unsent(t, s); !bytes.Equal(got, block(3, 1000)) {
		t.Errorf("%d bytes are sent, want the last block alone", len(got))
	}
}

// The offset of a segment that is set aside is no other one's.
func TestAnAcknowledgedSegmentSaysNothingOfTheNext(t *testing.T) {
	s := openedSpool(t, t.TempDir())
	put(t, s, block(0, 130<<10), block(1, 140<<10))
	acknowledge(t, s, 130<<10)
	if got := unsent(t, s); !bytes.Equal(got, block(1, 140<<10)) {
		t.Errorf("%d bytes are sent, want the second block", len(got))
	}
}

// Another process shortens a segment: the whole lines that it leaves are sent.
func TestWhatIsLeftOfAShortenedSegmentIsSent(t *testing.T) {
	s := openedSpool(t, t.TempDir())
	put(t, s, block(0, 1000), block(1, 1000), block(2, 1000))
	if err := os.Truncate(files(t, s, "0*.lp")[0], 2500); err != nil {
		t.Fatal(err)
	}
	chunk, _, err := s.next(make([]byte, spoolBytes))
	if err != nil || !bytes.Equal(chunk, append(block(0, 1000), block(1, 1000)...)) {
		t.Errorf("%d bytes, %v; want the first two blocks", len(chunk), err)
	}
	acknowledge(t, s, len(chunk))
	if _, _, err := s.next(make([]byte, spoolBytes)); !errors.Is(err, errGone) {
		t.Errorf("of the third block: %v", err)
	}
}

func TestEachSegmentHasANumberThatNoneHadBefore(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 {
		s := openedSpool(t, dir)
		put(t, s, block(n, 100))
		acknowledge(t, s, 100)
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openedSpool(t, dir)
	if kept := files(t, s, "*.sent"); len(kept) != 3 {
		t.Errorf("kept are %v", kept)
	}
	if got := unsent(t, s); len(got) != 0 {
		t.Errorf("%d bytes are sent again", len(got))
	}
}

func TestOldSegmentsGoWhereTheRoomIsNeeded(t *testing.T) {
	s := openedSpool(t, t.TempDir())
	for n := range 7 {
		put(t, s, block(n, 130<<10))
		acknowledge(t, s, 130<<10)
	}
	if kept := files(t, s, "*.sent"); len(kept) != 7 || s.sentBytes != 7*130<<10 {
		t.Errorf("kept are %d bytes in %v", s.sentBytes, kept)
	}
	put(t, s, block(7, 130<<10), block(8, 130<<10))
	kept := files(t, s, "*.sent")
	if len(kept) != 5 || filepath.Base(kept[0]) != "00000000000000000003.sent" {
		t.Errorf("kept are %v", kept)
	}
}

// What an orderly end leaves in the spool outlives a power cut.
func TestACloseLeavesWhatIsUnsentOnTheDisk(t *testing.T) {
	disk := powercut.New(t)
	s := openedSpool(t, filepath.Join(disk.Folder, "spool"))
	put(t, s, block(0, 5000), block(1, 5000))
	acknowledge(t, s, 5000)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	left := openedSpool(t, filepath.Join(disk.AfterACut(t), "spool"))
	if got := unsent(t, left); !bytes.Equal(got, block(1, 5000)) {
		t.Errorf("%d bytes are sent, want the second block", len(got))
	}
}
