// SPDX-License-Identifier: GPL-3.0-or-later

//go:build !cgo

package energy

import "math"

func sum(volts, amps []float32, scale *Scale) sums { return sumPlain(volts, amps, scale) }

func reaches(samples []float32, limit float32) bool {
	return limit <= math.MaxFloat32 && reachesPlain(samples, limit)
}
