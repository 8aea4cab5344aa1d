// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"joulerig/tests/support/powercut"
	"joulerig/workloads/internal/sectortag"
)

const campaignID = "000102030405060708090a0b0c0d0e0f"

// fakeWitness answers a writer over a unix socket: ok to the first lines, then stop.
type fakeWitness struct {
	address string
	lines   chan []map[string]any
}

func newWitness(t *testing.T, acknowledgements int, between func(line map[string]any)) *fakeWitness {
	t.Helper()
	path := filepath.Join(t.TempDir(), "witness")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	w := &fakeWitness{"unix:" + path, make(chan []map[string]any, 1)}
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		var reported []map[string]any
		scanner := bufio.NewScanner(connection)
		for scanner.Scan() {
			line := map[string]any{}
			if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
				t.Errorf("%q: %v", scanner.Text(), err)
			}
			reported = append(reported, line)
			if between != nil {
				between(line)
			}
			if line["event"] == "issued" || line["event"] == "hello" {
				continue
			}
			acknowledgements--
			word := "ok\n"
			if acknowledgements <= 0 {
				word = "stop\n"
			}
			if _, err := connection.Write([]byte(word)); err != nil {
				break
			}
		}
		w.lines <- reported
	}()
	return w
}

func (w *fakeWitness) reported(t *testing.T) []map[string]any {
	t.Helper()
	select {
	case lines := <-w.lines:
		return lines
	case <-time.After(20 * time.Second):
		t.Fatal("the writer does not end")
		return nil
	}
}

func execute(t *testing.T, words ...string) (int, string, string) {
	t.Helper()
	var out, err bytes.Buffer
	code := run(words, &out, &err)
	return code, out.String(), err.String()
}

// emptyDrive returns the descriptor of a file in a drive's place, twice: it can be given away once
// each time.
func emptyDrive(t *testing.T, bytes int64) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
	return func() string {
		descriptor, err := unix.Open(path, unix.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(descriptor)
	}
}

func survey(t *testing.T, words ...string) (files map[string]int64, extents []extent) {
	t.Helper()
	code, out, message := execute(t, append([]string{"survey", "--campaign", campaignID}, words...)...)
	if code != 0 {
		t.Fatalf("survey: exit %d: %s", code, message)
	}
	files = map[string]int64{}
	for line := range strings.Lines(out) {
		if strings.Contains(line, `"state"`) {
			var e extent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			extents = append(extents, e)
			continue
		}
		var s surveyed
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		files[s.Target] = s.Bytes
	}
	return files, extents
}

// checkOrder fails where an acknowledgement was reported before its issue, or twice.
func checkOrder(t *testing.T, lines []map[string]any) (operations map[float64]map[string]any, acknowledged []float64) {
	t.Helper()
	operations = map[float64]map[string]any{}
	done := map[float64]bool{}
	for _, line := range lines {
		sequence := line["sequence"].(float64)
		if line["event"] == "issued" {
			operations[sequence] = line
			continue
		}
		if operations[sequence] == nil || done[sequence] {
			t.Errorf("acknowledged out of order: %v", line)
		}
		done[sequence] = true
		acknowledged = append(acknowledged, sequence)
	}
	return operations, acknowledged
}

func TestEveryAcknowledgedWriteOfADriveIsThere(t *testing.T) {
	drive := emptyDrive(t, 1<<20)
	witness := newWitness(t, 200, nil)
	code, _, message := execute(t, "write", "--campaign", campaignID, "--generation", "4",
		"--witness", witness.address, "--device-fd", drive(), "--region-bytes", "1048576", "--slot-sectors", "8")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	operations, acknowledged := checkOrder(t, witness.reported(t))
	newest := map[uint64]float64{} // offset of a sector -> newest write of it
	kinds := map[string]int{}
	for sequence := 1.0; operations[sequence] != nil; sequence++ {
		o := operations[sequence]
		kinds[o["operation"].(string)]++
		for at := uint64(0); at < uint64(o["bytes"].(float64)); at += sectortag.SectorBytes {
			newest[uint64(o["offset"].(float64))+at] = sequence
		}
	}
	for _, kind := range []string{opWrite, opDurableWrite, opFlush} {
		if kinds[kind] == 0 {
			t.Errorf("no %s in %d operations", kind, len(acknowledged))
		}
	}
	files, extents := survey(t, "--device-fd", drive(), "--region-bytes", "1048576")
	if files[""] != 1<<20 {
		t.Errorf("surveyed %d bytes", files[""])
	}
	found := 0
	for _, e := range extents {
		for i := range e.Sectors {
			want := newest[e.Offset+uint64(i*sectortag.SectorBytes)]
			if e.State == sectortag.Written {
				found++
			}
			if e.Sequence != uint64(want) || (want != 0) != (e.State == sectortag.Written) {
				t.Errorf("at %d: %+v, the newest write is %v", e.Offset, e, want)
			}
		}
	}
	if found != len(newest) {
		t.Errorf("%d sectors show a record, %d were written", found, len(newest))
	}
}

