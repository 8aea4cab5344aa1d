/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "calibration.h"

#include "check.h"

#include <math.h>

/* Channel n has gain 1 + n / 64 and offset -n / 8. */
static struct calibration made(void)
{
	struct calibration calibration;

	calibration_none(&calibration);
	for (unsigned n = 0; n < CALIBRATION_CHANNELS; n++) {
		calibration.gain[n] = 1 + (float)n / 64;
		calibration.offset[n] = 0 - (float)n / 8;
	}
	memcpy(calibration.date, "2026-11-21", 11);
	return calibration;
}

static void what_is_packed_is_what_is_unpacked(void)
{
	const struct calibration calibration = made();
	uint8_t image[CALIBRATION_IMAGE_SIZE];
	struct calibration read;

	calibration_pack(&calibration, image);
	CHECK(!calibration_is_blank(image));
	CHECK(calibration_unpack(&read, image));
	CHECK(memcmp(&read, &calibration, sizeof read) == 0);
}

/* An image that was stored is read by every later firmware. */
static void the_image_is_what_the_protocol_says(void)
{
	const struct calibration calibration = made();
	uint8_t image[CALIBRATION_IMAGE_SIZE];

	calibration_pack(&calibration, image);
	CHECK(memcmp(image, "JRC1", 4) == 0);
	/* IEEE 754, little-endian: 1.015625 and -0.125 of the second channel. */
	CHECK(memcmp(image + 12, "\x00\x00\x82\x3f\x00\x00\x00\xbe", 8) == 0);
	CHECK_TEXT((const char *)image + 4 + 8 * CALIBRATION_CHANNELS, "2026-11-21");
	/* As zlib's crc32 has it. */
	CHECK(memcmp(image + CALIBRATION_IMAGE_SIZE - 4, "\xb4\x5b\x8f\xa0", 4) == 0);
}

static void any_damage_is_seen(void)
{
	const struct calibration calibration = made();
	uint8_t image[CALIBRATION_IMAGE_SIZE];
	struct calibration read;

	calibration_none(&read);
	calibration_pack(&calibration, image);
	for (unsigned bit = 0; bit < 8 * CALIBRATION_IMAGE_SIZE; bit++) {
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
		CHECK(!calibration_unpack(&read, image));
		image[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	CHECK(read.gain[7] == 1 && read.date[0] == '\0'); /* it stays as it was */
}

/* An image with a right checksum, as a faulty program may store it. */
static void what_no_calibration_may_be_is_refused(void)
{
	uint8_t image[CALIBRATION_IMAGE_SIZE];
	struct calibration read, wrong = made();

	memset(wrong.date, 'x', sizeof wrong.date); /* without an end */
	calibration_pack(&wrong, image);
	CHECK(!calibration_unpack(&read, image));
	wrong = made();
	wrong.gain[CALIBRATION_CHANNELS - 1] = 3;
	calibration_pack(&wrong, image);
	CHECK(!calibration_unpack(&read, image));
	wrong = made();
	wrong.offset[0] = NAN;
	calibration_pack(&wrong, image);
	CHECK(!calibration_unpack(&read, image));
}

static void its_bounds_are_allowed_and_nothing_beyond(void)
{
	CHECK(calibration_allows(CALIBRATION_LEAST_GAIN, -CALIBRATION_MOST_OFFSET));
	CHECK(calibration_allows(CALIBRATION_MOST_GAIN, CALIBRATION_MOST_OFFSET));
	CHECK(!calibration_allows(0.499f, 0) && !calibration_allows(2.001f, 0));
	CHECK(!calibration_allows(1, -10.01f) && !calibration_allows(1, 10.01f));
	CHECK(!calibration_allows(NAN, 0) && !calibration_allows(1, NAN));
}

static void a_memory_that_was_never_written_is_blank(void)
{
	uint8_t image[CALIBRATION_IMAGE_SIZE];

	memset(image, 0xff, sizeof image);
	CHECK(calibration_is_blank(image));
	image[CALIBRATION_IMAGE_SIZE - 1] = 0xfe;
	CHECK(!calibration_is_blank(image));
	memset(image, 0, sizeof image);
	CHECK(calibration_is_blank(image));
	image[0] = 1;
	CHECK(!calibration_is_blank(image));
	memset(image, 0x55, sizeof image);
	CHECK(!calibration_is_blank(image));
}

int main(void)
{
	what_is_packed_is_what_is_unpacked();
	the_image_is_what_the_protocol_says();
	any_damage_is_seen();
	what_no_calibration_may_be_is_refused();
	its_bounds_are_allowed_and_nothing_beyond();
	a_memory_that_was_never_written_is_blank();
	return report("calibration");
}
