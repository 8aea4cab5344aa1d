// SPDX-License-Identifier: GPL-3.0-or-later

package drivehealth

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// nvmeAdminCmd is struct nvme_passthru_cmd of linux/nvme_ioctl.h.
type nvmeAdminCmd struct {
	opcode      uint8
	flags       uint8
	rsvd1       uint16
	nsid        uint32
	cdw2, cdw3  uint32
	metadata    uint64
	addr        uint64
	metadataLen uint32
	dataLen     uint32
	cdw10       uint32
	cdw11       uint32
	cdw12       uint32
	cdw13       uint32
	cdw14       uint32
	cdw15       uint32
	timeoutMs   uint32
	result      uint32
}

const (
	nvmeIoctlAdminCmd = 0xC0484E41 // _IOWR('N', 0x41, struct nvme_passthru_cmd)
	getLogPage        = 0x02
	smartLogID        = 0x02
	smartLogBytes     = 512
	allNamespaces     = 0xFFFFFFFF
)

// NVMe reads the SMART / Health Information log (NVM Express base specification 2.0, 5.16.1.3) of a
// controller, /dev/nvmeN. Needs CAP_SYS_ADMIN.
func NVMe(controllerPath string) (Health, error) {
	f, err := os.OpenFile(controllerPath, os.O_RDONLY, 0)
	if err != nil {
		return Health{}, err
	}
	defer f.Close()
	log := make([]byte, smartLogBytes)
	cmd := nvmeAdminCmd{
		opcode:    getLogPage,
		nsid:      allNamespaces,
		addr:      uint64(uintptr(unsafe.Pointer(&log[0]))),
		dataLen:   smartLogBytes,
		cdw10:     (smartLogBytes/4-1)<<16 | smartLogID,
		timeoutMs: 5000,
	}
	status, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), nvmeIoctlAdminCmd, uintptr(unsafe.Pointer(&cmd)))
	runtime.KeepAlive(log)
	switch {
	case errno != 0:
		return Health{}, fmt.Errorf("read the SMART log of %s: %w", controllerPath, errno)
	case status != 0:
		return Health{}, fmt.Errorf("read the SMART log of %s: NVMe status 0x%x", controllerPath, status)
	}
	return parseSmartLog(log)
}

func parseSmartLog(log []byte) (Health, error) {
	if len(log) < smartLogBytes {
		return Health{}, errors.New("the SMART log is short")
	}
	h := Health{
		PercentageUsed:        float64(log[5]),
		DataUnitsReadBytes:    count128(log[32:], 512000), // a data unit is 1000 x 512 bytes
		DataUnitsWrittenBytes: count128(log[48:], 512000),
		PowerOnHours:          count128(log[128:], 1),
		UnsafeShutdowns:       count128(log[144:], 1),
		MediaErrors:           count128(log[160:], 1),
		Has:                   PercentageUsed | DataRead | DataWritten | PowerOnHours | UnsafeShutdowns | MediaErrors,
	}
	// 0 kelvin is what controllers without a sensor report.
	if kelvin := binary.LittleEndian.Uint16(log[1:]); kelvin != 0 {
		h.TemperatureCelsius = float64(int(kelvin) - 273)
		h.Has |= Temperature
	}
	return h, nil
}

// count128 reads a 128-bit counter in units; what an int64 cannot hold stays at its largest value
// rather than wrapping.
func count128(b []byte, unit int64) int64 {
	low, high := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if high != 0 || low > uint64(math.MaxInt64/unit) {
		return math.MaxInt64
	}
	return int64(low) * unit
}
