/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "control_requests.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void control_write_cut(struct json_writer *reply, const char *key, const struct cut_report *report)
{
	json_open(reply, key, '{');
	json_signed(reply, "cut_ns", report->cut_ns);
	json_unsigned(reply, "dirty_bytes", report->cache.dirty_bytes);
	json_unsigned(reply, "lost_bytes", report->cache.lost_bytes);
	json_unsigned(reply, "lost_sectors", report->cache.lost_sectors);
	json_bool(reply, "held_up", report->held_up);
	json_unsigned(reply, "seed", report->seed);
	json_text(reply, "mode", cache_loss_name(report->loss));
	json_text(reply, "failure", report->failure ? strerror(report->failure) : "");
	json_close(reply, '}');
}

void control_power_off(const struct control_context *context, const char *arguments,
		       struct json_writer *reply)
{
	struct cut_report report;
	enum cache_loss loss;
	uint64_t seed;
	char *end;
	bool given = *arguments != '\0';

	errno = 0;
	seed = strtoull(arguments, &end, 10);
	if (given && (*arguments < '0' || *arguments > '9' || errno || *end != ' ' ||
		      !cache_loss_named(end + 1, &loss))) {
		json_error_line(reply, "power off: allowed are nothing, or SEED and one of none, all, "
				       "random, torn, reordered");
	} else if (!cut_power_off(context->drive->cut, given ? &seed : NULL, given ? &loss : NULL, &report)) {
		json_error_line(reply, "power off: the drive has no power");
	} else {
		control_write_cut(reply, NULL, &report);
		json_raw(reply, "\n");
	}
}

void control_power_on(const struct control_context *context, struct json_writer *reply)
{
	if (!cut_power_on(context->drive->cut)) {
		json_error_line(reply, "power on: all rails are on");
		return;
	}
	json_open(reply, NULL, '{');
	json_signed(reply, "on_ns", clock_monotonic_ns());
	json_close(reply, '}');
	json_raw(reply, "\n");
}

static void refuse_rail(const struct power *power, struct json_writer *reply)
{
	char names[POWER_MAX_RAILS * (POWER_RAIL_NAME_SIZE + 2) + 1] = "";

	for (unsigned r = 0; r < power_rail_count(power); r++) {
		strcat(names, r ? ", " : " ");
		strcat(names, power_rail_name(power, r));
	}
	json_error_line(reply, "rail: allowed are NAME, NAME off, NAME on, with NAME%s", names);
}

/* "NAME", "NAME off" or "NAME on". */
void control_rail(const struct control_context *context, const char *arguments,
		  struct json_writer *reply)
{
	const struct power *power = context->drive->power;
	const char *space = strchr(arguments, ' ');
	size_t length = space ? (size_t)(space - arguments) : strlen(arguments);
	bool on = space && strcmp(space, " on") == 0;
	struct cut_state cut;
	unsigned r = 0;

	while (r < power_rail_count(power) && (strlen(power_rail_name(power, r)) != length ||
					       strncmp(arguments, power_rail_name(power, r), length) != 0))
		r++;
	if (r == power_rail_count(power) || (space && !on && strcmp(space, " off") != 0)) {
		refuse_rail(power, reply);
		return;
	}
	if (space)
		cut_rail(context->drive->cut, r, on);
	cut_state(context->drive->cut, &cut);
	json_open(reply, NULL, '{');
	json_text(reply, "rail", power_rail_name(power, r));
	json_bool(reply, "on", cut.rail_on[r]);
	json_signed(reply, "switched_ns", cut.switched_ns[r]);
	json_close(reply, '}');
	json_raw(reply, "\n");
}
