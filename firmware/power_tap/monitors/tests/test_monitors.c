/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The monitor chips' drivers against simulated registers. */
#include "adm127x.h"
#include "ina22x.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>

/* A chip on a bus: registers of up to 12 bytes, in the order in which they go
 * over the wire, and a log of what was written. */
struct chip {
	uint8_t address;
	uint8_t registers[256][12];
	unsigned refuse_after; /* transfers; 0: never */
	unsigned transfers;
	char log[512];
};

static struct chip chip;

static bool acknowledges(uint8_t address)
{
	chip.transfers++;
	return address == chip.address && (!chip.refuse_after || chip.transfers <= chip.refuse_after);
}

static void take_write(const uint8_t *data, size_t length)
{
	char text[16];

	for (size_t n = 0; n < length; n++) {
		snprintf(text, sizeof text, n ? "%02x" : "%02x=", data[n]);
		strncat(chip.log, text, sizeof chip.log - strlen(chip.log) - 1);
	}
	strncat(chip.log, " ", sizeof chip.log - strlen(chip.log) - 1);
	memcpy(chip.registers[data[0]], data + 1, length - 1);
}

static bool i2c_write(void *context, uint8_t address, const uint8_t *data, size_t length)
{
	CHECK(context == &chip);
	if (!acknowledges(address))
		return false;
	take_write(data, length);
	return true;
}

static bool i2c_write_read(void *context, uint8_t address, const uint8_t *data, size_t length,
			   uint8_t *answer, size_t answer_length)
{
	CHECK(context == &chip);
	CHECK(length == 1);
	if (!acknowledges(address))
		return false;
	for (size_t n = 0; n < answer_length; n++)
		answer[n] = n < sizeof chip.registers[0] ? chip.registers[data[0]][n] : 0xff;
	return true;
}

static bool spi_transfer(void *context, unsigned select, const uint8_t *out, uint8_t *in, size_t length)
{
	uint8_t frame[8];

	CHECK(context == &chip);
	if (!acknowledges((uint8_t)select))
		return false;
	memcpy(frame, out, length);
	frame[0] = out[0] >> 2;
	in[0] = 0xff;
	if (out[0] & 1)
		memcpy(in + 1, chip.registers[frame[0]], length - 1);
	else
		take_write(frame, length);
	return true;
}

static const struct i2c_bus i2c = { &chip, i2c_write, i2c_write_read };
static const struct spi_bus spi = { &chip, spi_transfer };

static void set_word_low_first(uint8_t address, unsigned word)
{
	chip.registers[address][0] = (uint8_t)word;
	chip.registers[address][1] = (uint8_t)(word >> 8);
}

static void set_word_high_first(uint8_t address, unsigned word)
{
	chip.registers[address][0] = (uint8_t)(word >> 8);
	chip.registers[address][1] = (uint8_t)word;
}

/* A 20-bit result. */
static void set_result(uint8_t address, int32_t code)
{
	uint32_t bits = (uint32_t)code << 4;

	for (unsigned n = 0; n < 3; n++)
		chip.registers[address][n] = (uint8_t)(bits >> (16 - 8 * n));
}

/* Single precision, four operations. */
#define CHECK_NEAR(found, expected) \
	CHECK(fabs((double)(found) - (expected)) <= 4 * 6e-8 * fabs(expected) + 1e-12)

static void power_up_adm127x(const char *model)
{
	memset(&chip, 0, sizeof chip);
	chip.address = 0x10;
	memcpy(chip.registers[0x99], "\3ADI", 4);
	chip.registers[0x9a][0] = 9;
	memcpy(chip.registers[0x9a] + 1, model, 7);
	chip.registers[0x01][0] = 0x80;
}

static struct adm127x_settings adm1272_settings(void)
{
	return (struct adm127x_settings){ .model = ADM1272, .address = 0x10, .shunt_ohms = 0.01f };
}

/* value = (code * 10^R - b) / m, as the data sheets print it, in double. */
static double direct(double code, double m, double b, double r)
{
	return (code * pow(10, r) - b) / m;
}

