/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "adm127x.h"

#include <string.h>

/* PMBus 1.2 part II, and the data sheets' table "PMBus command summary". */
#define OPERATION 0x01
#define READ_VOUT 0x8b
#define READ_IOUT 0x8c
#define MFR_ID 0x99
#define MFR_MODEL 0x9a
#define PMON_CONTROL 0xd3
#define PMON_CONFIG 0xd4
#define DEVICE_CONFIG 0xd8

#define LONGEST_BLOCK 10 /* MFR_MODEL of the ADM1272: "ADM1272-A1" */

#define OPERATION_ON 0x80
#define PMON_CONTROL_CONVERT 0x01

/* PMON_CONFIG of the ADM1272 and ADM1278: a word. */
#define WORD_AMPS_30_MV (1u << 0) /* ADM1272 */
#define WORD_VOUT_ENABLE (1u << 1)
#define WORD_CONTINUOUS (1u << 4)
#define WORD_VOLTS_100_V (1u << 5) /* ADM1272 */
#define WORD_AVERAGES_SHIFT 8
/* PMON_CONFIG of the ADM1275 and ADM1276: a byte. */
#define BYTE_AMPS (1u << 3) /* reserved, and must be 1 for current to be right */
#define BYTE_VOLTS_20_V (1u << 5)
#define BYTE_VOUT_SELECT (1u << 6)
#define BYTE_CONTINUOUS (1u << 7)
/* DEVICE_CONFIG of the ADM1275 and ADM1276: without it OPERATION is refused. */
#define BYTE_OPERATION_ENABLE (1u << 5)

/* Coefficients of the DIRECT format, from the data sheets' table "PMBus
 * conversion to real-world coefficients": X = (Y * 10^-R - b) / m, where m of
 * amps is to be multiplied by the shunt in milliohms. */
struct coefficients {
	int16_t m;
	int16_t b;
	uint8_t minus_r;
};

static const struct model {
	const char *name;
	struct coefficients volts[2], amps[2]; /* narrow, wide range; m = 0: has not this range */
	bool word_config;
} models[] = {
	[ADM1272] = { "ADM1272",
		      { { 6770, 0, 2 }, { 4062, 0, 2 } },
		      { { 1326, 20480, 1 }, { 663, 20480, 1 } },
		      true },
	[ADM1275] = { "ADM1275",
		      { { 6720, 0, 1 }, { 19199, 0, 2 } },
		      { { 807, 20475, 1 }, { 0, 0, 0 } },
		      false },
	[ADM1276] = { "ADM1276",
		      { { 6720, 0, 1 }, { 19199, 0, 2 } },
		      { { 807, 20475, 1 }, { 0, 0, 0 } },
		      false },
	[ADM1278] = { "ADM1278",
		      { { 0, 0, 0 }, { 19599, 0, 2 } },
		      { { 800, 20475, 1 }, { 0, 0, 0 } },
		      true },
};

static void solve(const struct coefficients *c, float factor, float *step, float *zero)
{
	float m = (float)c->m * factor;

	*step = (c->minus_r == 1 ? 10.0f : 100.0f) / m;
	*zero = -(float)c->b / m;
}

static enum monitor_status read_word(struct adm127x *chip, uint8_t command, uint16_t *word)
{
	uint8_t answer[2];

	if (!chip->bus->write_read(chip->bus->context, chip->address, &command, 1, answer, 2))
		return MONITOR_NO_ANSWER;
	*word = (uint16_t)(answer[0] | answer[1] << 8);
	return MONITOR_OK;
}

/* An SMBus block read: a length, then that many characters, of which `most` are
 * read. What was not read, an emulated chip may give as the next answer. */
static enum monitor_status block_is(struct adm127x *chip, uint8_t command, const char *expected,
				    size_t most)
{
	uint8_t answer[1 + LONGEST_BLOCK];
	size_t length = strlen(expected);

	if (!chip->bus->write_read(chip->bus->context, chip->address, &command, 1, answer, 1 + most))
		return MONITOR_NO_ANSWER;
	/* A model may go on behind its name, with package and revision. */
	return answer[0] >= length && memcmp(answer + 1, expected, length) == 0 ? MONITOR_OK :
										  MONITOR_WRONG_CHIP;
}

static enum monitor_status write_bytes(struct adm127x *chip, const uint8_t *bytes, size_t length)
{
	return chip->bus->write(chip->bus->context, chip->address, bytes, length) ? MONITOR_OK :
										    MONITOR_NO_ANSWER;
}

