// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"joulerig/collectors/internal/srframe"
)

// instrument is a capture under way, which gives `reply` to each command.
func instrument(t *testing.T, m *Meter, reply func(key, value string) string) {
	t.Helper()
	commands, sent := io.Pipe()
	t.Cleanup(func() { sent.Close() })
	m.takesCommands(sent)
	m.mu.Lock()
	m.seen()
	m.mu.Unlock()
	go func() {
		for lines := bufio.NewScanner(commands); lines.Scan(); {
			word := strings.Fields(lines.Text())
			event := reply(word[1], word[2])
			if event == "" {
				m.endStream(Silent, "no answer")
				continue
			}
			if err := m.frame(&srframe.Frame{Type: srframe.Event, Payload: []byte(event)}); err != nil {
				t.Error(err)
			}
		}
	}()
}

func TestASettingIsChangedWhileTheMeterIsCaptured(t *testing.T) {
	m, _ := testMeter(t)
	var seen []string
	instrument(t, m, func(key, value string) string {
		seen = append(seen, key+"="+value)
		return fmt.Sprintf(`{"event":"set","key":%q,"value":%q,"ok":true}`, key, value)
	})
	code, text := ask(t, m, "POST", "/settings", `{"meter":"tap","key":"2.enabled","value":"off"}`)
	if code != 200 || !strings.Contains(text, `"value":"off"`) {
		t.Errorf("%d %s", code, text)
	}
	if len(seen) != 1 || seen[0] != "2.enabled=off" {
		t.Errorf("the instrument was asked for %v", seen)
	}
}

func TestASettingThatTheInstrumentRefusesIsAnErrorInItsWords(t *testing.T) {
	m, _ := testMeter(t)
	instrument(t, m, func(key, value string) string {
		return fmt.Sprintf(`{"event":"set","key":%q,"value":%q,"ok":false,"error":"it stays on"}`, key, value)
	})
	code, text := ask(t, m, "POST", "/settings", `{"meter":"tap","key":"2.enabled","value":"off"}`)
	if code != 400 || !strings.Contains(text, "meter tap: it stays on") {
		t.Errorf("%d %s", code, text)
	}
}

func TestACaptureThatEndsMeanwhileHasNotChangedIt(t *testing.T) {
	m, _ := testMeter(t)
	instrument(t, m, func(string, string) string { return "" })
	code, text := ask(t, m, "POST", "/settings", `{"meter":"tap","key":"2.enabled","value":"off"}`)
	if code != 400 || !strings.Contains(text, "meter tap is silent: no answer") {
		t.Errorf("%d %s", code, text)
	}
}

func TestTheAnswerToAnotherSettingIsNotTakenForThisOnes(t *testing.T) {
	m, _ := testMeter(t)
	first := true
	instrument(t, m, func(key, value string) string {
		if first {
			first = false
			late := `{"event":"set","key":"1.enabled","value":"off","ok":true}`
			_ = m.frame(&srframe.Frame{Type: srframe.Event, Payload: []byte(late)})
		}
		return fmt.Sprintf(`{"event":"set","key":%q,"value":%q,"ok":false,"error":"no"}`, key, value)
	})
	if code, text := ask(t, m, "POST", "/settings", `{"meter":"tap","key":"2.enabled","value":"off"}`); code != 400 {
		t.Errorf("%d %s", code, text)
	}
}

func TestWhatIsNoSettingIsRefusedBeforeTheInstrumentIsAsked(t *testing.T) {
	m, _ := testMeter(t)
	for body, says := range map[string]string{
		`{"meter":"tap","key":"a","value":"b"}`:            "meter tap is starting",
		`{"meter":"other","key":"a","value":"b"}`:          `no meter "other"`,
		`{"meter":"tap","key":"a b","value":"c"}`:          "words without blanks",
		`{"meter":"tap","key":"a","value":"on\nstop"}`:     "words without blanks",
		`{"meter":"tap","key":"a","value":""}`:             "words without blanks",
		`{"meter":"tap","key":"a","value":"b","more":"c"}`: "more",
	} {
		if code, text := ask(t, m, "POST", "/settings", body); code != 400 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
}
