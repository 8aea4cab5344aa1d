/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scpi.h"

#include "number.h"

#include <string.h>

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

void scpi_init(struct scpi *scpi, const struct scpi_command *const *tables, void *instrument,
	       uint8_t *out, size_t out_size)
{
	memset(scpi, 0, sizeof *scpi);
	scpi->tables = tables;
	scpi->instrument = instrument;
	scpi->out = out;
	scpi->out_size = out_size;
}

void scpi_push_error(struct scpi *scpi, enum scpi_error error)
{
	if (scpi->error_count == SCPI_ERRORS)
		scpi->errors[SCPI_ERRORS - 1] = SCPI_QUEUE_OVERFLOW;
	else
		scpi->errors[scpi->error_count++] = (int16_t)error;
}

enum scpi_error scpi_pop_error(struct scpi *scpi)
{
	enum scpi_error error = SCPI_OK;

	if (scpi->error_count) {
		error = (enum scpi_error)scpi->errors[0];
		scpi->error_count--;
		memmove(scpi->errors, scpi->errors + 1, scpi->error_count * sizeof *scpi->errors);
	}
	return error;
}

static uint8_t *reserve(struct scpi *scpi, size_t length)
{
	uint8_t *place = scpi->out + scpi->out_length;

	if (scpi->out_overflowed || length > scpi->out_size - scpi->out_length) {
		scpi->out_overflowed = true;
		return NULL;
	}
	scpi->out_length += length;
	return place;
}

void scpi_write_text(struct scpi *scpi, const char *text)
{
	size_t length = strlen(text);
	uint8_t *place = reserve(scpi, length);

	if (place)
		memcpy(place, text, length);
}

