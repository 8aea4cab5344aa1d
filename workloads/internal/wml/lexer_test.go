// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import "testing"

func TestNumbersAreWholeAndOf64Bits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "-7": -7, "3k": 3 << 10, "-3k": -3 << 10, "5m": 5 << 20, "2g": 2 << 30,
		"9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63,
		"9007199254740991k": (1<<53 - 1) << 10, "-9007199254740992k": -1 << 63, "-8589934592g": -1 << 63,
	} {
		if got, err := parseInteger(text); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"9223372036854775808", "-9223372036854775809", "9007199254740992k", "-9007199254740993k", "8589934592g", "-8589934593g",
		"", "k", "-", "1.5", "1t", "0x10", "1kk",
	} {
		if got, err := parseInteger(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestTokensKnowTheirLines(t *testing.T) {
	all, err := tokens("set $x=1 # of a comment\n\n\"two\nlines\" ${y}/$(z)\r\n/x/y")
	if err != nil {
		t.Fatal(err)
	}
	want := []token{
		{wordToken, "set", 0, 1}, {variableToken, "x", 0, 1}, {signToken, "=", 0, 1}, {numberToken, "1", 1, 1},
		{quotedToken, "two\nlines", 0, 3}, {variableToken, "y", 0, 4}, {signToken, "/", 0, 4}, {variableToken, "z", 0, 4},
		{wordToken, "/x/y", 0, 5}, {endToken, "", 0, 5},
	}
	for n, token := range all {
		if n >= len(want) || token != want[n] {
			t.Fatalf("tokens %+v, want %+v", all, want)
		}
	}
}
