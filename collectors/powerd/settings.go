// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"joulerig/collectors/internal/strictjson"
)

// How long an instrument may take to change a setting.
const settingGrace = 10 * time.Second

// settingRequest asks for a change of an instrument's setting, such as "2.enabled" to "off".
type settingRequest struct {
	Meter string `json:"meter"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// What srcap takes as a word of its line of commands.
var settingWord = regexp.MustCompile(`^[!-~]{1,100}$`)

// set changes a setting of the instrument while it is captured, and returns once it has answered.
func (m *Meter) set(key, value string) error {
	m.setting.Lock()
	defer m.setting.Unlock()
	answer := make(chan error, 1)
	if err := m.ask(answer, key, value); err != nil {
		return err
	}
	timer := time.NewTimer(settingGrace)
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-timer.C:
	}
	m.giveUpSetting()
	return fmt.Errorf("meter %s: no answer to %s=%s within %v", m.config.Name, key, value, settingGrace)
}

// ask sends the capture under way the command, whose answer goes to `answer`.
func (m *Meter) ask(answer chan<- error, key, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.commands == nil || m.state != Streaming {
		return fmt.Errorf("meter %s is %s: %s", m.config.Name, m.state, m.reason)
	}
	if _, err := fmt.Fprintf(m.commands, "set %s %s\n", key, value); err != nil {
		return fmt.Errorf("meter %s: %w", m.config.Name, err)
	}
	m.settingAnswer, m.settingAsked = answer, key+" "+value
	return nil
}

// giveUpSetting waits for no answer any more.
func (m *Meter) giveUpSetting() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settingAnswer, m.settingAsked = nil, ""
}

// answerSetting passes on what became of a setting, where it is waited for.
func (m *Meter) answerSetting(err error) {
	if m.settingAnswer != nil {
		m.settingAnswer <- err
		m.settingAnswer = nil
	}
}

// settings serves POST /settings.
func settings(mux *http.ServeMux, meters []*Meter) {
	mux.HandleFunc("POST /settings", func(w http.ResponseWriter, request *http.Request) {
		var r settingRequest
		err := strictjson.Decode(http.MaxBytesReader(w, request.Body, 1<<16), &r)
		if err == nil && !(settingWord.MatchString(r.Key) && settingWord.MatchString(r.Value)) {
			err = fmt.Errorf("key %q, value %q: allowed are words without blanks", r.Key, r.Value)
		}
		var m *Meter
		if err == nil {
			m, err = find(meters, r.Meter)
		}
		if err == nil {
			err = m.set(r.Key, r.Value)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r)
	})
}

// find returns the meter of a name.
func find(meters []*Meter, name string) (*Meter, error) {
	for _, m := range meters {
		if m.config.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no meter %q", name)
}