func TestAWriterIntroducesItselfBeforeAnythingElse(t *testing.T) {
	t.Setenv(secretVariable, "5ec2e7")
	witness := newWitness(t, 10, nil)
	if code, _, message := execute(t, "write", "--campaign", campaignID, "--witness", witness.address,
		"--device-fd", emptyDrive(t, 64<<10)(), "--region-bytes", "65536", "--slot-sectors", "16"); code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	reported := witness.reported(t)
	if hello := reported[0]; len(hello) != 2 || hello["event"] != "hello" || hello["secret"] != "5ec2e7" {
		t.Errorf("%v", hello)
	}
	checkOrder(t, reported[1:])
}

func TestWritesOfARoundNeverShareASector(t *testing.T) {
	drive := emptyDrive(t, 64<<10)
	witness := newWitness(t, 300, nil)
	if code, _, message := execute(t, "write", "--campaign", campaignID, "--witness", witness.address,
		"--device-fd", drive(), "--region-bytes", "65536", "--slot-sectors", "16", "--depth", "8"); code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	inFlight := map[float64]map[string]any{}
	together := 0
	for _, line := range witness.reported(t) {
		sequence := line["sequence"].(float64)
		if line["event"] != "issued" {
			delete(inFlight, sequence)
			continue
		}
		for _, other := range inFlight {
			if line["operation"] == opFlush || other["operation"] == opFlush {
				t.Fatalf("a flush in flight with %v", other)
			}
			first, second := line["offset"].(float64), other["offset"].(float64)
			if first < second+other["bytes"].(float64) && second < first+line["bytes"].(float64) {
				t.Fatalf("%v and %v overlap", line, other)
			}
		}
		inFlight[sequence] = line
		together = max(together, len(inFlight))
	}
	if together < 2 {
		t.Errorf("at most %d operations were in flight at once", together)
	}
}

func TestTheWriterWaitsForTheWitness(t *testing.T) {
	directory := t.TempDir()
	pause := 20 * time.Millisecond
	witness := newWitness(t, 15, func(line map[string]any) {
		if line["event"] == "acknowledged" {
			time.Sleep(pause)
		}
	})
	began := time.Now()
	if code, _, message := execute(t, "write", "--campaign", campaignID, "--witness", witness.address,
		"--directory", directory); code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	if took := time.Since(began); took < 15*pause {
		t.Errorf("15 acknowledgements, %v each, took %v", pause, took)
	}
}

func TestEveryPatternOfADirectoryIsAcknowledgedAndFound(t *testing.T) {
	directory := t.TempDir()
	witness := newWitness(t, 400, nil)
	if code, _, message := execute(t, "write", "--campaign", campaignID, "--generation", "2", "--seed", "5",
		"--witness", witness.address, "--directory", directory); code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	operations, _ := checkOrder(t, witness.reported(t))
	calls := map[string]int{}
	appended := 0.0
	for _, o := range operations {
		calls[o["call"].(string)]++
		if o["operation"] == opWrite && o["target"] == appendFile {
			appended += o["bytes"].(float64)
		}
	}
	for _, call := range []string{"open O_CREAT", "pwrite", "pwrite O_DSYNC", "fsync", "fdatasync", "rename", "fsync of the directory"} {
		if calls[call] == 0 {
			t.Errorf("no %q in %d operations: %v", call, len(operations), calls)
		}
	}
	for sequence, o := range operations {
		if o["operation"] != opRename {
			continue
		}
		before, after := operations[sequence-1], operations[sequence+1]
		if before["operation"] != opFlush || before["target"] != nextFile || after != nil && after["operation"] != opFlushNames {
			t.Errorf("a rename after %v and before %v", before, after)
		}
	}
	files, extents := survey(t, "--directory", directory, "--generation", "2")
	sectors := map[string]int64{}
	for _, e := range extents {
		sectors[e.Target] += int64(e.Sectors)
	}
	for name, bytes := range files {
		if sectors[name] != bytes/sectortag.SectorBytes {
			t.Errorf("%s has %d bytes, surveyed are %d sectors", name, bytes, sectors[name])
		}
	}
	for _, name := range []string{overwriteFile, appendFile, dsyncFile, unflushedFile, currentFile} {
		if _, there := files[name]; !there {
			t.Errorf("no file %s: %v", name, files)
		}
	}
	if files[appendFile] != int64(appended) {
		t.Errorf("append has %d bytes, %v were appended", files[appendFile], appended)
	}
	for _, e := range extents {
		if e.State != sectortag.Written {
			t.Errorf("%+v", e)
		}
	}
}

