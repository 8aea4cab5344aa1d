// SPDX-License-Identifier: GPL-3.0-or-later

package waveform

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"joulerig/collectors/internal/energy"
	"joulerig/tests/support/wait"
)

var rails = []RailMeta{
	{Rail: "12v", Host: "vhost1", Drive: "d 1", Volts: Channel{"CH1", 1.001, -0.002, "K-1"}, Amps: Channel{"CH2", 1, 0, ""}},
	{Rail: "5v", Host: "vhost1", Drive: "d 1", Volts: Channel{"CH3", 1, 0, ""}, Amps: Channel{"CH4", 1, 0, ""}},
}

func metaAt(rate float64) Meta {
	return Meta{Meter: "tap1a", Session: "0123456789ab", Instrument: "RTA4004", SampleRateHz: rate, Samples: "window-mean", Rails: rails}
}

// row is the table's, as another reader sees it.
type row struct {
	Host   string  `parquet:"host"`
	Drive  string  `parquet:"drive"`
	Rail   string  `parquet:"rail"`
	Stream int32   `parquet:"stream"`
	Index  int64   `parquet:"index"`
	Volts  float32 `parquet:"volts"`
	Amps   float32 `parquet:"amps"`
}

func readFile(t *testing.T, path string) (rows map[string][]row, contents Contents) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	text, ok := file.Lookup(MetadataKey)
	if !ok {
		t.Fatalf("no metadata %s", MetadataKey)
	}
	if err := json.Unmarshal([]byte(text), &contents); err != nil {
		t.Fatal(err)
	}
	reader := parquet.NewGenericReader[row](f)
	defer reader.Close()
	all := make([]row, file.NumRows())
	if n, err := reader.Read(all); int64(n) != file.NumRows() || (err != nil && !errors.Is(err, io.EOF)) {
		t.Fatalf("%d of %d rows: %v", n, file.NumRows(), err)
	}
	rows = map[string][]row{}
	for _, r := range all {
		rows[r.Rail] = append(rows[r.Rail], r)
	}
	return rows, contents
}

// wave makes samples that no codec can guess, with all that a float can be.
func wave(seed int64, n int) (volts, amps []float32) {
	random := rand.New(rand.NewSource(seed))
	for k := range n {
		a := 0.4 + 0.2*random.Float64()
		if k%100 < 30 {
			a += 2.5
		}
		volts = append(volts, float32(12-0.08*a))
		amps = append(amps, float32(a))
	}
	return volts, amps
}

func create(t *testing.T, rate float64, maxBytes int64) (*Recorder, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "power.parquet")
	r, err := Create(path, metaAt(rate), maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return r, path
}

func appendAll(t *testing.T, r *Recorder, rail int, first uint64, volts, amps []float32, block int) {
	t.Helper()
	for at := 0; at < len(volts); at += block {
		end := min(at+block, len(volts))
		if err := r.Append(rail, first+uint64(at), volts[at:end], amps[at:end]); err != nil {
			t.Fatal(err)
		}
	}
}

