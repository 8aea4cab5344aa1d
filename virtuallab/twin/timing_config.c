/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parameters of the model of time, as nbdkit gets them: a table. */
#include "timing.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_NS 3600000000000LL
#define GIB (1LL << 30)

enum type { WHOLE, REAL };

struct parameter {
	const char *key;
	enum timing_model model; /* that has it */
	enum type type;
	size_t field_offset; /* in struct timing_config */
	double least, most;
	bool optional; /* 0 where it is not given */
};

#define FLASH(key, type, member, least, most, optional) \
	{ key, TIMING_FLASH, type, offsetof(struct timing_config, flash.member), least, most, optional }
#define DISK(key, type, member, least, most, optional) \
	{ key, TIMING_DISK, type, offsetof(struct timing_config, disk.member), least, most, optional }

static const struct parameter parameters[] = {
	FLASH("channels", WHOLE, channels, 1, FLASH_MAX_CHANNELS, false),
	FLASH("page_bytes", WHOLE, page_bytes, FTL_PAGE_BYTES, 1 << 20, false),
	FLASH("read_command_ns", WHOLE, read_command_ns, 0, 1e9, false),
	FLASH("write_command_ns", WHOLE, write_command_ns, 0, 1e9, false),
	FLASH("flush_ns", WHOLE, flush_ns, 0, 1e9, false),
	FLASH("page_read_ns", WHOLE, page_read_ns, 1, 1e9, false),
	FLASH("short_read_ns", WHOLE, short_read_ns, 0, 1e9, true),
	FLASH("next_page_ns", WHOLE, next_page_ns, 0, 1e9, true),
	FLASH("block_pages", WHOLE, block_pages, 0, 1 << 20, true),
	FLASH("moved_apart", WHOLE, moved_apart, 0, 1, true),
	FLASH("program_ns", WHOLE, program_ns, 1, 1e9, false),
	FLASH("slc_program_ns", WHOLE, slc_program_ns, 1, 1e9, true),
	FLASH("erase_ns", WHOLE, erase_ns, 0, 1e9, false),
	FLASH("fold_delay_ns", WHOLE, fold_delay_ns, 0, (double)HOUR_NS, true),
	FLASH("read_bytes_per_second", REAL, read_bytes_per_second, 1e6, 1e11, false),
	FLASH("write_bytes_per_second", REAL, write_bytes_per_second, 1e6, 1e11, false),
	FLASH("overprovisioning", REAL, overprovisioning, 0.01, 10, false),
	FLASH("slc_fraction", REAL, slc_fraction, 0, 1, true),
	DISK("rpm", WHOLE, rpm, 1000, 30000, false),
	DISK("heads", WHOLE, heads, 1, 32, false),
	DISK("zones", WHOLE, zones, 1, DISK_MAX_ZONES, false),
	DISK("track_to_track_ns", WHOLE, track_to_track_ns, 1, 1e9, false),
	DISK("average_seek_ns", WHOLE, average_seek_ns, 1, 1e9, false),
	DISK("full_stroke_ns", WHOLE, full_stroke_ns, 1, 1e9, false),
	DISK("head_switch_ns", WHOLE, head_switch_ns, 0, 1e9, false),
	DISK("command_ns", WHOLE, command_ns, 0, 1e9, false),
	DISK("outer_bytes_per_second", REAL, outer_bytes_per_second, 1e6, 1e10, false),
	DISK("inner_bytes_per_second", REAL, inner_bytes_per_second, 1e6, 1e10, false),
	DISK("link_bytes_per_second", REAL, link_bytes_per_second, 1e6, 1e11, false),
	DISK("read_ahead_bytes", WHOLE, read_ahead_bytes, 0, (double)GIB, false),
};

#define PARAMETERS (sizeof parameters / sizeof *parameters)

static const char *const model_names[] = { "null", "flash", "disk" };

static int set_model(struct timing_config *config, const char *value, char *error, size_t error_size)
{
	for (unsigned m = 0; m < 3; m++) {
		if (strcmp(value, model_names[m]) == 0) {
			config->model = (enum timing_model)m;
			return 0;
		}
	}
	snprintf(error, error_size, "model=%s: allowed are null, flash, disk", value);
	return -1;
}