func TestADamagedSectorAndATornTailAreFound(t *testing.T) {
	directory := t.TempDir()
	witness := newWitness(t, 60, nil)
	if code, _, message := execute(t, "write", "--campaign", campaignID, "--generation", "1",
		"--witness", witness.address, "--directory", directory); code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	path := filepath.Join(generationFolder(directory, 1), overwriteFile)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{0xff}, 5*sectortag.SectorBytes+200); err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(20*sectortag.SectorBytes + 7); err != nil {
		t.Fatal(err)
	}
	file.Close()
	_, extents := survey(t, "--directory", directory, "--generation", "1")
	found := map[uint64]sectortag.State{}
	for _, e := range extents {
		if e.Target == overwriteFile {
			found[e.Offset] = e.State
		}
	}
	if found[5*sectortag.SectorBytes] != sectortag.Damaged || found[20*sectortag.SectorBytes] != sectortag.Foreign {
		t.Errorf("%v", found)
	}
}

func TestWrongWordsAreRefusedInOneLine(t *testing.T) {
	for _, c := range []struct{ words, message string }{
		{"", "expected write or survey"},
		{"write --campaign 00 --directory /x", "expected 32 hexadecimal digits"},
		{"write --campaign " + campaignID + " --directory /x", "--witness: missing"},
		{"survey --campaign " + campaignID, "exactly one of"},
		{"survey --campaign " + campaignID + " --directory /x --nbd unix:/y", "exactly one of"},
		{"survey --campaign " + campaignID + " --directory /x --region-bytes 100", "multiple of 512"},
		{"write --campaign " + campaignID + " --witness - --directory /x --slot-sectors 0", "--slot-sectors: 0"},
		{"write --campaign " + campaignID + " --witness - --directory /x --depth 999", "--depth: 999"},
	} {
		code, _, message := execute(t, strings.Fields(c.words)...)
		if code != exitUsage || !strings.Contains(message, c.message) || strings.Count(message, "\n") != 1 {
			t.Errorf("%q: exit %d, %q", c.words, code, message)
		}
	}
}

// blockDrive is a drive in memory that takes whole blocks alone, as O_DIRECT does.
type blockDrive struct {
	lock    sync.Mutex
	content []byte
	block   int
	least   int // bytes of the shortest write
}

func (d *blockDrive) check(data []byte, offset int64) error {
	if len(data)%d.block != 0 || int(offset)%d.block != 0 {
		return fmt.Errorf("%d bytes at %d: invalid argument", len(data), offset)
	}
	return nil
}

func (d *blockDrive) ReadAt(data []byte, offset int64) error {
	copy(data, d.content[offset:])
	return d.check(data, offset)
}

func (d *blockDrive) WriteAt(data []byte, offset int64, _ bool) error {
	d.lock.Lock()
	defer d.lock.Unlock()
	d.least = min(d.least, len(data))
	copy(d.content[offset:], data)
	return d.check(data, offset)
}

func (d *blockDrive) Flush() error    { return nil }
func (d *blockDrive) Size() int64     { return int64(len(d.content)) }
func (d *blockDrive) BlockBytes() int { return d.block }
func (d *blockDrive) Calls() calls    { return calls{"write", "durable write", "flush"} }

func TestADriveOfLargeBlocksIsWrittenInWholeOnes(t *testing.T) {
	for _, block := range []int{512, 4096} {
		witness := newWitness(t, 200, nil)
		connection, err := dialWitness(witness.address)
		if err != nil {
			t.Fatal(err)
		}
		id := sectortag.Campaign{1}
		drive := &blockDrive{content: make([]byte, 1<<20), block: block, least: 1 << 20}
		w := &writer{witness: connection, campaign: id, generation: 1}
		load := newDriveLoad(w, drive, 1<<20, 64, 4, rand.New(rand.NewPCG(1, 1)))
		for err == nil {
			err = load.round()
		}
		connection.stream.Close()
		if !errors.Is(err, errStop) {
			t.Fatalf("blocks of %d: %v", block, err)
		}
		if drive.least != block {
			t.Errorf("blocks of %d: the shortest write has %d bytes", block, drive.least)
		}
		var found bytes.Buffer
		if err := newSurveyor(id, &found).drive(drive, 1<<20); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(found.String(), `"state":"record"`) || strings.Contains(found.String(), `"state":"damaged"`) {
			t.Errorf("blocks of %d: surveyed %s", block, found.String())
		}
	}
}