func closeRecorder(t *testing.T, r *Recorder) Summary {
	t.Helper()
	s, err := r.Close()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expectRows(t *testing.T, got []row, stream int32, first uint64, volts, amps []float32) {
	t.Helper()
	if len(got) != len(volts) {
		t.Fatalf("%d rows, expected %d", len(got), len(volts))
	}
	for k, r := range got {
		if r.Stream != stream || r.Index != int64(first)+int64(k) || math.Float32bits(r.Volts) != math.Float32bits(volts[k]) ||
			math.Float32bits(r.Amps) != math.Float32bits(amps[k]) {
			t.Fatalf("row %d is %+v, expected stream %d index %d %v V %v A", k, r, stream, first+uint64(k), volts[k], amps[k])
		}
	}
}

func TestASampleComesBackAsItWas(t *testing.T) {
	for _, rate := range []float64{0.5, 50, 1000, 20000, 3e6} {
		r, path := create(t, rate, 1<<30)
		v, a := wave(1, 30001)
		v[7], a[7] = float32(math.Inf(1)), float32(math.Copysign(0, -1))
		v[8] = math.Float32frombits(0x7fc00123) // a NaN with something in it
		for at := 0; at < len(v); at += 1000 {
			end := min(at+1000, len(v))
			appendAll(t, r, 0, uint64(at), v[at:end], a[at:end], 333)
			appendAll(t, r, 1, uint64(at), a[at:end], v[at:end], 1000)
			waitForQueue(t, r, 2)
		}
		s := closeRecorder(t, r)
		rows, contents := readFile(t, path)
		expectRows(t, rows["12v"], 0, 0, v, a)
		expectRows(t, rows["5v"], 0, 0, a, v)
		if first := rows["12v"][0]; first.Host != "vhost1" || first.Drive != "d 1" {
			t.Errorf("row %+v", first)
		}
		if s.Recorded != 60002 || s.Dropped != 0 || s.Cut != 0 || s.Truncated || s.Error != "" {
			t.Errorf("summary %+v", s)
		}
		if contents.Meter != "tap1a" || contents.Rails[0].Volts.Certificate != "K-1" || contents.Recorded != 60002 ||
			contents.Last[1] != (Last{1, 0, 30000}) {
			t.Errorf("contents %+v", contents)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != s.Bytes {
			t.Errorf("%d bytes, the summary says %d", info.Size(), s.Bytes)
		}
		if _, err := os.Stat(path + PartialSuffix); !os.IsNotExist(err) {
			t.Errorf("the partial file is still there: %v", err)
		}
	}
}

const patience = 20 * time.Second

// waitForQueue waits until no more than so many groups wait to be written.
func waitForQueue(t testing.TB, r *Recorder, most int) {
	t.Helper()
	wait.For(t, patience, "groups are written", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.queue) <= most
	})
}

func TestTheFilesSumIsTheJoulesOfTheCounter(t *testing.T) {
	const rate = 20000
	r, path := create(t, rate, 1<<30)
	v, a := wave(2, 5*rate)
	var joules float64
	counter := energy.NewRail(energy.WindowMean, rate, 200, energy.NoScale, energy.NoRange, func(p energy.Point) { joules += p.Joules })
	for at := 0; at < len(v); at += 400 {
		counter.Add(uint64(at), v[at:at+400], a[at:at+400], nil)
		appendAll(t, r, 0, uint64(at), v[at:at+400], a[at:at+400], 400)
	}
	closeRecorder(t, r)
	rows, _ := readFile(t, path)
	var sum float64
	for _, row := range rows["12v"] {
		sum += float64(row.Volts) * float64(row.Amps) / rate
	}
	if math.Abs(sum-joules) > 1e-12*joules {
		t.Errorf("%v J in the file, %v J on the counter", sum, joules)
	}
}

func TestLostSamplesAndRestartedStreamsShowInTheIndex(t *testing.T) {
	r, path := create(t, 1000, 1<<30)
	v, a := wave(3, 5000)
	appendAll(t, r, 0, 0, v[:1000], a[:1000], 100)
	appendAll(t, r, 0, 1500, v[1500:2000], a[1500:2000], 100)
	r.Stream()
	appendAll(t, r, 0, 3, v[2000:], a[2000:], 100)
	s := closeRecorder(t, r)
	rows, _ := readFile(t, path)
	expectRows(t, rows["12v"][:1000], 0, 0, v[:1000], a[:1000])
	expectRows(t, rows["12v"][1000:1500], 0, 1500, v[1500:2000], a[1500:2000])
	expectRows(t, rows["12v"][1500:], 1, 3, v[2000:], a[2000:])
	if s.Recorded != 4500 || s.Dropped != 0 || s.Last[0] != (Last{0, 1, 3002}) {
		t.Errorf("summary %+v", s)
	}
}

func TestASampleThatComesAgainIsRefused(t *testing.T) {
	r, path := create(t, 1000, 1<<30)
	v, a := wave(4, 100)
	appendAll(t, r, 0, 0, v, a, 100)
	if err := r.Append(0, 99, v[:1], a[:1]); err == nil {
		t.Error("sample 99 was taken twice")
	}
	for _, err := range []error{r.Append(2, 100, v, a), r.Append(-1, 100, v, a), r.Append(0, 100, v, a[:1])} {
		if err == nil {
			t.Error("a mistake was taken")
		}
	}
	closeRecorder(t, r)
	rows, _ := readFile(t, path)
	expectRows(t, rows["12v"], 0, 0, v, a)
}

