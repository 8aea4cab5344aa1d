// SPDX-License-Identifier: GPL-3.0-or-later

package drivehealth

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"
)

func TestCommandHasTheKernelsLayout(t *testing.T) {
	// The size is part of the ioctl's number.
	if size := unsafe.Sizeof(nvmeAdminCmd{}); size != nvmeIoctlAdminCmd>>16&0x3fff {
		t.Errorf("struct of %d bytes", size)
	}
	if o := unsafe.Offsetof(nvmeAdminCmd{}.addr); o != 24 {
		t.Errorf("addr at %d", o)
	}
	if o := unsafe.Offsetof(nvmeAdminCmd{}.cdw10); o != 40 {
		t.Errorf("cdw10 at %d", o)
	}
}

func smartLog() []byte {
	log := make([]byte, 512)
	binary.LittleEndian.PutUint16(log[1:], 323)
	log[3], log[4], log[5] = 100, 10, 7
	binary.LittleEndian.PutUint64(log[32:], 1000)
	binary.LittleEndian.PutUint64(log[48:], 2000)
	binary.LittleEndian.PutUint64(log[64:], 11)
	binary.LittleEndian.PutUint64(log[80:], 12)
	binary.LittleEndian.PutUint64(log[112:], 13)
	binary.LittleEndian.PutUint64(log[128:], 14)
	binary.LittleEndian.PutUint64(log[144:], 15)
	binary.LittleEndian.PutUint64(log[160:], 16)
	return log
}

func TestSmartLog(t *testing.T) {
	h, err := parseSmartLog(smartLog())
	want := Health{
		TemperatureCelsius: 50, PercentageUsed: 7, DataUnitsReadBytes: 512_000_000, DataUnitsWrittenBytes: 1_024_000_000,
		MediaErrors: 16, UnsafeShutdowns: 15, PowerOnHours: 14,
		Has: Temperature | PercentageUsed | DataRead | DataWritten | MediaErrors | UnsafeShutdowns | PowerOnHours,
	}
	if err != nil || h != want {
		t.Errorf("%+v (%v), expected %+v", h, err, want)
	}
}

func TestSmartLogWithoutASensorHasNoTemperature(t *testing.T) {
	log := smartLog()
	log[1], log[2] = 0, 0
	if h, _ := parseSmartLog(log); h.Has&Temperature != 0 {
		t.Errorf("%v degrees", h.TemperatureCelsius)
	}
}

func TestCountersBeyondAnIntegerStayAtItsEnd(t *testing.T) {
	log := smartLog()
	log[48+8] = 1
	if h, _ := parseSmartLog(log); h.DataUnitsWrittenBytes != math.MaxInt64 {
		t.Errorf("%d bytes", h.DataUnitsWrittenBytes)
	}
}

func TestShortSmartLogIsAnError(t *testing.T) {
	if _, err := parseSmartLog(make([]byte, 100)); err == nil {
		t.Error("taken")
	}
}

func TestNVMeErrorNamesTheDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nvme0")
	if _, err := NVMe(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NVMe(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("not a device: %v", err)
	}
}

const ssd = `{"smartctl":{"exit_status":0},"logical_block_size":512,"temperature":{"current":31},"power_on_time":{"hours":123},
"ata_device_statistics":{"pages":[{"number":1,"table":[
{"name":"Logical Sectors Written","value":2000,"flags":{"valid":true}},
{"name":"Logical Sectors Read","value":1000,"flags":{"valid":false}}]},
{"number":4,"table":[{"name":"Number of Reported Uncorrectable Errors","value":2,"flags":{"valid":true}}]},
{"number":7,"table":[{"name":"Percentage Used Endurance Indicator","value":3,"flags":{"valid":true}}]}]}}`

// smartctl is a stand-in that prints output, notes its arguments and exits.
func smartctl(t *testing.T, output string, status int) (program, arguments string) {
	dir := t.TempDir()
	program, arguments = filepath.Join(dir, "smartctl"), filepath.Join(dir, "arguments")
	if err := os.WriteFile(filepath.Join(dir, "output"), []byte(output), 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" > %s\ncat %s/output\nexit %d\n", arguments, dir, status)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, arguments
}

func TestATA(t *testing.T) {
	program, arguments := smartctl(t, ssd, 0)
	h, err := ATA(context.Background(), program, "/dev/sda")
	want := Health{
		TemperatureCelsius: 31, PowerOnHours: 123, DataUnitsWrittenBytes: 1_024_000, MediaErrors: 2, PercentageUsed: 3,
		Has: Temperature | PowerOnHours | DataWritten | MediaErrors | PercentageUsed,
	}
	if err != nil || h != want {
		t.Errorf("%+v (%v), expected %+v", h, err, want)
	}
	got, _ := os.ReadFile(arguments)
	if want := "--json=c --device=sat --nocheck=standby,3,3 --info --attributes --log=devstat /dev/sda\n"; string(got) != want {
		t.Errorf("called with %q, expected %q", got, want)
	}
}

func TestATAStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		output string
		want   string // of the error; empty: none
	}{
		{4, ssd, ""},  // a log is missing
		{64, ssd, ""}, // the error log has entries
		{2, `{"smartctl":{"messages":[{"string":"open failed"}]}}`, "open failed"},
		{1, `{"smartctl":{"messages":[{"string":"bad option"}]}}`, "bad option"},
		{0, `{"smartctl":{}}`, "no health figures in its output"},
		{0, `smartctl 5.0`, "not JSON"},
	} {
		program, _ := smartctl(t, c.output, c.status)
		_, err := ATA(context.Background(), program, "/dev/sda")
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("status %d: %v, expected %q", c.status, err, c.want)
		}
	}
}

func TestASleepingDiskIsLeftAlone(t *testing.T) {
	program, _ := smartctl(t, `{}`, 3)
	if _, err := ATA(context.Background(), program, "/dev/sda"); !errors.Is(err, ErrAsleep) {
		t.Errorf("%v", err)
	}
}

func TestNoSmartctl(t *testing.T) {
	if _, err := ATA(context.Background(), filepath.Join(t.TempDir(), "none"), "/dev/sda"); err == nil {
		t.Error("no error without the program")
	}
}
