/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calibration.h"

#include <stddef.h>
#include <string.h>

static const uint8_t magic[4] = { 'J', 'R', 'C', '1' };

void calibration_none(struct calibration *calibration)
{
	memset(calibration, 0, sizeof *calibration);
	for (unsigned n = 0; n < CALIBRATION_CHANNELS; n++)
		calibration->gain[n] = 1;
}

bool calibration_allows(float gain, float offset)
{
	return gain >= CALIBRATION_LEAST_GAIN && gain <= CALIBRATION_MOST_GAIN &&
	       offset >= -CALIBRATION_MOST_OFFSET && offset <= CALIBRATION_MOST_OFFSET;
}

/* CRC-32 of IEEE 802.3, bit by bit: it is needed once in a while. */
static uint32_t crc32(const uint8_t *data, size_t length)
{
	uint32_t crc = UINT32_MAX;

	for (size_t n = 0; n < length; n++) {
		crc ^= data[n];
		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

static uint8_t *put_word(uint8_t *place, uint32_t word)
{
	for (unsigned n = 0; n < 4; n++)
		*place++ = (uint8_t)(word >> 8 * n);
	return place;
}

static const uint8_t *get_word(const uint8_t *place, uint32_t *word)
{
	*word = 0;
	for (unsigned n = 0; n < 4; n++)
		*word |= (uint32_t)*place++ << 8 * n;
	return place;
}

void calibration_pack(const struct calibration *calibration,
		      uint8_t image[CALIBRATION_IMAGE_SIZE])
{
	uint8_t *at = image + sizeof magic;

	memcpy(image, magic, sizeof magic);
	for (unsigned n = 0; n < CALIBRATION_CHANNELS; n++) {
		uint32_t bits;

		memcpy(&bits, &calibration->gain[n], sizeof bits);
		at = put_word(at, bits);
		memcpy(&bits, &calibration->offset[n], sizeof bits);
		at = put_word(at, bits);
	}
	memcpy(at, calibration->date, CALIBRATION_DATE_SIZE);
	at += CALIBRATION_DATE_SIZE;
	put_word(at, crc32(image, (size_t)(at - image)));
}

bool calibration_unpack(struct calibration *calibration,
			const uint8_t image[CALIBRATION_IMAGE_SIZE])
{
	const uint8_t *at = image + sizeof magic;
	struct calibration read;
	uint32_t bits;

	get_word(image + CALIBRATION_IMAGE_SIZE - 4, &bits);
	if (memcmp(image, magic, sizeof magic) != 0 || bits != crc32(image, CALIBRATION_IMAGE_SIZE - 4))
		return false;
	for (unsigned n = 0; n < CALIBRATION_CHANNELS; n++) {
		at = get_word(at, &bits);
		memcpy(&read.gain[n], &bits, sizeof bits);
		at = get_word(at, &bits);
		memcpy(&read.offset[n], &bits, sizeof bits);
		if (!calibration_allows(read.gain[n], read.offset[n]))
			return false;
	}
	memcpy(read.date, at, CALIBRATION_DATE_SIZE);
	if (read.date[CALIBRATION_DATE_SIZE - 1] != '\0')
		return false;
	*calibration = read;
	return true;
}

bool calibration_is_blank(const uint8_t image[CALIBRATION_IMAGE_SIZE])
{
	for (unsigned n = 0; n < CALIBRATION_IMAGE_SIZE; n++)
		if (image[n] != image[0] || (image[n] != 0 && image[n] != 0xff))
			return false;
	return true;
}
