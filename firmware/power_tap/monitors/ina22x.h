/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Texas Instruments INA228 (I2C) and INA229 (SPI): 20-bit power monitors. They
 * have no switch. The data sheets (SLYS021, SLYS022) agree on everything but
 * the bus.
 */
#ifndef JOULERIG_INA22X_H
#define JOULERIG_INA22X_H

#include "bus.h"
#include "monitor.h"

struct ina22x_settings {
	uint8_t address; /* INA228: I2C address; INA229: which chip select */
	float shunt_ohms;
	/* 40.96 mV across the shunt at full scale, else 163.84 mV. */
	bool narrow_amps;
	/* Conversion time of volts and of amps, each: 0 to 7 for 50, 84, 150,
	 * 280, 540, 1052, 2074, 4120 us. */
	uint8_t conversion_time;
	/* Conversions averaged: 0 to 7 for 1, 4, 16, 64, 128, 256, 512, 1024. */
	uint8_t averages;
};

struct ina22x {
	struct monitor monitor;
	bool is_spi;
	const struct i2c_bus *i2c;
	const struct spi_bus *spi;
	uint8_t address;
	float amps_step;
};

/* Find the chip, reset it, set its ranges and start its conversions. The
 * monitor can be used when they give MONITOR_OK; a reading then gives
 * MONITOR_OLD_VALUE as long as no conversion has ended since the one before. */
enum monitor_status ina228_start(struct ina22x *chip, const struct i2c_bus *bus,
				 const struct ina22x_settings *settings);
enum monitor_status ina229_start(struct ina22x *chip, const struct spi_bus *bus,
				 const struct ina22x_settings *settings);

#endif
