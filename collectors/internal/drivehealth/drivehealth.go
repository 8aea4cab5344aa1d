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
	LifetimeWattHours     int64   // energy since it was new, by its own count
	ReportedWatts         float64 // of the last second, by its own measurement
	MeasuredWatts         float64 // mean of the measurement that a host started
	MeasuredSeconds       int64
	StatedErrorPercent    float64 // of its power, as it states it
	NANDBytesWritten      int64
	CapacitorPercent      float64 // health of the capacitors of its power-loss protection
	Has                   Fields
}

// Fields is a set of fields of Health.
type Fields uint16

// The fields of Health.
const (
	Temperature Fields = 1 << iota
	PercentageUsed
	DataRead
	DataWritten
	MediaErrors
	UnsafeShutdowns
	PowerOnHours
	LifetimeEnergy
	ReportedPower
	MeasuredPower
	StatedError
	NANDWritten
	Capacitor
)
