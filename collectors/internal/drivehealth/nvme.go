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
	identify          = 0x06
	smartLogID        = 0x02
	smartLogBytes     = 512
	allNamespaces     = 0xFFFFFFFF

	identifiesController = 1 // what Identify is asked for
)

// NVMe reads the SMART / Health Information log (NVM Express base specification 2.0, 5.16.1.3) of a
// controller, /dev/nvmeN, and what it reports of its power. Needs CAP_SYS_ADMIN.
func NVMe(controllerPath string) (Health, error) {
	f, err := os.OpenFile(controllerPath, os.O_RDONLY, 0)
	if err != nil {
		return Health{}, err
	}
	defer f.Close()
	log, err := logPage(f, smartLogID, smartLogBytes)
	if err != nil {
		return Health{}, fmt.Errorf("read the SMART log of %s: %w", controllerPath, err)
	}
	h, err := parseSmartLog(log)
	if err != nil {
		return Health{}, err
	}
	if err := readPower(f, log, &h); err != nil {
		return Health{}, fmt.Errorf("read what %s reports of its power: %w", controllerPath, err)
	}
	return h, nil
}

// statusError is a controller's refusal.
type statusError uintptr

func (s statusError) Error() string { return fmt.Sprintf("NVMe status 0x%x", uintptr(s)) }

func logPage(f *os.File, id, size uint32) ([]byte, error) {
	return admin(f, nvmeAdminCmd{opcode: getLogPage, nsid: allNamespaces, cdw10: (size/4-1)<<16 | id}, size)
}

func identifyController(f *os.File) ([]byte, error) {
	return admin(f, nvmeAdminCmd{opcode: identify, cdw10: identifiesController}, identifyBytes)
}

// admin sends a command that reads size bytes.
func admin(f *os.File, cmd nvmeAdminCmd, size uint32) ([]byte, error) {
	data := make([]byte, size)
	cmd.addr, cmd.dataLen, cmd.timeoutMs = uint64(uintptr(unsafe.Pointer(&data[0]))), size, 5000
	status, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), nvmeIoctlAdminCmd, uintptr(unsafe.Pointer(&cmd)))
	runtime.KeepAlive(data)
	switch {
	case errno != 0:
		return nil, errno
	case status != 0:
		return nil, statusError(status)
	}
	return data, nil
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
