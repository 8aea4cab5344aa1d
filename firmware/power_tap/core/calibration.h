/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The tap's own calibration: a gain and an offset per channel, corrected = gain *
 * reading + offset in volts or amps, and when it was made. Kept as an image of
 * fixed length with a CRC, so that a memory that was never written, or is worn,
 * is not taken for a calibration.
 */
#ifndef JOULERIG_CALIBRATION_H
#define JOULERIG_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

/* Volts and amps of rail 1, then of rail 2, and so on. */
#define CALIBRATION_CHANNELS 8
#define CALIBRATION_DATE_SIZE 32 /* with its end */
#define CALIBRATION_IMAGE_SIZE (4 + CALIBRATION_CHANNELS * 8 + CALIBRATION_DATE_SIZE + 4)

/* What is further off is no matter of calibration but a wrong shunt or part. */
#define CALIBRATION_LEAST_GAIN 0.5f
#define CALIBRATION_MOST_GAIN 2.0f
#define CALIBRATION_MOST_OFFSET 10.0f

struct calibration {
	float gain[CALIBRATION_CHANNELS];
	float offset[CALIBRATION_CHANNELS];
	char date[CALIBRATION_DATE_SIZE];
};

/* Gains of 1, offsets of 0, no date. */
void calibration_none(struct calibration *calibration);

bool calibration_allows(float gain, float offset);

void calibration_pack(const struct calibration *calibration,
		      uint8_t image[CALIBRATION_IMAGE_SIZE]);

/* False, with *calibration as it was, when the image is not a whole one. */
bool calibration_unpack(struct calibration *calibration,
			const uint8_t image[CALIBRATION_IMAGE_SIZE]);

/* A memory that was never written: all bits the same, as erased ones are. */
bool calibration_is_blank(const uint8_t image[CALIBRATION_IMAGE_SIZE]);

#endif
