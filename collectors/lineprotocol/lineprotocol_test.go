// SPDX-License-Identifier: GPL-3.0-or-later

package lineprotocol

import (
	"math"
	"strings"
	"testing"
)

func TestEncoderWritesTagsFieldsAndTime(t *testing.T) {
	var e Encoder
	e.Begin("power").Tag("rail", "12v").Tag("drive", "nvme-plp")
	e.Float("watts", 3.25)
	e.Float("big", 1e21)
	e.Int("samples", -7)
	e.String("session", `a"b\c`)
	if !e.End(1700000000123456789) {
		t.Fatal("End refused a line with fields")
	}
	want := `power,rail=12v,drive=nvme-plp watts=3.25,big=1e+21,samples=-7i,session="a\"b\\c" 1700000000123456789` + "\n"
	if got := string(e.Bytes()); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestEncoderEscapesNames(t *testing.T) {
	var e Encoder
	e.Begin("m, x").Tag("k=1", `a b,c=d`).Tag("empty", "").Tag("end", `back\`).Tag("nl", "a\nb")
	e.Int("f 1", 1)
	e.End(1)
	want := `m\,\ x,k\=1=a\ b\,c\=d,end=back_,nl=a_b f\ 1=1i 1` + "\n"
	if got := string(e.Bytes()); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestEncoderLeavesOutWhatIsNoNumber(t *testing.T) {
	var e Encoder
	e.Begin("m")
	if e.Float("a", math.NaN()) || e.Float("b", math.Inf(1)) || e.Float("c", math.Inf(-1)) {
		t.Error("Float took a value that line protocol does not have")
	}
	e.Float("d", 2)
	e.End(1)
	if got := string(e.Bytes()); got != "m d=2 1\n" {
		t.Errorf("got %q", got)
	}
}

func TestEncoderTakesBackALineWithoutFields(t *testing.T) {
	var e Encoder
	e.Begin("first")
	e.Int("a", 1)
	e.End(1)
	e.Begin("second").Tag("x", "y")
	e.Float("nan", math.NaN())
	if e.End(2) {
		t.Error("End took a line without fields")
	}
	if got := string(e.Bytes()); got != "first a=1i 1\n" {
		t.Errorf("got %q", got)
	}
}

func TestEncoderKeepsStringsOnOneLine(t *testing.T) {
	var e Encoder
	e.Begin("m")
	e.String("s", "a\nb\rc")
	e.End(1)
	if got := string(e.Bytes()); got != "m s=\"a b c\" 1\n" {
		t.Errorf("got %q", got)
	}
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	key := AppendKey(nil, "blockio", "host", "h 1", "drive", "d")
	var e Encoder
	line := func() {
		e.Reset()
		e.BeginKey(key)
		e.Int("reads", 12345678)
		e.Float("read_seconds", 1.2345)
		e.String("s", "x")
		e.End(1700000000123456789)
	}
	line()
	if n := testing.AllocsPerRun(100, line); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
	if !strings.HasPrefix(string(e.Bytes()), `blockio,host=h\ 1,drive=d reads=12345678i,`) {
		t.Errorf("got %q", e.Bytes())
	}
}

func TestCheckLines(t *testing.T) {
	const now = " 1700000000123456789\n"
	for _, good := range []string{
		"m a=1" + now,
		`m,t=a\ b a=1i,s="x y = z"` + now,
		"m a=1" + now + "n,t=u b=2i" + now,
		`m s="quote \" and space"` + now,
	} {
		if err := CheckLines([]byte(good)); err != nil {
			t.Errorf("%q refused: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                           "no line",
		"m a=1 1700000000123456789":  "not ended",
		"\n":                         "no measurement",
		",t=u a=1" + now:             "no measurement",
		"# comment" + now:            "no measurement",
		"m\n":                        "no fields",
		"m 1700000000123456789\n":    "no fields",
		"m a=" + now:                 "no fields",
		"m =1" + now:                 "no fields",
		"m a=1\n":                    "no time",
		"m a=1 1700000000\n":         "nanoseconds",
		"m a=1 1700000000123\n":      "nanoseconds",
		"m a=1 soon\n":               "nanoseconds",
		"m a=1" + now + "m a=1 5x\n": "line 2",
		"m s=\"a\x00b\"" + now:       "control character",
		strings.Repeat("x", 1<<16) + " a=1" + now: "expected fewer",
	} {
		err := CheckLines([]byte(bad))
		if err == nil {
			t.Errorf("%.60q taken, expected a refusal with %q", bad, want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v: expected %q", bad, err, want)
		}
	}
}

func BenchmarkEncoder(b *testing.B) {
	key := AppendKey(nil, "power", "meter", "tap1a", "rail", "12v", "host", "vhost1", "drive", "nvme-plp")
	var e Encoder
	b.ReportAllocs()
	for i := range b.N {
		e.Reset()
		e.BeginKey(key)
		e.Float("volts", 12.034)
		e.Float("amps", 0.3421)
		e.Float("watts", 4.1167)
		e.Int("samples", int64(i))
		e.End(1700000000123456789)
	}
}
