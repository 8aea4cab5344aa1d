/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ina22x.h"

#include <string.h>

/* Data sheets, section "Register maps". */
#define CONFIG 0x00
#define ADC_CONFIG 0x01
#define SHUNT_CAL 0x02
#define VBUS 0x05
#define CURRENT 0x07
#define DIAG_ALRT 0x0b
#define MANUFACTURER_ID 0x3e
#define DEVICE_ID 0x3f

#define CONFIG_RESET (1u << 15)
#define CONFIG_NARROW (1u << 4) /* ADCRANGE */
#define ADC_CONTINUOUS_VOLTS_AMPS (0xbu << 12)
#define ADC_VBUS_TIME_SHIFT 9
#define ADC_SHUNT_TIME_SHIFT 6
/* So that reading the flag clears it. */
#define ALERT_LATCH (1u << 15)
#define ALERT_MATH_OVERFLOW (1u << 9)
#define ALERT_CONVERTED (1u << 1)

#define TEXAS_INSTRUMENTS 0x5449
#define DIE_SHIFT 4 /* the low bits are the revision */

#define VOLTS_STEP 195.3125e-6f
#define SHUNT_VOLTS_STEP 312.5e-9f
#define SHUNT_VOLTS_STEP_NARROW 78.125e-9f
/* SHUNT_CAL = 13107.2e6 * CURRENT_LSB * R_SHUNT, four times that in the narrow
 * range (data sheets, equation 2). With the shunt's full range as the current's,
 * CURRENT_LSB is the shunt's step over R_SHUNT, and R_SHUNT cancels out. */
#define SHUNT_CAL_FULL_RANGE 4096

/* A register's address goes in the upper six bits of SPI's first byte. */
#define SPI_READ 0x01
#define SPI_ADDRESS_SHIFT 2

static bool read_register(const struct ina22x *chip, uint8_t address, uint8_t *bytes, size_t length)
{
	uint8_t out[4] = { (uint8_t)(address << SPI_ADDRESS_SHIFT | SPI_READ) }, in[4];

	if (!chip->is_spi)
		return chip->i2c->write_read(chip->i2c->context, chip->address, &address, 1, bytes,
					     length);
	if (!chip->spi->transfer(chip->spi->context, chip->address, out, in, length + 1))
		return false;
	memcpy(bytes, in + 1, length);
	return true;
}

static bool read_word(const struct ina22x *chip, uint8_t address, uint16_t *word)
{
	uint8_t bytes[2];

	if (!read_register(chip, address, bytes, 2))
		return false;
	*word = (uint16_t)(bytes[0] << 8 | bytes[1]);
	return true;
}

/* A 20-bit two's complement result stands in the upper bits of 24. */
static bool read_result(const struct ina22x *chip, uint8_t address, int32_t *result)
{
	uint8_t bytes[3];
	int32_t value;

	if (!read_register(chip, address, bytes, 3))
		return false;
	value = (int32_t)bytes[0] << 12 | (int32_t)bytes[1] << 4 | bytes[2] >> 4;
	*result = value >= 1 << 19 ? value - (1 << 20) : value;
	return true;
}

static bool write_word(const struct ina22x *chip, uint8_t address, unsigned word)
{
	uint8_t bytes[3] = { address, (uint8_t)(word >> 8), (uint8_t)word }, ignored[3];

	if (!chip->is_spi)
		return chip->i2c->write(chip->i2c->context, chip->address, bytes, 3);
	bytes[0] = (uint8_t)(address << SPI_ADDRESS_SHIFT);
	return chip->spi->transfer(chip->spi->context, chip->address, bytes, ignored, 3);
}

static enum monitor_status read_values(struct monitor *monitor, float *volts, float *amps)
{
	struct ina22x *chip = (struct ina22x *)monitor;
	int32_t volts_code, amps_code;
	uint16_t flags;

	if (!read_word(chip, DIAG_ALRT, &flags))
		return MONITOR_NO_ANSWER;
	if (!(flags & ALERT_CONVERTED))
		return MONITOR_OLD_VALUE;
	if (flags & ALERT_MATH_OVERFLOW)
		return MONITOR_BAD_VALUE;
	if (!read_result(chip, VBUS, &volts_code) || !read_result(chip, CURRENT, &amps_code))
		return MONITOR_NO_ANSWER;
	*volts = (float)volts_code * VOLTS_STEP;
	*amps = (float)amps_code * chip->amps_step;
	return MONITOR_OK;
}

static enum monitor_status start(struct ina22x *chip, const struct ina22x_settings *settings,
				 uint16_t die)
{
	uint16_t manufacturer, device;
	float step = settings->narrow_amps ? SHUNT_VOLTS_STEP_NARROW : SHUNT_VOLTS_STEP;
	unsigned times = (unsigned)settings->conversion_time << ADC_VBUS_TIME_SHIFT |
			 (unsigned)settings->conversion_time << ADC_SHUNT_TIME_SHIFT;

	if (!(settings->shunt_ohms > 0) || settings->conversion_time > 7 || settings->averages > 7)
		return MONITOR_BAD_SETTING;
	chip->monitor = (struct monitor){ .read = read_values };
	chip->address = settings->address;
	chip->amps_step = step / settings->shunt_ohms;

	if (!read_word(chip, MANUFACTURER_ID, &manufacturer) || !read_word(chip, DEVICE_ID, &device))
		return MONITOR_NO_ANSWER;
	if (manufacturer != TEXAS_INSTRUMENTS || device >> DIE_SHIFT != die)
		return MONITOR_WRONG_CHIP;
	if (!write_word(chip, CONFIG, CONFIG_RESET) ||
	    !write_word(chip, CONFIG, settings->narrow_amps ? CONFIG_NARROW : 0) ||
	    !write_word(chip, SHUNT_CAL, SHUNT_CAL_FULL_RANGE) ||
	    !write_word(chip, DIAG_ALRT, ALERT_LATCH) ||
	    !write_word(chip, ADC_CONFIG, ADC_CONTINUOUS_VOLTS_AMPS | times | settings->averages))
		return MONITOR_NO_ANSWER;
	return MONITOR_OK;
}

enum monitor_status ina228_start(struct ina22x *chip, const struct i2c_bus *bus,
				 const struct ina22x_settings *settings)
{
	chip->is_spi = false;
	chip->i2c = bus;
	return start(chip, settings, 0x228);
}

enum monitor_status ina229_start(struct ina22x *chip, const struct spi_bus *bus,
				 const struct ina22x_settings *settings)
{
	chip->is_spi = true;
	chip->spi = bus;
	return start(chip, settings, 0x229);
}
