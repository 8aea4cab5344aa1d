/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "twin_config.h"

#include "device.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND 1000000000
#define MIN_WINDOW_NS 1000
#define MOST_SECONDS 3600

const char twin_config_help[] =
	"file=PATH      (required) Backing file; made sparse if it is not there.\n"
	"size=SIZE      (required) Size of the drive.\n"
	"serial=TEXT    (required) Serial number, as the control socket reports it.\n"
	"control=PATH   (required) Unix socket that reports true figures and switches the power.\n"
	"rail=NAME,VOLTS,OHMS,IDLE_W,READ_J_PER_B,WRITE_J_PER_B,COMMAND_J,FLUSH_J[,ACTIVE_W]\n"
	"               (required, up to 4 times) A supply rail.\n"
	"window=NS      Grid of the window means (default 1000000).\n"
	"activity=NS    Shortest time an operation draws power (default 500000).\n"
	"write_cache=SIZE  Volatile write cache (default 0: none).\n"
	"destage=NS     Age at which a cached write becomes durable, 0: none (default 5000000000).\n"
	"holdup=NS      How long a rail may be off before the drive stops (default 2000000).\n"
	"ready=NS       From power on until operations work (default 0).\n"
	"plp=no|yes     On a power cut the write cache becomes durable (default no).\n"
	"lie=none|flush Flush and FUA are acknowledged and make nothing durable (default none).\n"
	"cut_seed=N     Seed of what a cut loses (default: the kernel's randomness).\n"
	"cut_mode=none|all|random|torn|reordered\n"
	"               Which unflushed writes a cut loses (default: any of these).\n"
	"ambient_celsius=C, kelvin_per_watt=K, thermal_seconds=S\n"
	"               Temperature: C + K x watts, with time constant S (default 25, 5, 120).\n"
	"model=null|flash|disk\n"
	"               Model of time (default null: none), with its own parameters.\n"
	"doze=IDLE_NS,ENTRY_NS,EXIT_NS\n"
	"               (up to 6 times) A power state that the idle drive enters.\n"
	"doze_watts=RAIL,WATTS,...\n"
	"               What a rail draws in each of these, instead of its IDLE_W.\n"
	"work=RAIL,gc|fold|seek|spin_up|wake,JOULES_PER_BYTE,WATTS\n"
	"               What a rail draws for the drive's own work.\n"
	"operations=PATH  Log of the operations that the drive takes (default: none).";

static int set_path(char **path, const char *key, const char *value)
{
	if (*value == '\0') {
		nbdkit_error("%s=: a path must be given", key);
		return -1;
	}
	free(*path);
	/* nbdkit leaves the directory it was started in. */
	*path = nbdkit_absolute_path(value);
	return *path ? 0 : -1;
}

static int set_ns(int64_t *ns, const char *key, const char *value, int64_t least, int64_t most)
{
	char *end;
	long long parsed;

	errno = 0;
	parsed = strtoll(value, &end, 10);
	if (end == value || *end != '\0' || errno || parsed < least || parsed > most) {
		nbdkit_error("%s=%s: allowed are whole nanoseconds from %" PRId64 " to %" PRId64, key,
			     value, least, most);
		return -1;
	}
	*ns = parsed;
	return 0;
}

static int set_flag(bool *flag, const char *key, const char *value, const char *no, const char *yes)
{
	if (strcmp(value, no) != 0 && strcmp(value, yes) != 0) {
		nbdkit_error("%s=%s: allowed are %s, %s", key, value, no, yes);
		return -1;
	}
	*flag = strcmp(value, yes) == 0;
	return 0;
}

static int set_write_cache(struct twin_config *config, const char *value)
{
	int64_t bytes = nbdkit_parse_size(value);

	if (bytes < 0 || bytes % CACHE_SECTOR) {
		nbdkit_error("write_cache=%s: allowed is a size in whole sectors of %d bytes, or 0", value,
			     CACHE_SECTOR);
		return -1;
	}
	config->cut.write_cache_bytes = (uint64_t)bytes;
	return 0;
}

static int set_cut_seed(struct twin_config *config, const char *value)
{
	char *end;

	errno = 0;
	config->cut.seed = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end != '\0' || errno) {
		nbdkit_error("cut_seed=%s: allowed is a whole number from 0 to %" PRIu64, value, UINT64_MAX);
		return -1;
	}
	config->cut.seeded = true;
	return 0;
}

static int set_cut_mode(struct twin_config *config, const char *value)
{
	if (!cache_loss_named(value, &config->cut.loss)) {
		nbdkit_error("cut_mode=%s: allowed are none, all, random, torn, reordered", value);
		return -1;
	}
	config->cut.has_loss = true;
	return 0;
}

/* The keys of what happens to data when the power is cut: 1 where it is none. */
static int set_cut(struct twin_config *config, const char *key, const char *value)
{
	const int64_t most_ns = (int64_t)MOST_SECONDS * NS_PER_SECOND;

	if (strcmp(key, "write_cache") == 0)
		return set_write_cache(config, value);
	if (strcmp(key, "destage") == 0)
		return set_ns(&config->cut.destage_ns, key, value, 0, most_ns);
	if (strcmp(key, "holdup") == 0)
		return set_ns(&config->cut.holdup_ns, key, value, 0, most_ns);
	if (strcmp(key, "ready") == 0)
		return set_ns(&config->cut.ready_ns, key, value, 0, most_ns);
	if (strcmp(key, "plp") == 0)
		return set_flag(&config->cut.plp, key, value, "no", "yes");
	if (strcmp(key, "lie") == 0)
		return set_flag(&config->cut.lies, key, value, "none", "flush");
	if (strcmp(key, "cut_seed") == 0)
		return set_cut_seed(config, value);
	if (strcmp(key, "cut_mode") == 0)
		return set_cut_mode(config, value);
	return 1;
}