/* idle_ns,entry_ns,exit_ns of the next power state. */
static int add_state(struct timing_config *config, const char *value, char *error, size_t error_size)
{
	int64_t fields[3];
	const char *text = value;

	if (config->state_count == DOZE_MAX_STATES) {
		snprintf(error, error_size, "doze=%s: at most %d power states", value, DOZE_MAX_STATES);
		return -1;
	}
	for (unsigned n = 0; n < 3; n++) {
		char *end;

		errno = 0;
		fields[n] = strtoll(text, &end, 10);
		if (end == text || errno || fields[n] < 0 || fields[n] > HOUR_NS ||
		    *end != (n < 2 ? ',' : '\0')) {
			snprintf(error, error_size,
				 "doze=%s: allowed is idle_ns,entry_ns,exit_ns, each a whole number up to %lld",
				 value, HOUR_NS);
			return -1;
		}
		text = end + 1;
	}
	if (config->state_count && fields[0] <= config->states[config->state_count - 1].idle_ns) {
		snprintf(error, error_size, "doze=%s: idle_ns must be above that of the state before", value);
		return -1;
	}
	config->states[config->state_count++] =
		(struct doze_state){ .idle_ns = fields[0], .entry_ns = fields[1], .exit_ns = fields[2] };
	return 0;
}

static void store(struct timing_config *config, const struct parameter *parameter, double number,
		  int64_t whole)
{
	char *field = (char *)config + parameter->field_offset;

	if (parameter->type == WHOLE)
		memcpy(field, &whole, sizeof whole);
	else
		memcpy(field, &number, sizeof number);
}

int timing_set(struct timing_config *config, const char *key, const char *value, char *error,
	       size_t error_size)
{
	int unknown = 1;

	if (strcmp(key, "model") == 0)
		return set_model(config, value, error, error_size);
	if (strcmp(key, "doze") == 0)
		return add_state(config, value, error, error_size);
	for (unsigned n = 0; n < PARAMETERS; n++) {
		const struct parameter *parameter = &parameters[n];
		char *end;
		double number;

		if (strcmp(key, parameter->key) != 0)
			continue;
		errno = 0;
		number = strtod(value, &end);
		if (end == value || *end != '\0' || errno || !isfinite(number) ||
		    number < parameter->least || number > parameter->most ||
		    (parameter->type == WHOLE && number != floor(number))) {
			snprintf(error, error_size, "%s=%s: allowed are %s from %.12g to %.12g", key, value,
				 parameter->type == REAL ? "numbers" : "whole numbers",
				 parameter->least, parameter->most);
			return -1;
		}
		store(config, parameter, number, (int64_t)number);
		unknown = 0; /* a hard disk and an SSD may both have it */
	}
	return unknown;
}

static bool is_given(const struct timing_config *config, const struct parameter *parameter)
{
	static const char zero[sizeof(int64_t)];

	return memcmp((const char *)config + parameter->field_offset, zero, sizeof zero) != 0;
}

bool timing_check(const struct timing_config *config, char *error, size_t error_size)
{
	for (unsigned n = 0; n < PARAMETERS; n++) {
		const struct parameter *parameter = &parameters[n];

		if (parameter->model == config->model && !parameter->optional && parameter->least > 0 &&
		    !is_given(config, parameter)) {
			snprintf(error, error_size, "%s= is missing: model=%s needs it", parameter->key,
				 model_names[config->model]);
			return false;
		}
	}
	if (config->model == TIMING_FLASH) {
		const struct flash_config *flash = &config->flash;

		if (flash->page_bytes % FTL_PAGE_BYTES) {
			snprintf(error, error_size, "page_bytes=%" PRId64 ": allowed are multiples of %d",
				 flash->page_bytes, FTL_PAGE_BYTES);
			return false;
		}
		if (flash->write_cache_bytes && flash->write_cache_bytes < 4 * flash->page_bytes) {
			snprintf(error, error_size,
				 "write_cache=%" PRId64 ": allowed are 0 and at least four pages, %" PRId64,
				 flash->write_cache_bytes, 4 * flash->page_bytes);
			return false;
		}
		if (flash->short_read_ns > flash->page_read_ns) {
			snprintf(error, error_size,
				 "short_read_ns=%" PRId64 ": allowed is at most page_read_ns, %" PRId64,
				 flash->short_read_ns, flash->page_read_ns);
			return false;
		}
		if (flash->block_pages & (flash->block_pages - 1)) {
			snprintf(error, error_size, "block_pages=%" PRId64 ": allowed are 0 and powers of two",
				 flash->block_pages);
			return false;
		}
		if (flash->slc_fraction > 0 && flash->slc_program_ns == 0) {
			snprintf(error, error_size, "slc_program_ns= is missing: slc_fraction needs it");
			return false;
		}
	}
	if (config->model == TIMING_DISK && !disk_seeks_fit(&config->disk)) {
		snprintf(error, error_size,
			 "average_seek_ns=%" PRId64 ": no seek curve has it with these track_to_track_ns and"
			 " full_stroke_ns", config->disk.average_seek_ns);
		return false;
	}
	return true;
}
