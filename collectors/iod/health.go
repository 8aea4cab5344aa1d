// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"joulerig/collectors/internal/drivehealth"
	"joulerig/collectors/internal/drives"
	"joulerig/collectors/lineprotocol"
)

// watchHealth asks the drives of one kind at a slow interval, apart from the sampling: a drive may
// take its time to answer.
func (a *agent) watchHealth(ctx context.Context, interval time.Duration,
	ask func(context.Context, *drives.Found) (h drivehealth.Health, applies bool, err error)) {
	defer a.workers.Done()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var e lineprotocol.Encoder
	for {
		e.Reset()
		for i, f := range *a.found.Load() {
			h, applies, err := ask(ctx, &f)
			if !applies || ctx.Err() != nil {
				continue
			}
			subject := "health of " + f.Name
			switch {
			case errors.Is(err, drivehealth.ErrAsleep):
				continue
			case err != nil:
				a.report.trouble(subject, err.Error())
				continue
			}
			a.report.well(subject)
			encodeHealth(&e, a.drives[i].healthKey, &h, time.Now().UnixNano())
		}
		a.spool(e.Bytes())
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *agent) askNVMe(_ context.Context, f *drives.Found) (drivehealth.Health, bool, error) {
	if f.Controller == "" {
		return drivehealth.Health{}, false, nil
	}
	h, err := drivehealth.NVMe(filepath.Join(a.config.DevRoot, f.Controller))
	return h, true, err
}

func (a *agent) askATA(ctx context.Context, f *drives.Found) (drivehealth.Health, bool, error) {
	if f.Interface != "ata" || f.KernelDevice == "" {
		return drivehealth.Health{}, false, nil
	}
	h, err := drivehealth.ATA(ctx, a.config.Smartctl, filepath.Join(a.config.DevRoot, f.KernelDevice))
	return h, true, err
}

func encodeHealth(e *lineprotocol.Encoder, key []byte, h *drivehealth.Health, realtimeNs int64) {
	e.BeginKey(key)
	if h.Has&drivehealth.Temperature != 0 {
		e.Float("temperature_celsius", h.TemperatureCelsius)
	}
	if h.Has&drivehealth.PercentageUsed != 0 {
		e.Float("percentage_used", h.PercentageUsed)
	}
	if h.Has&drivehealth.DataRead != 0 {
		e.Int("data_units_read_bytes", h.DataUnitsReadBytes)
	}
	if h.Has&drivehealth.DataWritten != 0 {
		e.Int("data_units_written_bytes", h.DataUnitsWrittenBytes)
	}
	if h.Has&drivehealth.MediaErrors != 0 {
		e.Int("media_errors", h.MediaErrors)
	}
	if h.Has&drivehealth.UnsafeShutdowns != 0 {
		e.Int("unsafe_shutdowns", h.UnsafeShutdowns)
	}
	if h.Has&drivehealth.PowerOnHours != 0 {
		e.Int("power_on_hours", h.PowerOnHours)
	}
	if h.Has&drivehealth.LifetimeEnergy != 0 {
		e.Float("lifetime_joules", 3600*float64(h.LifetimeWattHours))
	}
	if h.Has&drivehealth.ReportedPower != 0 {
		e.Float("reported_watts", h.ReportedWatts)
	}
	if h.Has&drivehealth.MeasuredPower != 0 {
		e.Float("measured_watts", h.MeasuredWatts)
		e.Int("measurement_seconds", h.MeasuredSeconds)
	}
	if h.Has&drivehealth.StatedError != 0 {
		e.Float("stated_error_percent", h.StatedErrorPercent)
	}
	if h.Has&drivehealth.NANDWritten != 0 {
		e.Int("nand_bytes_written", h.NANDBytesWritten)
	}
	if h.Has&drivehealth.Capacitor != 0 {
		e.Float("capacitor_percent", h.CapacitorPercent)
	}
	e.End(realtimeNs)
}
