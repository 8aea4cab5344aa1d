// SPDX-License-Identifier: GPL-3.0-or-later

package drivehealth

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
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

func TestPowerOfTheSmartLog(t *testing.T) {
	log := smartLog()
	binary.LittleEndian.PutUint64(log[232:], 812)
	binary.LittleEndian.PutUint32(log[240:], 1<<16|12500)
	var h Health
	parseSmartPower(log, &h)
	want := Health{LifetimeWattHours: 812, ReportedWatts: 1.25, Has: LifetimeEnergy | ReportedPower}
	if h != want {
		t.Errorf("%+v, expected %+v", h, want)
	}
	h = Health{}
	if parseSmartPower(smartLog(), &h); h != (Health{}) {
		t.Errorf("%+v of a drive that reports no power", h)
	}
}

func TestPowerLog(t *testing.T) {
	log := make([]byte, 64)
	binary.LittleEndian.PutUint32(log[8:], 30)
	binary.LittleEndian.PutUint32(log[40:], 2<<16|825)
	log[56] = 3
	var h Health
	parsePowerLog(log, &h)
	want := Health{MeasuredWatts: 8.25, MeasuredSeconds: 30, StatedErrorPercent: 3, Has: MeasuredPower | StatedError}
	if h != want {
		t.Errorf("%+v, expected %+v", h, want)
	}
	log[56] = 255
	h = Health{}
	if parsePowerLog(log, &h); h.Has != MeasuredPower {
		t.Errorf("%+v of a drive that states no error", h)
	}
	binary.LittleEndian.PutUint32(log[8:], 0)
	h = Health{}
	if parsePowerLog(log, &h); h.Has != 0 {
		t.Errorf("%+v of a drive that has measured nothing", h)
	}
}

func TestOCPLog(t *testing.T) {
	log := make([]byte, 512)
	binary.LittleEndian.PutUint64(log, 1<<20)
	binary.LittleEndian.PutUint16(log[128:], 98)
	var h Health
	parseOCPLog(log, &h)
	if want := (Health{NANDBytesWritten: 1 << 20, CapacitorPercent: 98, Has: NANDWritten | Capacitor}); h != want {
		t.Errorf("%+v, expected %+v", h, want)
	}
	binary.LittleEndian.PutUint16(log[128:], 0xffff)
	h = Health{}
	if parseOCPLog(log, &h); h.Has != NANDWritten {
		t.Errorf("%+v of a drive without capacitors", h)
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

// TestCaptures reads what smartctl of many versions printed: tests/fixtures/captures has it.
func TestCaptures(t *testing.T) {
	content, err := os.ReadFile("../../../tests/fixtures/captures/smartctl.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	column := map[string]int{}
	for i, name := range strings.Split(lines[0], "\t") {
		column[name] = i
	}
	read, refused := 0, 0
	for _, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		fact := func(name string) string { return fields[column[name]] }
		if fact("version") == "6.6" || fact("type") == "nvme" { // without JSON; not asked by smartctl
			continue
		}
		report := map[string]any{"smartctl": map[string]any{"messages": []any{map[string]any{"string": fact("message")}}}}
		want := Health{}
		number := func(name string, field Fields) float64 {
			if fact(name) == "" {
				return 0
			}
			want.Has |= field
			value, err := strconv.ParseFloat(fact(name), 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return value
		}
		if want.TemperatureCelsius = number("celsius", Temperature); want.Has&Temperature != 0 {
			report["temperature"] = map[string]any{"current": want.TemperatureCelsius}
		}
		if want.PowerOnHours = int64(number("hours", PowerOnHours)); want.Has&PowerOnHours != 0 {
			report["power_on_time"] = map[string]any{"hours": want.PowerOnHours}
		}
		block := number("block", 0)
		report["logical_block_size"] = block
		written, sectors := number("sectors_written", DataWritten), number("sectors_read", DataRead)
		want.DataUnitsWrittenBytes, want.DataUnitsReadBytes = int64(written*block), int64(sectors*block)
		if want.Has&DataWritten != 0 {
			valid := map[string]any{"valid": true}
			report["ata_device_statistics"] = map[string]any{"pages": []any{map[string]any{"table": []any{
				map[string]any{"name": "Logical Sectors Written", "value": written, "flags": valid},
				map[string]any{"name": "Logical Sectors Read", "value": sectors, "flags": valid},
			}}}}
		}
		output, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		h, message, err := parseSmartctl(output)
		switch {
		case want.Has == 0 && (err == nil || !strings.Contains(err.Error(), fact("message"))):
			t.Errorf("%s: %v, expected no figures and %q", fact("source"), err, fact("message"))
		case want.Has != 0 && (err != nil || h != want):
			t.Errorf("%s: %+v (%v, %s), expected %+v", fact("source"), h, err, message, want)
		case want.Has == 0:
			refused++
		default:
			read++
		}
	}
	if read < 100 || refused == 0 {
		t.Errorf("%d captures read, %d refused", read, refused)
	}
}
