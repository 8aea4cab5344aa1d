// SPDX-License-Identifier: GPL-3.0-or-later

// Package drivehealth asks drives how they are: NVMe through the SMART / Health Information log,
// ATA through smartctl.
package drivehealth

// Health is what a drive reports of its health; Has says which figures there are.
type Health struct {
	TemperatureCelsius    float64
	PercentageUsed        float64
	DataUnitsReadBytes    int64
	DataUnitsWrittenBytes int64
	MediaErrors           int64
	UnsafeShutdowns       int64
	PowerOnHours          int64
	Has                   Fields
}

// Fields is a set of fields of Health.
type Fields uint8

// The fields of Health.
const (
	Temperature Fields = 1 << iota
	PercentageUsed
	DataRead
	DataWritten
	MediaErrors
	UnsafeShutdowns
	PowerOnHours
)
