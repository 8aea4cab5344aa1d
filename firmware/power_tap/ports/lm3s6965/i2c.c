/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "port.h"
#include "registers.h"

#define SPEED_HZ 400000u
/* Turns of the loop that waits for a byte: far more than a byte takes, so that a
 * chip that holds the clock down cannot stop the tap. */
#define MOST_WAITS 20000

/* One byte, or the STOP alone; false on an error, with the bus given up. */
static bool run(uint32_t control)
{
	unsigned waits = 0;

	I2C0_CONTROL = control;
	while (I2C0_CONTROL & I2C0_STATUS_BUSY)
		if (++waits == MOST_WAITS)
			return false;
	if (!(I2C0_CONTROL & (I2C0_STATUS_ERROR | I2C0_STATUS_ARBITRATION_LOST)))
		return true;
	if (!(I2C0_CONTROL & I2C0_STATUS_ARBITRATION_LOST) && !(control & I2C0_CONTROL_STOP))
		I2C0_CONTROL = I2C0_CONTROL_STOP;
	return false;
}

static bool write(void *context, uint8_t address, const uint8_t *data, size_t length)
{
	(void)context;
	I2C0_ADDRESS = (uint32_t)address << 1;
	for (size_t n = 0; n < length; n++) {
		I2C0_DATA = data[n];
		if (!run(I2C0_CONTROL_RUN | (n == 0 ? I2C0_CONTROL_START : 0) |
			 (n + 1 == length ? I2C0_CONTROL_STOP : 0)))
			return false;
	}
	return true;
}

static bool write_read(void *context, uint8_t address, const uint8_t *data, size_t length,
		       uint8_t *answer, size_t answer_length)
{
	if (!write(context, address, data, length))
		return false;
	I2C0_ADDRESS = (uint32_t)address << 1 | I2C0_ADDRESS_READ;
	for (size_t n = 0; n < answer_length; n++) {
		bool last = n + 1 == answer_length;

		if (!run(I2C0_CONTROL_RUN | (n == 0 ? I2C0_CONTROL_START : 0) |
			 (last ? I2C0_CONTROL_STOP : I2C0_CONTROL_ACK)))
			return false;
		answer[n] = (uint8_t)I2C0_DATA;
	}
	return true;
}

const struct i2c_bus i2c0 = { .write = write, .write_read = write_read };

void i2c_start(void)
{
	uint32_t pins = 3u << 2;

	SYSCTL_RCGC1 |= SYSCTL_RCGC1_I2C0;
	SYSCTL_RCGC2 |= SYSCTL_RCGC2_GPIO(GPIO_B);
	GPIO_ALTERNATE(GPIO_B) |= pins;
	GPIO_OPEN_DRAIN(GPIO_B) |= pins;
	GPIO_DIGITAL(GPIO_B) |= pins;
	I2C0_CONFIGURATION = I2C0_CONFIGURATION_MASTER;
	/* A bit takes 20 * (1 + period) clocks: data sheet, 13.2.1.3. Rounded up,
	 * lest the bus be faster than the chips. */
	I2C0_TIMER_PERIOD = (CORE_CLOCK_HZ + 20 * SPEED_HZ - 1) / (20 * SPEED_HZ) - 1;
}
