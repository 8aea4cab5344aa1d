/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "throttle.h"

#include <stdio.h>

static bool is_fraction(double number)
{
	return number >= 0.01 && number <= 1;
}

bool throttle_add(struct throttle *throttle, const char *text, char *error, unsigned long error_size)
{
	struct throttle_level level;
	int used = 0;

	if (throttle->count == THROTTLE_LEVELS) {
		snprintf(error, error_size, "throttle=%s: at most %d levels", text, THROTTLE_LEVELS);
		return false;
	}
	if (sscanf(text, "%lf,%lf,%lf,%lf%n", &level.enter_celsius, &level.leave_celsius, &level.rate, &level.watts,
		   &used) != 4 ||
	    text[used] != '\0' || !(level.enter_celsius <= 200 && level.leave_celsius < level.enter_celsius &&
				    level.leave_celsius >= -50) ||
	    !is_fraction(level.rate) || !is_fraction(level.watts)) {
		snprintf(error, error_size,
			 "throttle=%s: allowed is ENTER,LEAVE,RATE,WATTS: degrees Celsius up to 200, LEAVE below ENTER, and"
			 " two fractions from 0.01 to 1", text);
		return false;
	}
	if (throttle->count > 0 && level.enter_celsius <= throttle->of[throttle->count - 1].enter_celsius) {
		snprintf(error, error_size, "throttle=%s: allowed is a level that is entered above %g degrees, where the"
					    " one before it is", text,
			 throttle->of[throttle->count - 1].enter_celsius);
		return false;
	}
	throttle->of[throttle->count++] = level;
	return true;
}

bool throttle_step(struct throttle *throttle, double seconds, double celsius)
{
	unsigned level = throttle->level;

	if (level > 0)
		throttle->counts.seconds[level - 1] += seconds;
	while (level > 0 && celsius < throttle->of[level - 1].leave_celsius)
		level--;
	while (level < throttle->count && celsius >= throttle->of[level].enter_celsius)
		throttle->counts.entered[level++]++;
	if (level == throttle->level)
		return false;
	throttle->level = level;
	return true;
}

struct throttle_level throttle_now(const struct throttle *throttle)
{
	if (throttle->level == 0)
		return (struct throttle_level){ .rate = 1, .watts = 1 };
	return throttle->of[throttle->level - 1];
}
