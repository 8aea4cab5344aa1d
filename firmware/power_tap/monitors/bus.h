/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The buses of monitor chips, as a port gives them to the chips' drivers. */
#ifndef JOULERIG_BUS_H
#define JOULERIG_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An I2C controller. Addresses have 7 bits. Both functions are false when the
 * chip did not acknowledge its address or a byte, or the bus was lost. */
struct i2c_bus {
	void *context;
	bool (*write)(void *context, uint8_t address, const uint8_t *data, size_t length);
	/* Writes, ends by STOP, and reads with a second START: not all
	 * controllers have a repeated START, and the chips here need none. */
	bool (*write_read)(void *context, uint8_t address, const uint8_t *data, size_t length,
			   uint8_t *answer, size_t answer_length);
};

/* An SPI controller, one chip selected during each transfer. */
struct spi_bus {
	void *context;
	bool (*transfer)(void *context, unsigned select, const uint8_t *out, uint8_t *in, size_t length);
};

#endif