static void converts_codes_by_the_data_sheets_coefficients(void)
{
	static const struct {
		enum adm127x_model model;
		const char *name;
		bool wide_volts, wide_amps;
		double volts_m, volts_r, amps_m, amps_b;
	} cases[] = {
		{ ADM1272, "ADM1272", false, false, 6770, 2, 1326, 20480 },
		{ ADM1272, "ADM1272", true, false, 4062, 2, 1326, 20480 },
		{ ADM1272, "ADM1272", false, true, 6770, 2, 663, 20480 },
		{ ADM1275, "ADM1275", false, false, 6720, 1, 807, 20475 },
		{ ADM1275, "ADM1275", true, false, 19199, 2, 807, 20475 },
		{ ADM1276, "ADM1276", true, false, 19199, 2, 807, 20475 },
		{ ADM1278, "ADM1278", true, false, 19599, 2, 800, 20475 },
	};
	static const unsigned codes[] = { 0, 1, 2047, 2048, 2049, 4095 };

	for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++) {
		struct adm127x adm;
		struct adm127x_settings settings = { .model = cases[n].model,
						     .address = 0x10,
						     .shunt_ohms = 0.005f,
						     .wide_volts = cases[n].wide_volts,
						     .wide_amps = cases[n].wide_amps };

		power_up_adm127x(cases[n].name);
		CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
		for (unsigned c = 0; c < sizeof codes / sizeof *codes; c++) {
			double rounding = 4 * 6e-8 * 40950 / (cases[n].amps_m * 5);
			float volts = -1, amps = -1;

			set_word_low_first(0x8b, codes[c]);
			set_word_low_first(0x8c, codes[c]);
			CHECK(monitor_read(&adm.monitor, &volts, &amps) == MONITOR_OK);
			CHECK_NEAR(volts, direct(codes[c], cases[n].volts_m, 0, cases[n].volts_r));
			/* Near zero it is a small difference of large numbers. */
			CHECK(fabs((double)amps - direct(codes[c], cases[n].amps_m * 5, cases[n].amps_b, 1)) <
			      rounding);
		}
		CHECK(adm.monitor.errors == 0);
	}
}

/* The data sheets' words for the same: a code of 2048 is no current, and full
 * scale is the range's millivolts over the shunt. */
static void amps_are_zero_in_the_middle_and_signed(void)
{
	struct adm127x adm;
	struct adm127x_settings settings = adm1272_settings();
	float volts, amps;

	settings.wide_amps = true;
	power_up_adm127x("ADM1272");
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
	set_word_low_first(0x8c, 2048);
	CHECK(monitor_read(&adm.monitor, &volts, &amps) == MONITOR_OK);
	CHECK(amps == 0);
	set_word_low_first(0x8c, 4095);
	CHECK(monitor_read(&adm.monitor, &volts, &amps) == MONITOR_OK);
	CHECK(fabs((double)amps - 3.09) < 0.01); /* 30.9 mV over 10 mOhm */
	set_word_low_first(0x8c, 0);
	CHECK(monitor_read(&adm.monitor, &volts, &amps) == MONITOR_OK);
	CHECK(fabs((double)amps + 3.09) < 0.01);
}

static void starts_with_the_ranges_asked_for(void)
{
	struct adm127x adm;
	struct adm127x_settings settings = adm1272_settings();

	power_up_adm127x("ADM1272");
	settings.wide_volts = settings.wide_amps = true;
	settings.averages = 3;
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
	CHECK_TEXT(chip.log, "d3=00 d4=3303 d3=01 ");

	power_up_adm127x("ADM1272");
	settings = adm1272_settings();
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
	CHECK_TEXT(chip.log, "d3=00 d4=1200 d3=01 ");

	/* A byte with another layout, and OPERATION has to be enabled. */
	power_up_adm127x("ADM1276");
	chip.registers[0xd8][0] = 0x80;
	settings = (struct adm127x_settings){ ADM1276, 0x10, 0.01f, true, false, 7 };
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
	CHECK_TEXT(chip.log, "d3=00 d4=ef d8=a0 d3=01 ");
}

static void switches_and_reads_the_switch_back(void)
{
	struct adm127x adm;
	struct adm127x_settings settings = adm1272_settings();
	bool on = false;

	power_up_adm127x("ADM1272");
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
	CHECK(monitor_switch_is_on(&adm.monitor, &on) == MONITOR_OK && on);
	CHECK(monitor_set_switch(&adm.monitor, false) == MONITOR_OK);
	CHECK(chip.registers[0x01][0] == 0);
	CHECK(monitor_switch_is_on(&adm.monitor, &on) == MONITOR_OK && !on);
	CHECK(monitor_set_switch(&adm.monitor, true) == MONITOR_OK);
	CHECK(chip.registers[0x01][0] == 0x80);
	chip.refuse_after = chip.transfers;
	CHECK(monitor_set_switch(&adm.monitor, false) == MONITOR_NO_ANSWER);
	CHECK(monitor_switch_is_on(&adm.monitor, &on) == MONITOR_NO_ANSWER);
}

