/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "adm127x.h"
#include "port.h"
#include "registers.h"

/* Port D: high cuts the rail, at once; low, and the resistor to ground that
 * holds it so during a reset, leaves the rail to its hot-swap controller. */
#define CUT_PORT GPIO_D
#define CUT_PIN(rail) (1u << (4 + (rail)))
#define ALL_CUT_PINS 0xf0u
/* Port E: low is set, so that an open-collector output can drive it. */
#define MARKER_PORT GPIO_E
#define MARKER_PINS 0x03u
#define AWAKE_PIN 0x04u

/* A controller that does not answer is looked for five times a second. */
#define RETRY_SAMPLES (TAP_RATE_HZ / 5 + 1)

/* The shunts. That of QEMU's adm1272 is 300 uOhm, but its coefficient of current,
 * 663 * 0.3, is rounded down to 198: it is 198 / 663 mOhm that it behaves as. */
#ifndef TAP_SHUNT_OHMS
#define TAP_SHUNT_OHMS (198e-3f / 663)
#endif

/* The ranges are those that QEMU's adm1272 has, whatever it is set to. */
#define RAIL(i2c_address) \
	{ .model = ADM1272, \
	  .address = (i2c_address), \
	  .shunt_ohms = TAP_SHUNT_OHMS, \
	  .wide_volts = true, \
	  .wide_amps = true, \
	  .averages = 0 }

static const struct adm127x_settings settings[TAP_RAILS] = { RAIL(0x10), RAIL(0x11), RAIL(0x12), RAIL(0x13) };

static struct rail {
	struct adm127x chip;
	bool started;
	uint32_t until_retry;
} rails[TAP_RAILS];

static enum monitor_status read(unsigned n, float *volts, float *amps)
{
	struct rail *rail = &rails[n];
	enum monitor_status status;

	if (!rail->started) {
		if (rail->until_retry) {
			rail->until_retry--;
			return MONITOR_NO_ANSWER;
		}
		rail->until_retry = RETRY_SAMPLES;
		status = adm127x_start(&rail->chip, &i2c0, &settings[n]);
		rail->started = status == MONITOR_OK;
		/* Its first conversion has not ended yet. */
		return status == MONITOR_OK ? MONITOR_OLD_VALUE : status;
	}
	status = monitor_read(&rail->chip.monitor, volts, amps);
	/* It may have lost its power, and its settings with it. */
	if (status == MONITOR_NO_ANSWER)
		rail->started = false;
	return status;
}

void rails_start(void)
{
	SYSCTL_RCGC2 |= SYSCTL_RCGC2_GPIO(CUT_PORT) | SYSCTL_RCGC2_GPIO(MARKER_PORT);
	GPIO_DIRECTION(CUT_PORT) |= ALL_CUT_PINS;
	GPIO_DIGITAL(CUT_PORT) |= ALL_CUT_PINS;
	GPIO_PULL_UP(MARKER_PORT) |= MARKER_PINS | AWAKE_PIN;
	GPIO_DIGITAL(MARKER_PORT) |= MARKER_PINS | AWAKE_PIN;
	for (unsigned n = 0; n < TAP_RAILS; n++)
		rails[n].started = adm127x_start(&rails[n].chip, &i2c0, &settings[n]) == MONITOR_OK;
}

bool rails_stay_awake(void)
{
	return !GPIO_DATA(MARKER_PORT, AWAKE_PIN);
}

static uint8_t markers(void)
{
	return (uint8_t)(~GPIO_DATA(MARKER_PORT, MARKER_PINS) & MARKER_PINS);
}

static void no_value(struct tap *tap, struct sample *sample, unsigned rail)
{
	sample->volts[rail] = __builtin_nanf("");
	sample->amps[rail] = __builtin_nanf("");
	tap_converter_error(tap, rail);
}

void rails_convert(struct tap *tap)
{
	/* The markers first: conversions take their time. */
	struct sample sample = { .markers = markers() };

	for (unsigned n = 0; n < TAP_RAILS; n++)
		if (read(n, &sample.volts[n], &sample.amps[n]) != MONITOR_OK)
			no_value(tap, &sample, n);
	tap_sample(tap, &sample);
}

void rails_miss(struct tap *tap)
{
	struct sample sample = { .markers = markers() };

	for (unsigned n = 0; n < TAP_RAILS; n++)
		no_value(tap, &sample, n);
	tap_sample(tap, &sample);
}

static void set_rail(void *context, unsigned rail, bool on)
{
	(void)context;
	clock_hold_conversions();
	/* Off: the pin is the quicker, so it is first. On: the controller lets the
	 * current rise once both allow it. Where it does not answer, the pin alone
	 * has to do. */
	GPIO_DATA(CUT_PORT, CUT_PIN(rail)) = on ? 0 : CUT_PIN(rail);
	if (rails[rail].started)
		monitor_set_switch(&rails[rail].chip.monitor, on);
	clock_release_conversions();
}

static bool rail_is_on(void *context, unsigned rail)
{
	bool on = true;

	(void)context;
	if (GPIO_DATA(CUT_PORT, CUT_PIN(rail)))
		return false;
	clock_hold_conversions();
	if (rails[rail].started)
		monitor_switch_is_on(&rails[rail].chip.monitor, &on);
	clock_release_conversions();
	return on;
}

const struct board lm3s6965_board = { .set_rail = set_rail, .rail_is_on = rail_is_on, .name = "lm3s6965" };
