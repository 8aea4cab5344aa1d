// SPDX-License-Identifier: GPL-3.0-or-later

//go:build cgo

package energy

// #cgo CFLAGS: -O2 -Wall -Wextra -Werror
// #cgo noescape energy_sums
// #cgo nocallback energy_sums
// #cgo noescape energy_reaches
// #cgo nocallback energy_reaches
// #include "kernel.h"
import "C"

import (
	"math"
	"unsafe"
)

// Below this many samples a call into C costs more than it saves.
const worthACall = 64

// sum adds up a stretch of samples. volts and amps are of the same length.
func sum(volts, amps []float32, scale *Scale) sums {
	if len(volts) < worthACall {
		return sumPlain(volts, amps, scale)
	}
	amps = amps[:len(volts)]
	c := C.struct_energy_scale{C.double(scale.VoltsGain), C.double(scale.VoltsOffset), C.double(scale.AmpsGain), C.double(scale.AmpsOffset)}
	var s C.struct_energy_sums
	C.energy_sums((*C.float)(unsafe.SliceData(volts)), (*C.float)(unsafe.SliceData(amps)), C.size_t(len(volts)), &c, &s)
	return sums{float64(s.volts), float64(s.amps), float64(s.watts), float64(s.min), float64(s.max)}
}

// reaches says whether the magnitude of a sample is limit or more; no infinite limit is reached.
func reaches(samples []float32, limit float32) bool {
	if limit > math.MaxFloat32 {
		return false
	}
	if len(samples) < worthACall {
		return reachesPlain(samples, limit)
	}
	return C.energy_reaches((*C.float)(unsafe.SliceData(samples)), C.size_t(len(samples)), C.float(limit)) != 0
}
