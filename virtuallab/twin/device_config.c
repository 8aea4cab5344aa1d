/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parameters of what the drive's own work costs. */
#include "device.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number at *text up to a comma or the end; *text goes behind it. */
static bool parse_number(const char **text, double *number)
{
	char *end;

	errno = 0;
	*number = strtod(*text, &end);
	if (end == *text || errno || !isfinite(*number) || *number < 0 || (*end != ',' && *end != '\0'))
		return false;
	*text = *end == ',' ? end + 1 : end;
	return true;
}

/* The number of the rail named before the first comma; rail_count: none. */
static unsigned find_rail(const struct power_rail *rails, unsigned rail_count, const char *value,
			  const char **rest)
{
	size_t length = strcspn(value, ",");
	unsigned rail = 0;

	while (rail < rail_count &&
	       (strlen(rails[rail].name) != length || strncmp(rails[rail].name, value, length) != 0))
		rail++;
	*rest = value + length + (value[length] == ',');
	return rail;
}

int device_set_work(struct work_energy *energy, const struct power_rail *rails, unsigned rail_count,
		    const char *value, char *error, size_t error_size)
{
	const char *rest;
	unsigned rail = find_rail(rails, rail_count, value, &rest);
	size_t length = strcspn(rest, ",");
	double joules_per_byte, watts;

	for (enum work_cause cause = 0; rail < rail_count && cause < WORK_CAUSES; cause++) {
		const char *numbers = rest + length + 1;

		if (strlen(work_cause_name(cause)) != length || rest[length] != ',' ||
		    strncmp(work_cause_name(cause), rest, length) != 0 ||
		    !parse_number(&numbers, &joules_per_byte) || !parse_number(&numbers, &watts) ||
		    *numbers != '\0')
			continue;
		energy->of[cause][rail].joules_per_byte = joules_per_byte;
		energy->of[cause][rail].watts = watts;
		return 0;
	}
	snprintf(error, error_size,
		 "work=%s: allowed is RAIL,gc|fold|seek|spin_up|wake,JOULES_PER_BYTE,WATTS of a rail that is given"
		 " before", value);
	return -1;
}

int device_set_watts(double watts[][POWER_MAX_RAILS], unsigned most, const struct power_rail *rails,
		     unsigned rail_count, const char *key, const char *value, char *error,
		     size_t error_size)
{
	const char *rest;
	unsigned rail = find_rail(rails, rail_count, value, &rest), state = 0;

	while (rail < rail_count && state < most && *rest != '\0') {
		if (!parse_number(&rest, &watts[state][rail]))
			break;
		state++;
	}
	if (rail < rail_count && *rest == '\0' && state > 0)
		return 0;
	snprintf(error, error_size,
		 "%s=%s: allowed is RAIL,WATTS,... of a rail that is given before, a number for each %.*s=", key,
		 value, (int)strcspn(key, "_"), key);
	return -1;
}