static int set_number(double *number, const char *key, const char *value, double least, double most)
{
	char *end;
	double parsed = strtod(value, &end);

	if (end == value || *end != '\0' || !(parsed >= least && parsed <= most)) {
		nbdkit_error("%s=%s: allowed are numbers from %g to %g", key, value, least, most);
		return -1;
	}
	*number = parsed;
	return 0;
}

static int set_serial(struct twin_config *config, const char *value)
{
	size_t length = strlen(value);

	if (length == 0 || length > 40 ||
	    strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != length) {
		nbdkit_error("serial=%s: allowed are 1 to 40 letters, digits, '_', '.', '-'", value);
		return -1;
	}
	free(config->serial);
	config->serial = strdup(value);
	return config->serial ? 0 : -1;
}

static int add_rail(struct twin_config *config, const char *value)
{
	char error[512];

	if (config->rail_count == POWER_MAX_RAILS) {
		nbdkit_error("rail=%s: at most %d rails", value, POWER_MAX_RAILS);
		return -1;
	}
	if (!power_parse_rail(value, &config->rails[config->rail_count], error, sizeof error)) {
		nbdkit_error("%s", error);
		return -1;
	}
	for (unsigned r = 0; r < config->rail_count; r++) {
		if (strcmp(config->rails[r].name, config->rails[config->rail_count].name) == 0) {
			nbdkit_error("rail=%s: there is a rail of that name already", value);
			return -1;
		}
	}
	config->rail_count++;
	return 0;
}

/* 0, -1 where the value cannot be used, 1 where the key is none of the models'. */
static int set_model(struct twin_config *config, const char *key, const char *value)
{
	char error[512];
	int result;

	if (strcmp(key, "work") == 0)
		result = device_set_work(&config->energy, config->rails, config->rail_count, value, error,
					 sizeof error);
	else if (strcmp(key, "doze_watts") == 0)
		result = device_set_doze_watts(&config->energy, config->rails, config->rail_count, value, error,
					       sizeof error);
	else
		result = timing_set(&config->timing, key, value, error, sizeof error);
	if (result < 0)
		nbdkit_error("%s", error);
	return result;
}

int twin_config_set(struct twin_config *config, const char *key, const char *value)
{
	int result;

	if (strcmp(key, "file") == 0)
		return set_path(&config->backing_path, key, value);
	if (strcmp(key, "control") == 0)
		return set_path(&config->control_path, key, value);
	if (strcmp(key, "operations") == 0)
		return set_path(&config->operations_path, key, value);
	if (strcmp(key, "size") == 0) {
		config->size = nbdkit_parse_size(value);
		if (config->size > 0 && config->size % CACHE_SECTOR == 0)
			return 0;
		nbdkit_error("size=%s: allowed is a size above 0 in whole sectors of %d bytes, like 4294967296 or 4G",
			     value, CACHE_SECTOR);
		return -1;
	}
	if (strcmp(key, "serial") == 0)
		return set_serial(config, value);
	if (strcmp(key, "window") == 0)
		return set_ns(&config->window_ns, key, value, MIN_WINDOW_NS, NS_PER_SECOND);
	if (strcmp(key, "activity") == 0)
		return set_ns(&config->activity_ns, key, value, 1, NS_PER_SECOND);
	if (strcmp(key, "rail") == 0)
		return add_rail(config, value);
	if (strcmp(key, "ambient_celsius") == 0)
		return set_number(&config->thermal.ambient_celsius, key, value, -50, 100);
	if (strcmp(key, "kelvin_per_watt") == 0)
		return set_number(&config->thermal.kelvin_per_watt, key, value, 0, 100);
	if (strcmp(key, "thermal_seconds") == 0)
		return set_number(&config->thermal.seconds, key, value, 1e-3, 1e6);
	result = set_cut(config, key, value);
	if (result > 0)
		result = set_model(config, key, value);
	if (result > 0)
		nbdkit_error("%s=%s: allowed keys are file, size, serial, control, operations, window, activity, rail, "
			     "write_cache, destage, holdup, ready, plp, lie, cut_seed, cut_mode, "
			     "ambient_celsius, kelvin_per_watt, thermal_seconds, model, doze, work, doze_watts, "
			     "and those of the model", key, value);
	return result ? -1 : 0;
}

int twin_config_check(struct twin_config *config)
{
	const char *missing = !config->backing_path	? "file" :
			      config->size < 0		? "size" :
			      !config->serial		? "serial" :
			      !config->control_path	? "control" :
			      config->rail_count == 0	? "rail" :
							  NULL;
	char error[512];

	if (missing) {
		nbdkit_error("%s= is missing", missing);
		return -1;
	}
	config->timing.flash.plp = config->cut.plp;
	config->timing.flash.write_cache_bytes = config->timing.disk.write_cache_bytes =
		(int64_t)config->cut.write_cache_bytes;
	if (!timing_check(&config->timing, error, sizeof error)) {
		nbdkit_error("%s", error);
		return -1;
	}
	if (config->cut.lies && config->cut.write_cache_bytes == 0) {
		nbdkit_error("lie=flush: allowed with a write_cache above 0 only");
		return -1;
	}
	return 0;
}

void twin_config_free(struct twin_config *config)
{
	free(config->backing_path);
	free(config->control_path);
	free(config->operations_path);
	free(config->serial);
}