func TestClockPairsAreThinnedAndTheLastIsKept(t *testing.T) {
	r, path := create(t, 1000, 1<<30)
	v, a := wave(5, 3010)
	const begin = int64(1700000000000000000)
	for at := 0; at < 3010; at += 10 {
		appendAll(t, r, 0, uint64(at), v[at:at+10], a[at:at+10], 10)
		r.Clock(uint64(at+10), begin+int64(at+10)*1_000_010, 20e-6)
	}
	r.Clock(5, begin, 1e-6)                // goes back
	r.Clock(4000, begin, 1e-6)             // so does this, in time
	r.Clock(4000, begin+1<<40, math.NaN()) // says nothing
	r.Stream()
	r.Clock(0, begin+5e9, 30e-6)
	closeRecorder(t, r)
	_, contents := readFile(t, path)
	want := []ClockPoint{
		{0, 10, begin + 10*1_000_010, 20e-6}, {0, 1010, begin + 1010*1_000_010, 20e-6}, {0, 2010, begin + 2010*1_000_010, 20e-6},
		{0, 3010, begin + 3010*1_000_010, 20e-6}, {1, 0, begin + 5e9, 30e-6},
	}
	if len(contents.Clock) != len(want) {
		t.Fatalf("clock %+v", contents.Clock)
	}
	for i := range want {
		if contents.Clock[i] != want[i] {
			t.Errorf("pair %d is %+v, expected %+v", i, contents.Clock[i], want[i])
		}
	}
}

func TestTheBoundEndsTheRecordingAtAKnownSample(t *testing.T) {
	for _, bound := range []int64{MinBytes, 300_000, 1_000_000} {
		r, path := create(t, 1000, bound)
		v, a := wave(6, 400_000)
		var err error
		for at := 0; at < len(v); at += 100 {
			r.Clock(uint64(at), 1700000000000000000+int64(at)*1e6, 1e-5)
			for rail := range 2 {
				if e := r.Append(rail, uint64(at), v[at:at+100], a[at:at+100]); e != nil {
					err = e
				}
			}
			waitForQueue(t, r, 0)
		}
		if !errors.Is(err, ErrFull) {
			t.Errorf("Append: %v, expected ErrFull", err)
		}
		s := closeRecorder(t, r)
		rows, contents := readFile(t, path)
		info, _ := os.Stat(path)
		if info.Size() > bound {
			t.Errorf("%d bytes, the bound is %d", info.Size(), bound)
		}
		if !s.Truncated || !contents.Truncated || s.Error != "" || s.Dropped != 0 || s.Recorded+s.Cut != 800_000 {
			t.Errorf("summary %+v", s)
		}
		for i, name := range []string{"12v", "5v"} {
			n := len(rows[name])
			expectRows(t, rows[name], 0, 0, v[:n], a[:n])
			for _, last := range contents.Last {
				if last.Rail == i && last.Index != uint64(n-1) {
					t.Errorf("%s: %d samples, the last is said to be %d", name, n, last.Index)
				}
			}
		}
	}
}

// disk is a file whose disk has room for so many bytes, or stands still.
type disk struct {
	*os.File
	room int64
	gate chan struct{}
}

func (d *disk) Write(b []byte) (int, error) {
	if d.gate != nil {
		<-d.gate
	}
	at, _ := d.File.Seek(0, io.SeekCurrent)
	if at+int64(len(b)) > d.room {
		n, _ := d.File.Write(b[:max(0, d.room-at)])
		return n, &os.PathError{Op: "write", Path: d.Name(), Err: syscall.ENOSPC}
	}
	return d.File.Write(b)
}

func createOn(t *testing.T, rate float64, room int64, gate chan struct{}) (*Recorder, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "power.parquet")
	f, err := os.Create(path + PartialSuffix)
	if err != nil {
		t.Fatal(err)
	}
	r, err := start(&disk{f, room, gate}, path, metaAt(rate), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	return r, path
}

func TestAFullDiskEndsTheRecordingNotTheCapture(t *testing.T) {
	v, a := wave(7, 1_000_000)
	for _, room := range []int64{8 << 10, 100_000, 1_000_000, 1_000_100, 1_001_000, 1_010_000} {
		r, path := createOn(t, 20000, room, nil)
		for at := 0; at < len(v); at += 1000 {
			err := r.Append(0, uint64(at), v[at:at+1000], a[at:at+1000])
			if err != nil && !strings.Contains(err.Error(), "no space left") {
				t.Fatal(err)
			}
			waitForQueue(t, r, 0)
		}
		s := closeRecorder(t, r)
		if !strings.Contains(s.Error, "no space left") || s.Truncated || s.Recorded+s.Cut != int64(len(v)) || s.Dropped != 0 {
			t.Errorf("room %d: summary %+v", room, s)
		}
		rows, contents := readFile(t, path)
		n := len(rows["12v"])
		expectRows(t, rows["12v"], 0, 0, v[:n], a[:n])
		if int64(n) != s.Recorded || contents.Recorded != s.Recorded || contents.Error != s.Error {
			t.Errorf("room %d: %d rows, contents %+v", room, n, contents.Summary)
		}
		if room >= 1_000_000 && n == 0 {
			t.Errorf("nothing was kept in %d bytes", room)
		}
	}
}

