/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "control_requests.h"

#include "device.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A time or a count has at most 20 characters, a joule figure 29: the reply must fit. */
#define MAX_TIMES 4096
_Static_assert(MAX_TIMES * (21 + POWER_MAX_RAILS * (1 + POWER_CAUSES) * 30 + COUNTERS * 21) + 4096 <
		       CONTROL_REPLY_SIZE, "reply fits");

/* Only the control socket's thread is here, so one is enough. */
static struct {
	unsigned count;
	int64_t real_ns[MAX_TIMES];
	double joules[MAX_TIMES][POWER_MAX_RAILS];
	double causes[MAX_TIMES][POWER_MAX_RAILS][POWER_CAUSES];
	uint64_t counters[MAX_TIMES][COUNTERS];
} history;

bool control_parse_ns(const char **text, int64_t *value)
{
	char *end;
	long long parsed;

	*text += strspn(*text, " ");
	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	parsed = strtoll(*text, &end, 10);
	if (errno || (*end != ' ' && *end != '\0'))
		return false;
	*text = end;
	*value = parsed;
	return true;
}

static bool parse_times(const char *arguments, struct json_writer *reply)
{
	history.count = 0;
	while (arguments[strspn(arguments, " ")] != '\0') {
		if (history.count == MAX_TIMES) {
			json_error_line(reply, "history: more than %d times", MAX_TIMES);
			return false;
		}
		if (!control_parse_ns(&arguments, &history.real_ns[history.count])) {
			json_error_line(reply, "history: times are nanoseconds, decimal");
			return false;
		}
		history.count++;
	}
	if (history.count == 0)
		json_error_line(reply, "history: no time given");
	return history.count > 0;
}

/* False where one of the times is not held. */
static bool look_up(const struct control_context *context)
{
	const struct clock_offset now = clock_offset_now();
	struct drive *drive = context->drive;
	bool held = true;

	for (unsigned n = 0; n < history.count && held; n++) {
		int64_t time_ns = clock_from_real(&context->clocks, &now, history.real_ns[n]);

		/* A look-up at a time, so that operations wait for one at most. */
		pthread_mutex_lock(&drive->lock);
		if (n == 0)
			device_advance(drive, clock_monotonic_ns());
		held = power_history(drive->power, time_ns, history.joules[n]) &&
		       power_cause_history(drive->power, time_ns, history.causes[n]) &&
		       counters_at(drive->counters, time_ns, history.counters[n]);
		pthread_mutex_unlock(&drive->lock);
	}
	return held;
}

static void refuse(struct drive *drive, struct json_writer *reply)
{
	int64_t oldest_ns, newest_ns, offset_ns;

	pthread_mutex_lock(&drive->lock);
	power_history_range(drive->power, &oldest_ns, &newest_ns);
	if (oldest_ns < counters_oldest_ns(drive->counters))
		oldest_ns = counters_oldest_ns(drive->counters);
	pthread_mutex_unlock(&drive->lock);
	offset_ns = clock_offset_now().offset_ns;
	json_error_line(reply, "history: held are %" PRId64 " to %" PRId64, oldest_ns + offset_ns,
			newest_ns + offset_ns);
}

static void write_rail(struct json_writer *reply, const struct power *power, unsigned rail)
{
	json_open(reply, NULL, '{');
	json_text(reply, "name", power_rail_name(power, rail));
	json_open(reply, "joules", '[');
	for (unsigned n = 0; n < history.count; n++)
		json_fixed(reply, NULL, history.joules[n][rail], 12);
	json_close(reply, ']');
	json_open(reply, "cause_joules", '{');
	for (enum power_cause c = 0; c < POWER_CAUSES; c++) {
		json_open(reply, power_cause_name(c), '[');
		for (unsigned n = 0; n < history.count; n++)
			json_fixed(reply, NULL, history.causes[n][rail][c], 12);
		json_close(reply, ']');
	}
	json_close(reply, '}');
	json_close(reply, '}');
}

void control_history(const struct control_context *context, const char *arguments,
		     struct json_writer *reply)
{
	const struct power *power = context->drive->power;

	if (!parse_times(arguments, reply))
		return;
	if (!look_up(context)) {
		refuse(context->drive, reply);
		return;
	}
	json_open(reply, NULL, '{');
	json_open(reply, "times_ns", '[');
	for (unsigned n = 0; n < history.count; n++)
		json_signed(reply, NULL, history.real_ns[n]);
	json_close(reply, ']');
	json_open(reply, "rails", '[');
	for (unsigned r = 0; r < power_rail_count(power); r++)
		write_rail(reply, power, r);
	json_close(reply, ']');
	json_open(reply, "counters", '{');
	for (enum counter c = 0; c < COUNTERS; c++) {
		json_open(reply, counter_name(c), '[');
		for (unsigned n = 0; n < history.count; n++)
			json_unsigned(reply, NULL, history.counters[n][c]);
		json_close(reply, ']');
	}
	json_close(reply, '}');
	json_close(reply, '}');
	json_raw(reply, "\n");
}