static enum monitor_status read_values(struct monitor *monitor, float *volts, float *amps)
{
	struct adm127x *chip = (struct adm127x *)monitor;
	uint16_t volts_code, amps_code;
	enum monitor_status status = read_word(chip, READ_VOUT, &volts_code);

	if (status == MONITOR_OK)
		status = read_word(chip, READ_IOUT, &amps_code);
	if (status != MONITOR_OK)
		return status;
	*volts = (float)volts_code * chip->volts_step + chip->volts_zero;
	*amps = (float)amps_code * chip->amps_step + chip->amps_zero;
	return MONITOR_OK;
}

static enum monitor_status set_switch(struct monitor *monitor, bool on)
{
	const uint8_t bytes[] = { OPERATION, on ? OPERATION_ON : 0 };

	return write_bytes((struct adm127x *)monitor, bytes, sizeof bytes);
}

static enum monitor_status switch_is_on(struct monitor *monitor, bool *on)
{
	struct adm127x *chip = (struct adm127x *)monitor;
	uint8_t command = OPERATION, answer;

	if (!chip->bus->write_read(chip->bus->context, chip->address, &command, 1, &answer, 1))
		return MONITOR_NO_ANSWER;
	*on = answer & OPERATION_ON;
	return MONITOR_OK;
}

static enum monitor_status configure(struct adm127x *chip, const struct adm127x_settings *settings)
{
	uint8_t bytes[3] = { PMON_CONFIG }, command = DEVICE_CONFIG;
	enum monitor_status status;

	if (models[settings->model].word_config) {
		unsigned word = WORD_VOUT_ENABLE | WORD_CONTINUOUS;

		word |= (unsigned)settings->averages << WORD_AVERAGES_SHIFT;
		if (settings->model == ADM1272)
			word |= (settings->wide_volts ? WORD_VOLTS_100_V : 0) |
				(settings->wide_amps ? WORD_AMPS_30_MV : 0);
		bytes[1] = (uint8_t)word;
		bytes[2] = (uint8_t)(word >> 8);
		return write_bytes(chip, bytes, 3);
	}
	bytes[1] = (uint8_t)(BYTE_CONTINUOUS | BYTE_VOUT_SELECT | BYTE_AMPS | settings->averages |
			     (settings->wide_volts ? BYTE_VOLTS_20_V : 0));
	status = write_bytes(chip, bytes, 2);
	if (status != MONITOR_OK)
		return status;
	bytes[0] = DEVICE_CONFIG;
	if (!chip->bus->write_read(chip->bus->context, chip->address, &command, 1, bytes + 1, 1))
		return MONITOR_NO_ANSWER;
	bytes[1] |= BYTE_OPERATION_ENABLE;
	return write_bytes(chip, bytes, 2);
}

enum monitor_status adm127x_start(struct adm127x *chip, const struct i2c_bus *bus,
				  const struct adm127x_settings *settings)
{
	static const uint8_t stop[] = { PMON_CONTROL, 0 };
	static const uint8_t convert[] = { PMON_CONTROL, PMON_CONTROL_CONVERT };
	const struct model *model = &models[settings->model];
	const struct coefficients *volts = &model->volts[settings->wide_volts];
	const struct coefficients *amps = &model->amps[settings->wide_amps];
	enum monitor_status status;

	if (volts->m == 0 || amps->m == 0 || !(settings->shunt_ohms > 0) || settings->averages > 7)
		return MONITOR_BAD_SETTING;
	*chip = (struct adm127x){ .monitor = { .read = read_values,
					       .set_switch = set_switch,
					       .switch_is_on = switch_is_on },
				  .bus = bus,
				  .address = settings->address };
	solve(volts, 1, &chip->volts_step, &chip->volts_zero);
	solve(amps, 1000 * settings->shunt_ohms, &chip->amps_step, &chip->amps_zero);

	status = block_is(chip, MFR_ID, "ADI", 3);
	if (status == MONITOR_OK)
		status = block_is(chip, MFR_MODEL, model->name, LONGEST_BLOCK);
	/* Ranges must not change under a conversion. */
	if (status == MONITOR_OK)
		status = write_bytes(chip, stop, sizeof stop);
	if (status == MONITOR_OK)
		status = configure(chip, settings);
	if (status == MONITOR_OK)
		status = write_bytes(chip, convert, sizeof convert);
	return status;
}