func TestADiskWithoutRoomForTheDirectoryLeavesThePartialFile(t *testing.T) {
	r, path := createOn(t, 20000, 1000, nil)
	v, a := wave(8, 100)
	appendAll(t, r, 0, 0, v, a, 100)
	s, err := r.Close()
	if err == nil || !strings.Contains(err.Error(), path+PartialSuffix) || s.Recorded != 0 || s.Cut != 100 {
		t.Errorf("%v, summary %+v", err, s)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("there is a file without a directory: %v", err)
	}
}

func TestASlowDiskDelaysNoCaptureAndDroppedSamplesAreNamed(t *testing.T) {
	gate := make(chan struct{}, 1)
	gate <- struct{}{} // for the head of the file
	r, path := createOn(t, 20000, 1<<40, gate)
	v, a := wave(9, 400_000)
	begin := time.Now()
	appendAll(t, r, 0, 0, v, a, 1000)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("Append waited: %v", took)
	}
	close(gate)
	wait.For(t, patience, "samples are recorded", func() bool { return r.Counts().Recorded > 0 })
	waitForQueue(t, r, 0)
	appendAll(t, r, 0, 400_000, v[:20_000], a[:20_000], 1000)
	s := closeRecorder(t, r)
	if s.Dropped == 0 || s.Recorded+s.Dropped != 420_000 || s.Cut != 0 || s.Error != "" {
		t.Errorf("summary %+v", s)
	}
	// What is kept is what the queue holds, and no more: the memory is bounded.
	if most := int64((queueSeconds+1)*2+1) * 20_000; s.Recorded > most+20_000 {
		t.Errorf("%d samples were held, expected at most %d", s.Recorded-20_000, most)
	}
	rows, contents := readFile(t, path)
	if len(contents.Gaps) != 1 {
		t.Fatalf("gaps %+v", contents.Gaps)
	}
	gap := contents.Gaps[0]
	if gap.Rail != 0 || gap.Samples != s.Dropped || gap.First+uint64(gap.Samples) != 400_000 {
		t.Errorf("gap %+v, %d dropped", gap, s.Dropped)
	}
	expectRows(t, rows["12v"][:gap.First], 0, 0, v[:gap.First], a[:gap.First])
	expectRows(t, rows["12v"][gap.First:], 0, 400_000, v[:20_000], a[:20_000])
}

// abandon ends a recording as SIGKILL would.
func abandon(t *testing.T, r *Recorder) {
	t.Helper()
	waitForQueue(t, r, 0)
	r.mu.Lock()
	for rail := range r.filling {
		r.filling[rail] = nil
	}
	r.mu.Unlock()
	wait.For(t, patience, "all groups are free", r.idle)
	r.writer.file.Close()
}

// idle is whether all groups that were made are free.
func (r *Recorder) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.free) == r.made
}

