// SPDX-License-Identifier: GPL-3.0-or-later

// Package influx is the one writer of points: it puts every line in a spool on disk before it sends
// it to InfluxDB (1.x, 2.x or 3.x through the 1.x /write call).
package influx

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config is the "influx" object of a collector's configuration file. The caller's JSON decoder is
// to refuse unknown keys.
type Config struct {
	URL      string `json:"url"`      // http://host:port or https://...
	Database string `json:"database"` // on 2.x the bucket mapped to this name
	Username string `json:"username"` // HTTP Basic; empty: no authentication
	// PasswordFile holds the password (2.x, 3.x: the token), read at Open and again whenever the
	// server refuses it, so that it can be replaced while the collector runs.
	PasswordFile         string  `json:"password_file"`
	SpoolDir             string  `json:"spool_dir"`
	MaxSpoolBytes        int64   `json:"max_spool_bytes"`        // 0: DefaultMaxSpoolBytes
	FlushIntervalSeconds float64 `json:"flush_interval_seconds"` // 0: DefaultFlushIntervalSeconds
}

// Defaults and limits of Config.
const (
	// An hour of 8 rails at 100 points a second is 1.3 GB.
	DefaultMaxSpoolBytes        = 4 << 30
	MinSpoolBytes               = 64 << 10
	DefaultFlushIntervalSeconds = 1.0
	MinFlushIntervalSeconds     = 0.05
	MaxFlushIntervalSeconds     = 60
)

// check fills the defaults in and says in one line what is wrong.
func (c *Config) check() error {
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return fmt.Errorf("influx.url: %q: expected http://HOST:PORT or https://HOST:PORT", c.URL)
	}
	if u.User != nil {
		return fmt.Errorf("influx.url: must not hold credentials: use influx.username and influx.password_file")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("influx.url: %q: expected no query and no fragment", c.URL)
	}
	if c.Database == "" {
		return fmt.Errorf("influx.database: empty: expected the name of a database")
	}
	if c.SpoolDir == "" {
		return fmt.Errorf("influx.spool_dir: empty: expected a directory")
	}
	if c.Username == "" && c.PasswordFile != "" {
		return fmt.Errorf("influx.username: empty although influx.password_file is given: expected a user (any name where the password is a token)")
	}
	if c.Username != "" && c.PasswordFile == "" {
		return fmt.Errorf("influx.password_file: empty although influx.username is given: expected a file")
	}
	if c.MaxSpoolBytes == 0 {
		c.MaxSpoolBytes = DefaultMaxSpoolBytes
	}
	if c.MaxSpoolBytes < MinSpoolBytes {
		return fmt.Errorf("influx.max_spool_bytes: %d: expected at least %d", c.MaxSpoolBytes, MinSpoolBytes)
	}
	if c.FlushIntervalSeconds == 0 {
		c.FlushIntervalSeconds = DefaultFlushIntervalSeconds
	}
	if !(c.FlushIntervalSeconds >= MinFlushIntervalSeconds && c.FlushIntervalSeconds <= MaxFlushIntervalSeconds) {
		return fmt.Errorf("influx.flush_interval_seconds: %v: expected %v to %v",
			c.FlushIntervalSeconds, MinFlushIntervalSeconds, MaxFlushIntervalSeconds)
	}
	return nil
}

func (c *Config) flushInterval() time.Duration {
	return time.Duration(c.FlushIntervalSeconds * float64(time.Second))
}

// password reads the secret; a trailing line end is not part of it.
func (c *Config) password() (string, error) {
	if c.PasswordFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("influx.password_file: %w", err)
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("influx.password_file: %s: empty: expected a password or token", c.PasswordFile)
	}
	return secret, nil
}
