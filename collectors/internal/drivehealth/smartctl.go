// SPDX-License-Identifier: GPL-3.0-or-later

package drivehealth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// ErrAsleep says that the drive sleeps, or may sleep, and was left alone.
var ErrAsleep = errors.New("the drive is in standby")

// asleepStatus is the exit code that smartctl is asked to use where the drive is in standby or
// cannot say. As smartctl's own bit mask it would be "bad command line" and "open failed" together,
// which cannot be.
const asleepStatus = 3

// ATA asks a SATA drive through smartctl (7.3 or later), without waking it.
//
// Bytes written and read and the percentage used come from the ATA Device Statistics log (ACS-4
// 9.5), which the standard defines; the vendor-specific attributes, whose units differ between
// manufacturers, are not used.
func ATA(ctx context.Context, smartctl, devicePath string) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	// The device type is given because finding it out can spin a disk up.
	cmd := exec.CommandContext(ctx, smartctl, "--json=c", "--device=sat", fmt.Sprintf("--nocheck=standby,%d,%d", asleepStatus, asleepStatus),
		"--info", "--attributes", "--log=devstat", devicePath)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Health{}, fmt.Errorf("run smartctl: %w", err)
	}
	status := cmd.ProcessState.ExitCode()
	if status == asleepStatus {
		return Health{}, ErrAsleep
	}
	h, message, err := parseSmartctl(out)
	// Bits 0 and 1: nothing was asked. The higher bits say what is wrong with the drive, or that it
	// lacks one of the logs: the rest is good.
	if status < 0 || status&3 != 0 {
		return Health{}, fmt.Errorf("smartctl %s: exit status %d: %s", devicePath, status, message)
	}
	if err != nil {
		return Health{}, fmt.Errorf("smartctl %s: %w", devicePath, err)
	}
	return h, nil
}

type smartctlReport struct {
	Smartctl struct {
		Messages []struct {
			String string `json:"string"`
		} `json:"messages"`
	} `json:"smartctl"`
	LogicalBlockSize int64 `json:"logical_block_size"`
	Temperature      struct {
		Current *float64 `json:"current"`
	} `json:"temperature"`
	PowerOnTime struct {
		Hours *int64 `json:"hours"`
	} `json:"power_on_time"`
	DeviceStatistics struct {
		Pages []struct {
			Table []struct {
				Name  string `json:"name"`
				Value int64  `json:"value"`
				Flags struct {
					Valid bool `json:"valid"`
				} `json:"flags"`
			} `json:"table"`
		} `json:"pages"`
	} `json:"ata_device_statistics"`
}

func parseSmartctl(out []byte) (h Health, message string, err error) {
	var r smartctlReport
	if err := json.Unmarshal(out, &r); err != nil {
		return h, "no JSON", fmt.Errorf("its output is not JSON: %w", err)
	}
	message = "no message"
	if len(r.Smartctl.Messages) > 0 {
		message = r.Smartctl.Messages[0].String
	}
	if r.Temperature.Current != nil {
		h.TemperatureCelsius, h.Has = *r.Temperature.Current, h.Has|Temperature
	}
	if r.PowerOnTime.Hours != nil {
		h.PowerOnHours, h.Has = *r.PowerOnTime.Hours, h.Has|PowerOnHours
	}
	sector := r.LogicalBlockSize
	for _, page := range r.DeviceStatistics.Pages {
		for _, s := range page.Table {
			if !s.Flags.Valid {
				continue
			}
			switch s.Name {
			case "Logical Sectors Written":
				if sector > 0 {
					h.DataUnitsWrittenBytes, h.Has = s.Value*sector, h.Has|DataWritten
				}
			case "Logical Sectors Read":
				if sector > 0 {
					h.DataUnitsReadBytes, h.Has = s.Value*sector, h.Has|DataRead
				}
			case "Percentage Used Endurance Indicator":
				h.PercentageUsed, h.Has = float64(s.Value), h.Has|PercentageUsed
			case "Number of Reported Uncorrectable Errors":
				h.MediaErrors, h.Has = s.Value, h.Has|MediaErrors
			}
		}
	}
	if h.Has == 0 {
		return h, message, fmt.Errorf("no health figures in its output (%s)", message)
	}
	return h, message, nil
}
