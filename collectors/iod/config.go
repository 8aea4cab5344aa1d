// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"joulerig/collectors/internal/drives"
	"joulerig/collectors/internal/influx"
	"joulerig/collectors/internal/strictjson"
)

// config is the file that --config names. defaultFlushIntervalSeconds is longer than the writer's
// own: each sending costs the measured host CPU time, and only a live view is in a hurry.
const defaultFlushIntervalSeconds = 2

// defaultMaxSpoolBytes is less than the writer's own: the disk is a test host's, and this is ten
// hours there.
const defaultMaxSpoolBytes = 1 << 30

type config struct {
	Host            string  `json:"host"`             // tag of every point
	IntervalSeconds float64 `json:"interval_seconds"` // block layer and journals
	// CPU, memory and RAPL: /proc/stat costs a server with many interrupts more than all the rest.
	HostloadIntervalSeconds float64 `json:"hostload_interval_seconds"`
	HealthIntervalSeconds   float64 `json:"health_interval_seconds"` // NVMe log; 0: off
	// Smartctl is the program that SATA drives are asked with; empty: they are not.
	Smartctl                string          `json:"smartctl"`
	SmartctlIntervalSeconds float64         `json:"smartctl_interval_seconds"`
	SpoolDir                string          `json:"spool_dir"`
	Socket                  string          `json:"socket"` // empty: none
	Influx                  influx.Config   `json:"influx"`
	Drives                  []drives.Wanted `json:"drives"`
	ProcRoot                string          `json:"proc_root"`
	SysRoot                 string          `json:"sys_root"`
	DevRoot                 string          `json:"dev_root"`
}

func readConfig(path string) (*config, error) {
	c := &config{
		IntervalSeconds:         0.1,
		HostloadIntervalSeconds: 1,
		HealthIntervalSeconds:   10,
		SmartctlIntervalSeconds: 60,
		ProcRoot:                "/proc",
		SysRoot:                 "/sys",
		DevRoot:                 "/dev",
	}
	if err := strictjson.ReadFile(path, c); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *config) check() error {
	if c.Host == "" {
		return errors.New("host: empty: expected the host's name in the lab")
	}
	for _, limit := range []struct {
		key           string
		value         float64
		low, high     float64
		zeroSwitchOff bool
	}{
		{"interval_seconds", c.IntervalSeconds, 0.01, 60, false},
		{"hostload_interval_seconds", c.HostloadIntervalSeconds, 0.01, 60, false},
		{"health_interval_seconds", c.HealthIntervalSeconds, 1, 86400, true},
		{"smartctl_interval_seconds", c.SmartctlIntervalSeconds, 10, 86400, false},
	} {
		if limit.zeroSwitchOff && limit.value == 0 {
			continue
		}
		if !(limit.value >= limit.low && limit.value <= limit.high) {
			or := ""
			if limit.zeroSwitchOff {
				or = ", or 0 for never"
			}
			return fmt.Errorf("%s: %v: expected %v to %v%s", limit.key, limit.value, limit.low, limit.high, or)
		}
	}
	switch {
	case c.Influx.SpoolDir == "":
		c.Influx.SpoolDir = c.SpoolDir
	case c.SpoolDir != "":
		return errors.New("influx.spool_dir: given in addition to spool_dir: expected one of the two")
	}
	if c.Influx.FlushIntervalSeconds == 0 {
		c.Influx.FlushIntervalSeconds = defaultFlushIntervalSeconds
	}
	if c.Influx.MaxSpoolBytes == 0 {
		c.Influx.MaxSpoolBytes = defaultMaxSpoolBytes
	}
	if c.Influx.SpoolDir == "" {
		return errors.New("spool_dir: empty: expected a directory")
	}
	// sockaddr_un has room for 108 bytes, the last one 0.
	if len(c.Socket) > 107 {
		return fmt.Errorf("socket: %d bytes: expected a path of at most 107", len(c.Socket))
	}
	if len(c.Drives) == 0 {
		return errors.New("drives: empty: expected at least one drive")
	}
	seen := map[string]bool{}
	for i := range c.Drives {
		d := &c.Drives[i]
		if err := d.Check(); err != nil {
			return fmt.Errorf("drives[%d]: %w", i, err)
		}
		if seen[d.Name] {
			return fmt.Errorf("drives[%d].name: %s: given twice: expected a different name for each drive", i, d.Name)
		}
		seen[d.Name] = true
		d.Serial = strings.TrimSpace(d.Serial)
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (c *config) roots() drives.Roots { return drives.Roots{Sys: c.SysRoot, Dev: c.DevRoot} }
