/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Analog Devices ADM1272, ADM1275, ADM1276, ADM1278: hot-swap controllers with
 * a power monitor, over PMBus. They measure the current through a shunt, the
 * volts behind their MOSFET, and are the rail's switch.
 *
 * The chip converts by its own clock and averages over a number of conversions:
 * what is read is its newest average, not the mean over the reader's window.
 */
#ifndef JOULERIG_ADM127X_H
#define JOULERIG_ADM127X_H

#include "bus.h"
#include "monitor.h"

enum adm127x_model { ADM1272, ADM1275, ADM1276, ADM1278 };

struct adm127x_settings {
	enum adm127x_model model;
	uint8_t address;
	float shunt_ohms;
	/* The wider of the two volts ranges: ADM1272 100 V, else 60 V; ADM1275
	 * and ADM1276 20 V, else 6 V. The ADM1278 has one, 20 V: must be set. */
	bool wide_volts;
	/* ADM1272 only: 30 mV across the shunt at full scale, else 15 mV. */
	bool wide_amps;
	/* The chip averages 2^averages conversions, 0 to 7. */
	uint8_t averages;
};

struct adm127x {
	struct monitor monitor;
	const struct i2c_bus *bus;
	uint8_t address;
	/* value = code * step + zero */
	float volts_step, volts_zero;
	float amps_step, amps_zero;
};

/* Finds the chip, sets its ranges and starts its conversions. The switch stays
 * as it is. The monitor can be used when this gives MONITOR_OK. */
enum monitor_status adm127x_start(struct adm127x *chip, const struct i2c_bus *bus,
				  const struct adm127x_settings *settings);

#endif
