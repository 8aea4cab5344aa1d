/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A converter of the kernel's Industrial I/O as the monitor of a rail: its buffer gives volts,
 * amps and the time of each reading on CLOCK_MONOTONIC. A sample is the mean of the readings
 * of its window. A window without a reading is not a number: lost, and never made up.
 */
#ifndef JOULERIG_IIO_H
#define JOULERIG_IIO_H

#include "align.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IIO_NAME_SIZE 64
#define IIO_BUFFER 16384

/* A channel in a scan of the buffer, and what it is in V or A. */
struct iio_element {
	size_t place, bytes;
	bool big_endian, is_signed;
	unsigned bits, shift;
	double scale, offset;
};

struct iio {
	unsigned rail;
	char device[IIO_NAME_SIZE]; /* as it was named */
	char volts[IIO_NAME_SIZE], amps[IIO_NAME_SIZE];
	int fd;
	struct iio_element elements[3]; /* volts, amps, time */
	size_t scan_bytes;
	/* The window that is being measured; -1 before the first reading. */
	int64_t window;
	double volts_sum, amps_sum;
	unsigned readings;
	uint8_t buffer[IIO_BUFFER];
	size_t length;
};

/* From the value of --rail after "iio:": DEVICE or DEVICE:VOLTS,AMPS. False: not of this form. */
bool iio_parse(struct iio *iio, unsigned rail, const char *value);

/* Starts the buffer of a device whose readings come at least rate_hz times a second. False: one
 * line in error. */
bool iio_open(struct iio *iio, uint32_t rate_hz, struct align *align, char *error, size_t error_size);

/* Whether its descriptor is to be waited on for reading. */
bool iio_wants_read(const struct iio *iio, const struct align *align);

/* Takes what there is to read, without waiting, as far as the aligner has room. False where the
 * device has gone, or stood still for longer than can be counted: one line in error. */
bool iio_work(struct iio *iio, struct align *align, int64_t window_ns, char *error, size_t error_size);

/* Parses a scan element's type, such as le:s12/16>>4; false where it is none. */
bool iio_parse_type(struct iio_element *element, const char *type);

/* The value of an element of a scan, in V, A or ns. */
double iio_decode(const struct iio_element *element, const uint8_t *scan);

#endif