func TestAGenerationTakesThePlaceOfEarlierOnes(t *testing.T) {
	directory := t.TempDir()
	kept := filepath.Join(directory, "lost+found")
	for _, path := range []string{kept, filepath.Join(generationFolder(directory, 1), "deep"), generationFolder(directory, 2)} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := makeGenerationFolder(directory, 3)
	if err != nil {
		t.Fatal(err)
	}
	there, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil || !slices.Equal(there, []string{path, kept}) {
		t.Fatalf("%v, %v; expected %s and %s", there, err, path, kept)
	}
	if _, err := makeGenerationFolder(directory, 3); !errors.Is(err, os.ErrExist) {
		t.Fatalf("a generation that was begun already: %v", err)
	}
}

// recorded is a witness's stream that keeps what is said and answers ok.
type recorded struct {
	lock sync.Mutex
	said []string
	ok   chan struct{}
}

func (r *recorded) Write(line []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.said = append(r.said, string(line))
	if !strings.Contains(string(line), `"issued"`) {
		r.ok <- struct{}{}
	}
	return len(line), nil
}

func (r *recorded) Read(p []byte) (int, error) {
	<-r.ok
	return copy(p, "ok\n"), nil
}

func (r *recorded) Close() error { return nil }

func (r *recorded) events() string {
	r.lock.Lock()
	defer r.lock.Unlock()
	var events []string
	for _, line := range r.said {
		var said struct{ Event string }
		_ = json.Unmarshal([]byte(line), &said)
		events = append(events, said.Event)
	}
	return strings.Join(events, " ")
}

// A write that reaches the target in a cut, and that the witness does not know, would be a foreign
// one.
func TestAnOperationIsSaidBeforeItIsAskedForAndAcknowledgedAfter(t *testing.T) {
	stream := &recorded{ok: make(chan struct{}, 9)}
	w := &writer{witness: &witness{stream: stream}}
	go w.witness.listen()
	if err := w.do(operation{Sequence: w.next()}, func() error {
		if stream.events() != "issued" {
			t.Errorf("said before it is asked for: %q", stream.events())
		}
		return nil
	}); err != nil || stream.events() != "issued acknowledged" {
		t.Errorf("said %q, %v", stream.events(), err)
	}
	gone := errors.New("gone")
	if err := w.do(operation{Sequence: w.next()}, func() error { return gone }); !errors.Is(err, gone) ||
		stream.events() != "issued acknowledged issued failed" {
		t.Errorf("said %q, %v", stream.events(), err)
	}
}

// talking is a witness's stream whose answers a test gives.
type talking struct {
	said    chan struct{}
	answers chan string
}

func (s *talking) Write(line []byte) (int, error) { s.said <- struct{}{}; return len(line), nil }
func (s *talking) Close() error                   { return nil }

func (s *talking) Read(p []byte) (int, error) {
	answer, open := <-s.answers
	if !open {
		return 0, io.EOF
	}
	return copy(p, answer), nil
}

func TestEachAnswerIsOfTheReportThatCameFirst(t *testing.T) {
	stream := &talking{make(chan struct{}), make(chan string)}
	w := &witness{stream: stream}
	listened := make(chan struct{})
	go func() { w.listen(); close(listened) }()
	var results []chan error
	for sequence := range uint64(3) {
		result := make(chan error)
		results = append(results, result)
		go func() { result <- w.report(outcome{"acknowledged", sequence, ""}) }()
		<-stream.said
		w.lock.Lock() // which the report holds until it is in the queue
		if len(w.waiting) != int(sequence)+1 {
			t.Errorf("%d reports wait, want %d", len(w.waiting), sequence+1)
		}
		w.lock.Unlock()
	}
	stream.answers <- "ok\n"
	select {
	case err := <-results[0]:
		if err != nil {
			t.Errorf("the first report: %v", err)
		}
	case <-results[1]:
		t.Fatal("the first answer is the second report's")
	case <-results[2]:
		t.Fatal("the first answer is the third report's")
	}
	stream.answers <- "stop\n"
	if err := <-results[1]; !errors.Is(err, errStop) {
		t.Errorf("the second report: %v", err)
	}
	close(stream.answers)
	if err := <-results[2]; err == nil || errors.Is(err, errStop) {
		t.Errorf("the third report, of a witness that has gone: %v", err)
	}
	<-listened
	if err := w.report(outcome{"acknowledged", 4, ""}); err == nil {
		t.Error("a report to a witness that has gone")
	}
}

