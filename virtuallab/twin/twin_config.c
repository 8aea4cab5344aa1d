/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "twin_config.h"

#include "device.h"
#include "nvme/controller.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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
	"throttle=ENTER_C,LEAVE_C,RATE,WATTS\n"
	"               (up to 2 times) A hot drive works at these fractions (default: never).\n"
	"model=null|flash|disk\n"
	"               Model of time (default null: none), with its own parameters.\n"
	"doze=IDLE_NS,ENTRY_NS,EXIT_NS\n"
	"               (up to 6 times) A power state that the idle drive enters.\n"
	"doze_watts=RAIL,WATTS,...\n"
	"declared_watts=STATE,WATTS\n"
	"               (any number of times) What an NVMe host reads of a power state.\n"
	"               What a rail draws in each of these, instead of its IDLE_W.\n"
	"work=RAIL,gc|fold|seek|spin_up|wake,JOULES_PER_BYTE,WATTS\n"
	"               What a rail draws for the drive's own work.\n"
	"operational=ENTRY_NS,EXIT_NS[,RATE]\n"
	"               (up to 4 times) A power state to work in; RATE: fraction of the link's rates.\n"
	"operational_watts=RAIL,WATTS,..., operational_idle_watts=RAIL,WATTS,...\n"
	"               The most that a rail draws in each of these; without operations.\n"
	"operating=N    The one after power on (default 0).\n"
	"nvme=ADDRESS:PORT  NVMe/TCP target for the drive (default: none).\n"
	"nvme_name=NQN|+FILE, nvme_model=TEXT, nvme_eui64=16 HEX DIGITS\n"
	"               What the host sees of it; the name must be given.\n"
	"reports=energy,FACTOR[,PERCENT]|flaw,NAME|ocp|written,FACTOR|temperature,KELVINS\n"
	"               (several times) What an NVMe host reads of power and health (default: no power).\n"
	"rated_erases=N Erases that a cell is rated for: percentage used (default: none).\n"
	"operations=PATH  Log of the operations that the drive takes (default: none).\n"
	"writes=PATH    Log of its writes with their data, as of dm-log-writes (default: none).";

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

/* ENTRY_NS,EXIT_NS[,RATE] of the next operational state. */
static int add_operational(struct twin_config *config, const char *value)
{
	struct power_state state = { .rate = 1 };
	long long entry_ns, exit_ns;
	int used = 0;

	if (config->states.operational_count == POWER_STATES_MOST_OPERATIONAL) {
		nbdkit_error("operational=%s: at most %d power states", value, POWER_STATES_MOST_OPERATIONAL);
		return -1;
	}
	if (sscanf(value, "%lld,%lld%n,%lf%n", &entry_ns, &exit_ns, &used, &state.rate, &used) < 2 ||
	    value[used] != '\0' || entry_ns < 0 || entry_ns > NS_PER_SECOND || exit_ns < 0 ||
	    exit_ns > NS_PER_SECOND || !(state.rate >= 0.01 && state.rate <= 1)) {
		nbdkit_error("operational=%s: allowed is ENTRY_NS,EXIT_NS[,RATE], whole numbers up to %d and a"
			     " fraction from 0.01 to 1", value, NS_PER_SECOND);
		return -1;
	}
	state.entry_ns = entry_ns;
	state.exit_ns = exit_ns;
	config->states.of[config->states.operational_count++] = state;
	return 0;
}

/* Puts a new text, NULL where there is no memory for it, in place of the one before. */
static int set_text(char **text, const char *key, char *value, size_t most)
{
	free(*text);
	*text = value;
	if (value && *value != '\0' && strlen(value) <= most)
		return 0;
	nbdkit_error("%s: allowed are 1 to %zu characters", key, most);
	return -1;
}

/* 0, -1 where the value cannot be used, 1 where the key is none of NVMe's. */
static int set_nvme(struct twin_config *config, const char *key, const char *value)
{
	char *name = NULL, *end;

	if (strcmp(key, "nvme") == 0)
		return set_text(&config->nvme.address, key, strdup(value), NVME_NAME_BYTES - 1);
	if (strcmp(key, "nvme_model") == 0)
		return set_text(&config->nvme.model, key, strdup(value), 40);
	/* Who has the name has the drive: it can be read from a file. */
	if (strcmp(key, "nvme_name") == 0)
		return nbdkit_read_password(value, &name) < 0 ? -1 : set_text(&config->nvme.name, key, name,
									      NVME_NAME_BYTES - 1);
	if (strcmp(key, "nvme_eui64") != 0)
		return 1;
	config->nvme.eui64 = strtoull(value, &end, 16);
	if (strlen(value) != 16 || *end != '\0' || strspn(value, "0123456789abcdefABCDEF") != 16) {
		nbdkit_error("nvme_eui64=%s: allowed are 16 hexadecimal digits", value);
		return -1;
	}
	return 0;
}

/* STATE,WATTS: what the host reads of a power state, whatever it draws. */
static int set_declared(double *watts, const char *value, char *error, size_t error_bytes)
{
	unsigned state;
	double declared;
	int used = 0;

	if (sscanf(value, "%u,%lf%n", &state, &declared, &used) < 2 || value[used] != '\0' ||
	    state >= POWER_STATES_MOST || !(declared > 0 && declared <= 600)) {
		snprintf(error, error_bytes, "declared_watts=%s: allowed is STATE,WATTS: 0 to %d, up to 600", value,
			 POWER_STATES_MOST - 1);
		return -1;
	}
	watts[state] = declared;
	return 0;
}

