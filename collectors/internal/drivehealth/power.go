// SPDX-License-Identifier: GPL-3.0-or-later

package drivehealth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"sync"
)

const (
	powerLogID       = 0x25
	powerLogBytes    = 64 // without the histogram
	ocpLogID         = 0xC0
	ocpLogBytes      = 512
	identifyBytes    = 4096
	measuresPower    = 1 << 21 // of the controller's attributes
	errorNotStated   = 255
	noCapacitors     = 0xFFFF
	lifetimeOffset   = 232
	lastSecondOffset = 240
)

// ocpGUID ends the extended health log of OCP's Datacenter NVMe SSD specification.
var ocpGUID = []byte{0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5, 0xaf}

// withoutOCP holds the controllers that refused OCP's log: each refusal is an entry of the drive's
// own error log, so that they are asked once.
var withoutOCP sync.Map

// readPower adds what a controller reports of its power (NVM Express base specification 2.1 and
// later) and in OCP's extended health log. A drive that reports none of it has none of the fields.
func readPower(f *os.File, smart []byte, h *Health) error {
	var refused statusError
	parseSmartPower(smart, h)
	identity, err := identifyController(f)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(identity[96:])&measuresPower != 0 {
		log, err := logPage(f, powerLogID, powerLogBytes)
		if err == nil {
			parsePowerLog(log, h)
		} else if !errors.As(err, &refused) {
			return err
		}
	}
	serial := string(bytes.TrimSpace(identity[4:24]))
	if _, without := withoutOCP.Load(serial); without {
		return nil
	}
	log, err := logPage(f, ocpLogID, ocpLogBytes)
	switch {
	case errors.As(err, &refused) || err == nil && !bytes.Equal(log[496:512], ocpGUID):
		withoutOCP.Store(serial, true)
		return nil
	case err != nil:
		return err
	}
	parseOCPLog(log, h)
	return nil
}

func parseSmartPower(log []byte, h *Health) {
	if hours := binary.LittleEndian.Uint64(log[lifetimeOffset:]); hours != 0 && hours < 1<<63 {
		h.LifetimeWattHours = int64(hours)
		h.Has |= LifetimeEnergy
	}
	if watts, ok := power(log[lastSecondOffset:]); ok {
		h.ReportedWatts = watts
		h.Has |= ReportedPower
	}
}

func parsePowerLog(log []byte, h *Health) {
	seconds := binary.LittleEndian.Uint32(log[8:])
	watts, ok := power(log[40:])
	if seconds == 0 || !ok {
		return
	}
	h.MeasuredSeconds, h.MeasuredWatts = int64(seconds), watts
	h.Has |= MeasuredPower
	if log[56] != errorNotStated {
		h.StatedErrorPercent = float64(log[56])
		h.Has |= StatedError
	}
}

func parseOCPLog(log []byte, h *Health) {
	h.NANDBytesWritten = count128(log, 1)
	h.Has |= NANDWritten
	if percent := binary.LittleEndian.Uint16(log[128:]); percent != noCapacitors {
		h.CapacitorPercent = float64(percent)
		h.Has |= Capacitor
	}
}

// power reads watts as NVMe has them: a number and its unit, 0.1 mW or 10 mW.
func power(field []byte) (watts float64, ok bool) {
	number := float64(binary.LittleEndian.Uint16(field))
	switch binary.LittleEndian.Uint16(field[2:]) & 0x7 {
	case 1:
		return number * 1e-4, true
	case 2:
		return number * 1e-2, true
	}
	return 0, false
}