// onDisk is what a power cut leaves of a generation: its survey.
func onDisk(t *testing.T, disk *powercut.Disk, generation string) (map[string]int64, map[string][]extent) {
	t.Helper()
	files, extents := survey(t, "--directory", disk.AfterACut(t), "--generation", generation)
	by := map[string][]extent{}
	for _, e := range extents {
		by[e.Target] = append(by[e.Target], e)
	}
	return files, by
}

// The writer waits for the witness's answer to each acknowledgement: the power is cut meanwhile.
func TestWhatIsAcknowledgedAsDurableOutlivesAPowerCut(t *testing.T) {
	disk := powercut.New(t)
	written := map[string]map[float64]map[string]any{} // by file and sequence
	durable := map[string]float64{}                    // the sequence that all writes up to are durable
	issued := map[float64]map[string]any{}
	cuts := map[string]int{}
	check := func(line map[string]any) {
		sequence, _ := line["sequence"].(float64)
		if line["event"] == "issued" {
			issued[sequence] = line
			return
		}
		o := issued[sequence]
		target, _ := o["target"].(string)
		call := o["call"].(string)
		switch o["operation"] {
		case opCreate:
			written[target], durable[target] = map[float64]map[string]any{}, 0
		case opWrite:
			written[target][sequence] = o
		case opDurableWrite:
			written[target][sequence] = o
			durable[target] = sequence
		case opFlush:
			durable[target] = sequence
		case opRename:
			written[currentFile], durable[currentFile] = written[nextFile], durable[nextFile]
			return
		}
		if o["operation"] == opWrite || o["operation"] == opCreate || cuts[call] == 3 {
			return
		}
		cuts[call]++
		if o["operation"] == opFlushNames && written[currentFile] == nil {
			target = overwriteFile
		} else if o["operation"] == opFlushNames {
			target = currentFile
		}
		files, extents := onDisk(t, disk, "1")
		if _, there := files[target]; !there {
			t.Errorf("%s %v is acknowledged, and %q is not on the disk: %v", call, sequence, target, files)
			return
		}
		newest := map[uint64]float64{}
		for s, write := range written[target] {
			for at := 0.0; s <= durable[target] && at < write["bytes"].(float64); at += sectortag.SectorBytes {
				offset := uint64(write["offset"].(float64) + at)
				newest[offset] = max(newest[offset], s)
			}
		}
		for _, e := range extents[target] {
			for k := range e.Sectors {
				offset := e.Offset + uint64(k*sectortag.SectorBytes)
				if e.State == sectortag.Written && float64(e.Sequence) >= newest[offset] {
					delete(newest, offset)
				}
			}
		}
		if len(newest) != 0 {
			t.Errorf("%s %v of %q is acknowledged, and %d sectors are not on the disk", call, sequence, target, len(newest))
		}
	}
	witness := newWitness(t, 120, check)
	if code, _, message := execute(t, "write", "--campaign", campaignID, "--generation", "1", "--seed", "3",
		"--witness", witness.address, "--directory", disk.Folder); code != 0 {
		t.Fatalf("exit %d: %s", code, message)
	}
	witness.reported(t)
	for _, call := range []string{"fsync", "fdatasync", "pwrite O_DSYNC", "fsync of the directory"} {
		if cuts[call] == 0 {
			t.Errorf("no cut after %q: %v", call, cuts)
		}
	}
}

// A generation's folder is on the disk before anything is done in it, and the earlier ones are
// gone.
func TestTheFolderOfAGenerationOutlivesAPowerCut(t *testing.T) {
	disk := powercut.New(t)
	for _, generation := range []uint32{1, 2} {
		if _, err := makeGenerationFolder(disk.Folder, generation); err != nil {
			t.Fatal(err)
		}
	}
	left := disk.AfterACut(t)
	folders, _ := filepath.Glob(filepath.Join(left, "generation-*"))
	if !slices.Equal(folders, []string{generationFolder(left, 2)}) {
		t.Errorf("on the disk: %v", folders)
	}
}

func TestAFolderThatIsGoneHasNoFiles(t *testing.T) {
	files, extents := survey(t, "--directory", t.TempDir(), "--generation", "7")
	if len(files) != 0 || len(extents) != 0 {
		t.Errorf("surveyed %v, %v", files, extents)
	}
}