static void another_chip_is_refused(void)
{
	struct adm127x adm;
	struct adm127x_settings settings = adm1272_settings();

	power_up_adm127x("ADM1275");
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_WRONG_CHIP);
	power_up_adm127x("ADM1272");
	memcpy(chip.registers[0x99], "\2TI", 3);
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_WRONG_CHIP);
	CHECK_TEXT(chip.log, "");
	settings.address = 0x11;
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_NO_ANSWER);
}

static void settings_that_the_chip_has_not_are_refused(void)
{
	struct adm127x adm;
	struct adm127x_settings settings = adm1272_settings();

	power_up_adm127x("ADM1272");
	settings.shunt_ohms = 0;
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_BAD_SETTING);
	settings.shunt_ohms = NAN;
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_BAD_SETTING);
	settings = adm1272_settings();
	settings.averages = 8;
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_BAD_SETTING);
	settings = (struct adm127x_settings){ ADM1278, 0x10, 0.01f, false, false, 0 };
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_BAD_SETTING);
	settings = (struct adm127x_settings){ ADM1276, 0x10, 0.01f, true, true, 0 };
	CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_BAD_SETTING);
	CHECK(chip.transfers == 0);
}

/* At whichever transfer the chip falls silent, it is noticed and no value is
 * made up. */
static void silence_is_noticed_at_every_transfer(void)
{
	static const enum adm127x_model models[] = { ADM1272, ADM1276 };
	static const char *const names[] = { "ADM1272", "ADM1276" };

	for (unsigned m = 0; m < 2; m++) {
		struct adm127x_settings settings = { models[m], 0x10, 0.01f, true, false, 0 };
		struct adm127x adm;
		unsigned all;

		power_up_adm127x(names[m]);
		CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
		all = chip.transfers;
		for (unsigned n = 1; n < all; n++) {
			power_up_adm127x(names[m]);
			chip.refuse_after = n;
			CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_NO_ANSWER);
		}
		power_up_adm127x(names[m]);
		CHECK(adm127x_start(&adm, &i2c, &settings) == MONITOR_OK);
		for (unsigned n = 0; n < 2; n++) {
			float volts = 7, amps = 8;

			chip.refuse_after = chip.transfers + n;
			chip.address = n ? 0x10 : 0x55;
			CHECK(monitor_read(&adm.monitor, &volts, &amps) == MONITOR_NO_ANSWER);
			CHECK(volts == 7 && amps == 8);
			CHECK(adm.monitor.errors == n + 1);
			chip.address = 0x10;
		}
	}
}

static void power_up_ina(bool is_spi)
{
	memset(&chip, 0, sizeof chip);
	chip.address = is_spi ? 2 : 0x40;
	set_word_high_first(0x3e, 0x5449);
	set_word_high_first(0x3f, is_spi ? 0x2291 : 0x2281);
}

static enum monitor_status start_ina(struct ina22x *ina, bool is_spi, float shunt_ohms, bool narrow)
{
	struct ina22x_settings settings = { .address = is_spi ? 2 : 0x40,
					    .shunt_ohms = shunt_ohms,
					    .narrow_amps = narrow,
					    .conversion_time = 1,
					    .averages = 2 };

	return is_spi ? ina229_start(ina, &spi, &settings) : ina228_start(ina, &i2c, &settings);
}

static void ina_is_reset_and_set_up(void)
{
	for (int is_spi = 0; is_spi < 2; is_spi++) {
		struct ina22x ina;

		power_up_ina(is_spi);
		CHECK(start_ina(&ina, is_spi, 0.01f, false) == MONITOR_OK);
		CHECK_TEXT(chip.log, "00=8000 00=0000 02=1000 0b=8000 01=b242 ");
		power_up_ina(is_spi);
		CHECK(start_ina(&ina, is_spi, 0.01f, true) == MONITOR_OK);
		CHECK_TEXT(chip.log, "00=8000 00=0010 02=1000 0b=8000 01=b242 ");
	}
}