/* 0, -1 where the value cannot be used, 1 where the key is none of the models'. */
static int set_model(struct twin_config *config, const char *key, const char *value)
{
	char error[512];
	int result;

	if (strcmp(key, "operational") == 0)
		return add_operational(config, value);
	if (strcmp(key, "throttle") == 0)
		result = throttle_add(&config->throttle, value, error, sizeof error) ? 0 : -1;
	else if (strcmp(key, "reports") == 0)
		result = self_report_set(&config->reports, value, error, sizeof error) ? 0 : -1;
	else if (strcmp(key, "operational_watts") == 0)
		result = device_set_watts(config->operational_watts, POWER_STATES_MOST_OPERATIONAL, config->rails,
					  config->rail_count, key, value, error, sizeof error);
	else if (strcmp(key, "operational_idle_watts") == 0)
		result = device_set_watts(config->operational_idle_watts, POWER_STATES_MOST_OPERATIONAL,
					  config->rails, config->rail_count, key, value, error, sizeof error);
	else if (strcmp(key, "work") == 0)
		result = device_set_work(&config->energy, config->rails, config->rail_count, value, error,
					 sizeof error);
	else if (strcmp(key, "declared_watts") == 0)
		result = set_declared(config->declared_watts, value, error, sizeof error);
	else if (strcmp(key, "doze_watts") == 0)
		result = device_set_watts(config->doze_watts, DOZE_MAX_STATES, config->rails, config->rail_count,
					  key, value, error, sizeof error);
	else
		result = timing_set(&config->timing, key, value, error, sizeof error);
	if (result < 0)
		nbdkit_error("%s", error);
	return result;
}

static int set_operating(struct twin_config *config, const char *value)
{
	if (value[0] < '0' || value[0] > '9' || value[1] != '\0') {
		nbdkit_error("operating=%s: allowed is the number of an operational power state", value);
		return -1;
	}
	config->states.initial = (unsigned)(value[0] - '0');
	return 0;
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
	if (strcmp(key, "writes") == 0)
		return set_path(&config->writes_path, key, value);
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
	if (strcmp(key, "rated_erases") == 0)
		return set_number(&config->rated_erases, key, value, 1, 1e9);
	if (strcmp(key, "operating") == 0)
		return set_operating(config, value);
	result = set_cut(config, key, value);
	if (result > 0)
		result = set_nvme(config, key, value);
	if (result > 0)
		result = set_model(config, key, value);
	if (result > 0)
		nbdkit_error("%s=%s: allowed keys are file, size, serial, control, operations, writes, window, activity, rail, "
			     "write_cache, destage, holdup, ready, plp, lie, cut_seed, cut_mode, "
			     "ambient_celsius, kelvin_per_watt, thermal_seconds, throttle, model, doze, work, doze_watts, declared_watts, "
			     "operational, operational_watts, operational_idle_watts, operating, rated_erases, reports, "
			     "nvme, nvme_name, nvme_model, nvme_eui64, "
			     "and those of the model", key, value);
	return result ? -1 : 0;
}

/* The watts of the operational states: those given, or the only one's, which are the rails'. */
static int complete_operational(struct twin_config *config)
{
	struct power_states *states = &config->states;
	bool is_given = states->operational_count > 0;

	if (!is_given)
		states->of[states->operational_count++] = (struct power_state){ .rate = 1 };
	for (unsigned n = 0; n < states->operational_count; n++) {
		for (unsigned r = 0; r < config->rail_count; r++) {
			const struct power_rail *rail = &config->rails[r];
			double given_idle = config->operational_idle_watts[n][r];
			double idle = given_idle > 0 ? given_idle : rail->idle_watts;
			double active = is_given ? config->operational_watts[n][r] - idle : rail->active_watts;

			if (!(active > 0) || (rail->ohms > 0 && idle + active > rail->volts * rail->volts /
										(4 * rail->ohms))) {
				nbdkit_error("operational_watts: state %u, rail %s: allowed is more than its %g W "
					     "without operations, and what can be drawn through %g ohms", n,
					     rail->name, idle, rail->ohms);
				return -1;
			}
			states->of[n].idle_watts[r] = idle;
			states->of[n].active_watts[r] = active;
		}
	}
	if (states->initial >= states->operational_count) {
		nbdkit_error("operating=%u: there are %u operational power states", states->initial,
			     states->operational_count);
		return -1;
	}
	return 0;
}

/* The states to rest in follow the others, each entered from the one before. */
static void complete_resting(struct twin_config *config)
{
	struct power_states *states = &config->states;
	unsigned first = states->operational_count;

	states->count = first + config->timing.state_count;
	for (unsigned n = 0; n < config->timing.state_count; n++) {
		const struct doze_state *doze = &config->timing.states[n];
		struct power_state *state = &states->of[first + n];

		*state = (struct power_state){ .entry_ns = doze->entry_ns, .exit_ns = doze->exit_ns };
		memcpy(state->idle_watts, config->doze_watts[n], sizeof state->idle_watts);
		if (n > 0)
			states->defaults[first + n - 1] = (struct power_transition){
				.to = first + n, .idle_ns = doze->idle_ns - doze[-1].idle_ns };
	}
	for (unsigned n = 0; n < first && config->timing.state_count; n++)
		states->defaults[n] = (struct power_transition){ .to = first,
								 .idle_ns = config->timing.states[0].idle_ns };
	for (unsigned n = 0; n < states->count; n++)
		states->of[n].declared_watts = config->declared_watts[n];
	power_states_reset(states);
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
	if (complete_operational(config) < 0)
		return -1;
	complete_resting(config);
	if (config->nvme.address && !config->nvme.name) {
		nbdkit_error("nvme_name= is missing: nvme=%s needs it", config->nvme.address);
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
	free(config->writes_path);
	free(config->serial);
	free(config->nvme.address);
	free(config->nvme.name);
	free(config->nvme.model);
}