func TestWhatACrashLeavesIsRecoveredUpToTheLastWholeRowGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recovers forty files")
	}
	r, path := create(t, 20000, 1<<30)
	v, a := wave(10, 100_000)
	for at := 0; at < len(v); at += 1000 {
		appendAll(t, r, 0, uint64(at), v[at:at+1000], a[at:at+1000], 1000)
		appendAll(t, r, 1, uint64(at), a[at:at+1000], v[at:at+1000], 1000)
		r.Clock(uint64(at+1000), 1700000000000000000+int64(at+1000)*50_000, 1e-5)
		waitForQueue(t, r, 0)
	}
	if _, err := Recover(path); err == nil || !strings.Contains(err.Error(), "being written") {
		t.Errorf("a file that grows was recovered: %v", err)
	}
	abandon(t, r)
	whole, err := os.ReadFile(path + PartialSuffix)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{}
	for _, g := range r.writer.groups {
		ends = append(ends, int(g.at))
	}
	ends = append(ends, len(whole))
	random := rand.New(rand.NewSource(11))
	for range 40 {
		cut := ends[0] + random.Intn(len(whole)-ends[0]+1)
		torn := append([]byte(nil), whole[:cut]...)
		if random.Intn(2) == 0 {
			torn = append(torn, make([]byte, random.Intn(5000))...) // blocks that never got their data
		}
		groups := 0
		for groups+1 < len(ends) && ends[groups+1] <= cut {
			groups++
		}
		path := filepath.Join(t.TempDir(), "torn.parquet")
		if err := os.WriteFile(path+PartialSuffix, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Recover(path)
		if err != nil {
			t.Fatal(err)
		}
		rows, contents := readFile(t, path)
		first, second := (groups+1)/2*20000, groups/2*20000
		expectRows(t, rows["12v"], 0, 0, v[:first], a[:first])
		expectRows(t, rows["5v"], 0, 0, a[:second], v[:second])
		if !s.Recovered || !contents.Recovered || s.Recorded != int64(first+second) || contents.Session != "0123456789ab" {
			t.Errorf("summary %+v", s)
		}
		if groups > 0 && len(contents.Clock) == 0 {
			t.Error("no clock in a recovered file")
		}
	}
}

func TestAByteThatTurnedEndsTheRecoveryThere(t *testing.T) {
	r, path := create(t, 20000, 1<<30)
	v, a := wave(12, 60_000)
	appendAll(t, r, 0, 0, v, a, 1000)
	abandon(t, r)
	at := r.writer.groups[1].at + 2000
	f, err := os.OpenFile(path+PartialSuffix, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	f.ReadAt(b, at)
	f.WriteAt([]byte{b[0] ^ 0x10}, at)
	f.Close()
	if _, err := Recover(path); err != nil {
		t.Fatal(err)
	}
	rows, _ := readFile(t, path)
	expectRows(t, rows["12v"], 0, 0, v[:20_000], a[:20_000])
}

func TestRecoverRefusesWhatIsNotOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	for _, content := range []string{"", "PAR1", "not parquet", "PAR1JRWF" + strings.Repeat("\xff", 100)} {
		if err := os.WriteFile(path+PartialSuffix, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Recover(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
		if left, _ := os.ReadFile(path + PartialSuffix); string(left) != content {
			t.Errorf("%q was changed", content)
		}
	}
}

func TestNoFileIsOverwritten(t *testing.T) {
	r, path := create(t, 1000, 1<<30)
	if _, err := Create(path, metaAt(1000), 1<<30); !errors.Is(err, os.ErrExist) {
		t.Errorf("the partial file: %v", err)
	}
	closeRecorder(t, r)
	if _, err := Create(path, metaAt(1000), 1<<30); !errors.Is(err, os.ErrExist) {
		t.Errorf("the file: %v", err)
	}
	if rows, _ := readFile(t, path); len(rows) != 0 {
		t.Errorf("rows %v", rows)
	}
}

func TestAppendAfterCloseIsHarmless(t *testing.T) {
	r, _ := create(t, 1000, 1<<30)
	closeRecorder(t, r)
	if err := r.Append(0, 0, make([]float32, 3), make([]float32, 3)); !errors.Is(err, ErrClosed) {
		t.Errorf("Append: %v", err)
	}
	r.Clock(1, 1, 1)
	r.Stream()
	if s, err := r.Close(); err != nil || s.Recorded != 0 {
		t.Errorf("Close: %+v, %v", s, err)
	}
}

// Two rails at 1 MS/s, four channels: an operation is a second of it. With real time's pace nothing
// is to be dropped.
func BenchmarkFourChannelsAt1MSs(b *testing.B) {
	path := filepath.Join(b.TempDir(), "power.parquet")
	r, err := Create(path, metaAt(1e6), 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	v, a := wave(13, 1_000_000)
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ResetTimer()
	for second := range b.N {
		for at := 0; at < len(v); at += 20_000 {
			for rail := range 2 {
				if err := r.Append(rail, uint64(second*1_000_000+at), v[at:at+20_000], a[at:at+20_000]); err != nil {
					b.Fatal(err)
				}
			}
			waitForQueue(b, r, 2)
		}
	}
	s, err := r.Close()
	if err != nil {
		b.Fatal(err)
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/s")
	b.ReportMetric(float64(s.Bytes)/float64(s.Recorded), "bytes/row")
	b.ReportMetric(float64(s.Dropped), "dropped")
}