static void ina_converts_at_zero_full_scale_and_below_zero(void)
{
	static const struct {
		int32_t volts_code, amps_code;
		double volts, shunt_volts; /* the latter in the wide range */
	} cases[] = {
		{ 0, 0, 0, 0 },
		{ 1, 1, 195.3125e-6, 312.5e-9 },
		{ 61440, 131072, 12.0, 0.04096 },
		{ 524287, 524287, 524287 * 195.3125e-6, 524287 * 312.5e-9 },
		{ 16896, -1, 3.3, -312.5e-9 },
		{ 16896, -524288, 3.3, -0.16384 },
	};

	for (int is_spi = 0; is_spi < 2; is_spi++)
		for (int narrow = 0; narrow < 2; narrow++) {
			struct ina22x ina;

			power_up_ina(is_spi);
			CHECK(start_ina(&ina, is_spi, 0.02f, narrow) == MONITOR_OK);
			for (unsigned n = 0; n < sizeof cases / sizeof *cases; n++) {
				float volts = -1, amps = -1;

				set_word_high_first(0x0b, 0x8003);
				set_result(0x05, cases[n].volts_code);
				set_result(0x07, cases[n].amps_code);
				CHECK(monitor_read(&ina.monitor, &volts, &amps) == MONITOR_OK);
				CHECK_NEAR(volts, cases[n].volts);
				CHECK_NEAR(amps, cases[n].shunt_volts / (narrow ? 4 : 1) / 0.02);
			}
		}
}

static void an_old_or_overflowed_result_is_no_value(void)
{
	struct ina22x ina;
	float volts = 7, amps = 8;

	power_up_ina(false);
	CHECK(start_ina(&ina, false, 0.01f, false) == MONITOR_OK);
	set_word_high_first(0x0b, 0x8001);
	CHECK(monitor_read(&ina.monitor, &volts, &amps) == MONITOR_OLD_VALUE);
	set_word_high_first(0x0b, 0x8203);
	CHECK(monitor_read(&ina.monitor, &volts, &amps) == MONITOR_BAD_VALUE);
	CHECK(volts == 7 && amps == 8);
	CHECK(ina.monitor.errors == 2);
}

static void ina_errors_are_reported(void)
{
	for (int is_spi = 0; is_spi < 2; is_spi++) {
		struct ina22x ina;
		unsigned all;
		float volts = 7, amps = 8;
		bool on;

		power_up_ina(is_spi);
		CHECK(start_ina(&ina, is_spi, 0, false) == MONITOR_BAD_SETTING);
		CHECK(chip.transfers == 0);
		CHECK(start_ina(&ina, is_spi, 0.01f, false) == MONITOR_OK);
		all = chip.transfers;
		for (unsigned n = 1; n < all; n++) {
			power_up_ina(is_spi);
			chip.refuse_after = n;
			CHECK(start_ina(&ina, is_spi, 0.01f, false) == MONITOR_NO_ANSWER);
		}
		power_up_ina(is_spi);
		set_word_high_first(0x3f, is_spi ? 0x2281 : 0x2291);
		CHECK(start_ina(&ina, is_spi, 0.01f, false) == MONITOR_WRONG_CHIP);
		power_up_ina(is_spi);
		set_word_high_first(0x3e, 0x4144);
		CHECK(start_ina(&ina, is_spi, 0.01f, false) == MONITOR_WRONG_CHIP);
		CHECK_TEXT(chip.log, "");

		power_up_ina(is_spi);
		CHECK(start_ina(&ina, is_spi, 0.01f, false) == MONITOR_OK);
		for (unsigned n = 1; n < 3; n++) {
			set_word_high_first(0x0b, 0x8003);
			chip.refuse_after = chip.transfers + n;
			CHECK(monitor_read(&ina.monitor, &volts, &amps) == MONITOR_NO_ANSWER);
		}
		CHECK(volts == 7 && amps == 8);
		CHECK(monitor_set_switch(&ina.monitor, true) == MONITOR_NO_SWITCH);
		CHECK(monitor_switch_is_on(&ina.monitor, &on) == MONITOR_NO_SWITCH);
	}
}

int main(void)
{
	converts_codes_by_the_data_sheets_coefficients();
	amps_are_zero_in_the_middle_and_signed();
	starts_with_the_ranges_asked_for();
	switches_and_reads_the_switch_back();
	another_chip_is_refused();
	settings_that_the_chip_has_not_are_refused();
	silence_is_noticed_at_every_transfer();
	ina_is_reset_and_set_up();
	ina_converts_at_zero_full_scale_and_below_zero();
	an_old_or_overflowed_result_is_no_value();
	ina_errors_are_reported();
	return report("monitor chips");
}