void scpi_write_unsigned(struct scpi *scpi, uint64_t value)
{
	char digits[21];
	size_t start = sizeof digits - 1;

	digits[start] = '\0';
	do {
		digits[--start] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	scpi_write_text(scpi, digits + start);
}

void scpi_write_float(struct scpi *scpi, float value)
{
	char text[NUMBER_SIZE];

	scpi_write_text(scpi, number_format(value, text));
}

uint8_t *scpi_write_block(struct scpi *scpi, size_t length)
{
	char header[] = "#0";
	size_t digits = 0;

	if (length == 0)
		return NULL;
	for (size_t rest = length; rest; rest /= 10)
		digits++;
	header[1] = (char)('0' + digits);
	scpi_write_text(scpi, header);
	scpi_write_unsigned(scpi, length);
	scpi->out_is_block = true;
	return reserve(scpi, length);
}

/* Matches one node of a pattern ("CHANnel#") to one of a header; both advance
 * behind it on success. */
static bool match_node(const char **pattern, const char **text, uint32_t *suffix)
{
	const char *p = *pattern, *t = *text;
	const char *text_end = t, *pattern_end = p;
	size_t short_length = 0, long_length, length;
	bool takes_number;

	while (*pattern_end && *pattern_end != ':' && *pattern_end != '?' && *pattern_end != '#')
		pattern_end++;
	long_length = (size_t)(pattern_end - p);
	while (short_length < long_length && upper(p[short_length]) == p[short_length])
		short_length++;
	takes_number = *pattern_end == '#';

	while (*text_end && *text_end != ':' && *text_end != '?' && !is_blank(*text_end) &&
	       !(takes_number && is_digit(*text_end)))
		text_end++;
	length = (size_t)(text_end - t);
	if (length != short_length && length != long_length)
		return false;
	for (size_t n = 0; n < length; n++)
		if (upper(t[n]) != upper(p[n]))
			return false;
	if (takes_number) {
		pattern_end++;
		if (is_digit(*text_end))
			*suffix = 0;
		while (is_digit(*text_end) && *suffix < 100000)
			*suffix = *suffix * 10 + (uint32_t)(*text_end++ - '0');
	}
	*pattern = pattern_end;
	*text = text_end;
	return true;
}

/* Returns where the parameter starts, or NULL when the header is another. */
static const char *match_header(const char *pattern, const char *text, uint32_t *suffix)
{
	unsigned suffixes = 0;

	if (*text == ':' && *pattern != '*')
		text++;
	for (;;) {
		uint32_t ignored = 1;
		bool takes_number = strchr(pattern, '#') != NULL && suffixes < SCPI_MAX_SUFFIXES;
		const char *before = pattern;

		if (!match_node(&pattern, &text, takes_number ? &suffix[suffixes] : &ignored))
			return NULL;
		if (pattern > before && pattern[-1] == '#')
			suffixes++;
		if (*pattern == ':' && *text == ':') {
			pattern++;
			text++;
			continue;
		}
		if (*pattern == '?') {
			if (*text != '?')
				return NULL;
			pattern++;
			text++;
		}
		if (*pattern != '\0' || (*text != '\0' && !is_blank(*text)))
			return NULL;
		while (is_blank(*text))
			text++;
		return text;
	}
}

bool scpi_equal(const char *text, const char *pattern)
{
	uint32_t suffix = 1;

	return match_node(&pattern, &text, &suffix) && *text == '\0' && *pattern == '\0';
}

bool scpi_parse_float(const char *text, float *value)
{
	return number_parse(&text, value) && *text == '\0';
}

bool scpi_parse_bool(const char *text, bool *value)
{
	if (scpi_equal(text, "ON") || scpi_equal(text, "1"))
		*value = true;
	else if (scpi_equal(text, "OFF") || scpi_equal(text, "0"))
		*value = false;
	else
		return false;
	return true;
}

bool scpi_put(struct scpi *scpi, uint8_t byte)
{
	if (scpi->line_complete)
		return false;
	if (byte == '\n') {
		while (scpi->line_length && (scpi->line[scpi->line_length - 1] == '\r' ||
					     is_blank(scpi->line[scpi->line_length - 1])))
			scpi->line_length--;
		scpi->line[scpi->line_length] = '\0';
		if (scpi->line_overflowed) {
			/* What was cut off might have changed the meaning. */
			scpi_push_error(scpi, SCPI_INPUT_OVERRUN);
			scpi->line_length = 0;
			scpi->line_overflowed = false;
			return true;
		}
		scpi->line_complete = true;
		scpi->unit = 0;
		scpi->out_length = 0;
		scpi->out_is_block = false;
		scpi->out_overflowed = false;
		return true;
	}
	if (scpi->line_length + 1 < SCPI_LINE_SIZE)
		scpi->line[scpi->line_length++] = (char)byte;
	else
		scpi->line_overflowed = true;
	return true;
}

static enum scpi_outcome run_unit(struct scpi *scpi, const char *text, int64_t now_ns)
{
	size_t out_before = scpi->out_length;

	while (is_blank(*text))
		text++;
	if (*text == '\0')
		return SCPI_DONE;
	for (unsigned table = 0; scpi->tables[table]; table++) {
		const struct scpi_command *command = scpi->tables[table];

		for (; command->pattern; command++) {
			struct scpi_call call = { .instrument = scpi->instrument,
						  .suffix = { 1, 1 },
						  .now_ns = now_ns };
			enum scpi_outcome outcome;

			call.parameter = match_header(command->pattern, text, call.suffix);
			if (!call.parameter)
				continue;
			if (scpi->waiting)
				call.waiting_ns = now_ns - scpi->wait_began_ns;
			if (out_before)
				scpi_write_text(scpi, ";");
			outcome = command->handler(scpi, &call);
			/* The separator is for replies only. */
			if (out_before && scpi->out_length == out_before + 1)
				scpi->out_length = out_before;
			if (outcome == SCPI_LATER && !scpi->waiting) {
				scpi->waiting = true;
				scpi->wait_began_ns = now_ns;
			}
			if (outcome == SCPI_DONE)
				scpi->waiting = false;
			return outcome;
		}
	}
	scpi_push_error(scpi, SCPI_UNDEFINED_HEADER);
	return SCPI_DONE;
}

bool scpi_is_waiting(const struct scpi *scpi)
{
	return scpi->waiting;
}

const uint8_t *scpi_run(struct scpi *scpi, int64_t now_ns, size_t *length)
{
	if (!scpi->line_complete)
		return NULL;
	while (scpi->unit <= scpi->line_length) {
		char *unit = scpi->line + scpi->unit;

		/* Once only: the blanks cut off here hide the length later. */
		if (!scpi->waiting) {
			scpi->unit_length = strcspn(unit, ";");
			unit[scpi->unit_length] = '\0';
			for (size_t n = scpi->unit_length; n && is_blank(unit[n - 1]); n--)
				unit[n - 1] = '\0';
		}
		if (run_unit(scpi, unit, now_ns) == SCPI_LATER)
			return NULL;
		scpi->unit += scpi->unit_length + 1;
	}
	scpi->line_complete = false;
	scpi->line_length = 0;
	if (scpi->out_length && !scpi->out_is_block)
		scpi_write_text(scpi, "\n");
	if (scpi->out_overflowed) {
		scpi_push_error(scpi, SCPI_RESPONSE_TOO_LONG);
		return NULL;
	}
	if (scpi->out_length == 0)
		return NULL;
	*length = scpi->out_length;
	return scpi->out;
}
