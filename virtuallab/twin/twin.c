/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A virtual drive as an nbdkit plugin: a backing file, counters of what was
 * done to it, the time and the power that doing it took. README.md lists the
 * parameters.
 *
 * Threads. PARALLEL: the data go through cut.c, which locks for itself; the
 * counters and the models of time and power stand behind drive.lock, which is held
 * for the arithmetic of one operation only. An operation is put into the models
 * before its I/O begins, under that lock, so no energy is lost or counted twice
 * however operations interleave; it is counted, likewise in one call, when it has
 * succeeded and its time has come.
 */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "clock.h"
#include "control_socket.h"
#include "device.h"
#include "drive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#define NS_PER_SECOND 1000000000
#define DEFAULT_WINDOW_NS 1000000
#define DEFAULT_ACTIVITY_NS 500000
#define MIN_WINDOW_NS 1000
#define DEFAULT_DESTAGE_NS (5LL * NS_PER_SECOND)
#define DEFAULT_HOLDUP_NS 2000000
#define MOST_SECONDS 3600

static char *backing_path;
static char *control_path;
static char *serial;
static char *health_path; /* beside the backing file */
/* A drive in still air: free choices, those of the profile are its own. */
static struct thermal thermal = { .ambient_celsius = 25, .kelvin_per_watt = 5, .seconds = 120 };
static int64_t size = -1;
static int64_t window_ns = DEFAULT_WINDOW_NS;
static int64_t activity_ns = DEFAULT_ACTIVITY_NS;
static struct timing_config timing;
static struct power_rail rails[POWER_MAX_RAILS];
static unsigned rail_count;
static struct cut_settings cut_settings = { .destage_ns = DEFAULT_DESTAGE_NS,
					    .holdup_ns = DEFAULT_HOLDUP_NS };
/* The file system under the backing file can give space back. */
static bool punches;

static int backing = -1;
static struct control_socket *control;
static struct drive drive = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The write cache's memory comes and goes with every write: given back to the kernel
 * each time, it would have to be zeroed and mapped anew. */
static void twin_load(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

static void twin_unload(void)
{
	free(backing_path);
	free(control_path);
	free(serial);
	free(health_path);
}

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

static int set_write_cache(const char *value)
{
	int64_t bytes = nbdkit_parse_size(value);

	if (bytes < 0 || bytes % CACHE_SECTOR) {
		nbdkit_error("write_cache=%s: allowed is a size in whole sectors of %d bytes, or 0", value,
			     CACHE_SECTOR);
		return -1;
	}
	cut_settings.write_cache_bytes = (uint64_t)bytes;
	return 0;
}

static int set_cut_seed(const char *value)
{
	char *end;

	errno = 0;
	cut_settings.seed = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end != '\0' || errno) {
		nbdkit_error("cut_seed=%s: allowed is a whole number from 0 to %" PRIu64, value, UINT64_MAX);
		return -1;
	}
	cut_settings.seeded = true;
	return 0;
}

static int set_cut_mode(const char *value)
{
	if (!cache_loss_named(value, &cut_settings.loss)) {
		nbdkit_error("cut_mode=%s: allowed are none, all, random, torn, reordered", value);
		return -1;
	}
	cut_settings.has_loss = true;
	return 0;
}

/* The keys of what happens to data when the power is cut: 1 where it is none. */
static int set_cut(const char *key, const char *value)
{
	const int64_t most_ns = (int64_t)MOST_SECONDS * NS_PER_SECOND;

	if (strcmp(key, "write_cache") == 0)
		return set_write_cache(value);
	if (strcmp(key, "destage") == 0)
		return set_ns(&cut_settings.destage_ns, key, value, 0, most_ns);
	if (strcmp(key, "holdup") == 0)
		return set_ns(&cut_settings.holdup_ns, key, value, 0, most_ns);
	if (strcmp(key, "ready") == 0)
		return set_ns(&cut_settings.ready_ns, key, value, 0, most_ns);
	if (strcmp(key, "plp") == 0)
		return set_flag(&cut_settings.plp, key, value, "no", "yes");
	if (strcmp(key, "lie") == 0)
		return set_flag(&cut_settings.lies, key, value, "none", "flush");
	if (strcmp(key, "cut_seed") == 0)
		return set_cut_seed(value);
	if (strcmp(key, "cut_mode") == 0)
		return set_cut_mode(value);
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

static int set_serial(const char *value)
{
	size_t length = strlen(value);

	if (length == 0 || length > 40 ||
	    strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != length) {
		nbdkit_error("serial=%s: allowed are 1 to 40 letters, digits, '_', '.', '-'", value);
		return -1;
	}
	free(serial);
	serial = strdup(value);
	return serial ? 0 : -1;
}

static int add_rail(const char *value)
{
	char error[512];

	if (rail_count == POWER_MAX_RAILS) {
		nbdkit_error("rail=%s: at most %d rails", value, POWER_MAX_RAILS);
		return -1;
	}
	if (!power_parse_rail(value, &rails[rail_count], error, sizeof error)) {
		nbdkit_error("%s", error);
		return -1;
	}
	for (unsigned r = 0; r < rail_count; r++) {
		if (strcmp(rails[r].name, rails[rail_count].name) == 0) {
			nbdkit_error("rail=%s: there is a rail of that name already", value);
			return -1;
		}
	}
	rail_count++;
	return 0;
}

/* 0, -1 where the value cannot be used, 1 where the key is none of the models'. */
static int set_model(const char *key, const char *value)
{
	char error[512];
	int result;

	if (strcmp(key, "work") == 0)
		result = device_set_work(&drive.energy, rails, rail_count, value, error, sizeof error);
	else if (strcmp(key, "doze_watts") == 0)
		result = device_set_doze_watts(&drive.energy, rails, rail_count, value, error, sizeof error);
	else
		result = timing_set(&timing, key, value, error, sizeof error);
	if (result < 0)
		nbdkit_error("%s", error);
	return result;
}

static int twin_config(const char *key, const char *value)
{
	int result;

	if (strcmp(key, "file") == 0)
		return set_path(&backing_path, key, value);
	if (strcmp(key, "control") == 0)
		return set_path(&control_path, key, value);
	if (strcmp(key, "size") == 0) {
		size = nbdkit_parse_size(value);
		if (size > 0 && size % CACHE_SECTOR == 0)
			return 0;
		nbdkit_error("size=%s: allowed is a size above 0 in whole sectors of %d bytes, like 4294967296 or 4G",
			     value, CACHE_SECTOR);
		return -1;
	}
	if (strcmp(key, "serial") == 0)
		return set_serial(value);
	if (strcmp(key, "window") == 0)
		return set_ns(&window_ns, key, value, MIN_WINDOW_NS, NS_PER_SECOND);
	if (strcmp(key, "activity") == 0)
		return set_ns(&activity_ns, key, value, 1, NS_PER_SECOND);
	if (strcmp(key, "rail") == 0)
		return add_rail(value);
	if (strcmp(key, "ambient_celsius") == 0)
		return set_number(&thermal.ambient_celsius, key, value, -50, 100);
	if (strcmp(key, "kelvin_per_watt") == 0)
		return set_number(&thermal.kelvin_per_watt, key, value, 0, 100);
	if (strcmp(key, "thermal_seconds") == 0)
		return set_number(&thermal.seconds, key, value, 1e-3, 1e6);
	result = set_cut(key, value);
	if (result > 0)
		result = set_model(key, value);
	if (result > 0)
		nbdkit_error("%s=%s: allowed keys are file, size, serial, control, window, activity, rail, "
			     "write_cache, destage, holdup, ready, plp, lie, cut_seed, cut_mode, "
			     "ambient_celsius, kelvin_per_watt, thermal_seconds, model, doze, work, doze_watts, "
			     "and those of the model", key, value);
	return result ? -1 : 0;
}

static int twin_config_complete(void)
{
	const char *missing = !backing_path ? "file" : size < 0 ? "size" : !serial ? "serial" :
			      !control_path ? "control" : rail_count == 0 ? "rail" : NULL;
	char error[512];

	if (missing) {
		nbdkit_error("%s= is missing", missing);
		return -1;
	}
	timing.flash.plp = cut_settings.plp;
	timing.flash.write_cache_bytes = timing.disk.write_cache_bytes =
		(int64_t)cut_settings.write_cache_bytes;
	if (!timing_check(&timing, error, sizeof error)) {
		nbdkit_error("%s", error);
		return -1;
	}
	if (cut_settings.lies && cut_settings.write_cache_bytes == 0) {
		nbdkit_error("lie=flush: allowed with a write_cache above 0 only");
		return -1;
	}
	return 0;
}

/* Before nbdkit goes to the background, so that its exit status tells. */
static int twin_get_ready(void)
{
	struct stat status;
	char error[512];

	backing = open(backing_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (backing < 0 || fstat(backing, &status) < 0) {
		nbdkit_error("file=%s: %m", backing_path);
		return -1;
	}
	if (!S_ISREG(status.st_mode)) {
		nbdkit_error("file=%s: allowed is a regular file", backing_path);
		return -1;
	}
	if (flock(backing, LOCK_EX | LOCK_NB) < 0) {
		nbdkit_error("file=%s: another twin has it open", backing_path);
		return -1;
	}
	/* A drive does not change its size: neither cut off data nor grow. */
	if (status.st_size != 0 && status.st_size != size) {
		nbdkit_error("size=%" PRId64 ": file %s is %" PRId64 " bytes long", size, backing_path,
			     (int64_t)status.st_size);
		return -1;
	}
	if (ftruncate(backing, size) < 0) {
		nbdkit_error("file=%s: setting its size: %m", backing_path);
		return -1;
	}
	if (asprintf(&health_path, "%s.health", backing_path) < 0) {
		health_path = NULL;
		nbdkit_error("no memory for a path");
		return -1;
	}
	if (!health_load(&drive.kept, health_path, error, sizeof error)) {
		nbdkit_error("%s", error);
		return -1;
	}
	/* Behind the end there is nothing to lose. */
	punches = fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)size, 4096) == 0;
	control = control_socket_listen(control_path, error, sizeof error);
	if (!control) {
		nbdkit_error("%s", error);
		return -1;
	}
	return 0;
}

/* What the backing file holds is on the drive. In which order it came there is
 * not known any more: it is mapped as if written once, from the front on. */
static void fill_from_backing(void)
{
	off_t data = 0, hole;

	while ((data = lseek(backing, data, SEEK_DATA)) >= 0) {
		hole = lseek(backing, data, SEEK_HOLE);
		if (hole < 0)
			break;
		timing_fill(drive.timing, (uint64_t)data, (uint64_t)(hole - data));
		data = hole;
	}
}

static int twin_after_fork(void)
{
	struct cut_events power_events;
	int failure;

	drive.serial = serial;
	drive.power = power_new(rails, rail_count, window_ns, activity_ns, cut_settings.holdup_ns,
				clock_monotonic_ns());
	if (!drive.power) {
		nbdkit_error("no memory for the power model");
		return -1;
	}
	drive.counters = counters_new(power_settled_ns(drive.power), power_history_step_ns(drive.power),
				      (int64_t)POWER_HISTORY_SECONDS * NS_PER_SECOND);
	if (!drive.counters) {
		nbdkit_error("no memory for the counters");
		return -1;
	}
	drive.timing = timing_new(&timing, (uint64_t)size, power_settled_ns(drive.power));
	if (!drive.timing) {
		nbdkit_error("no memory for the model of time");
		return -1;
	}
	drive.planned_since_ns = INT64_MIN;
	fill_from_backing();
	power_events = device_power_events(&drive);
	drive.cut = cut_new(&cut_settings, backing, rail_count, power_settled_ns(drive.power), &power_events);
	if (!drive.cut) {
		nbdkit_error("no memory for the write cache");
		return -1;
	}
	drive.health_path = health_path;
	warmth_begin(&drive.warmth, &thermal, power_settled_ns(drive.power));
	drive.powered_until_ns = power_settled_ns(drive.power);
	failure = control_socket_start(control, &drive);
	if (failure) {
		nbdkit_error("starting the control thread: %s", strerror(failure));
		return -1;
	}
	return 0;
}

/* What a drive does that is told to. */
static void shut_down(void)
{
	struct health health;
	double celsius;

	if (!drive.cut)
		return;
	device_catch_up(&drive);
	device_health(&drive, &health, &celsius);
	if (cut_close(drive.cut) < 0)
		nbdkit_error("file=%s: the write cache could not be made durable: %m", backing_path);
	else if (!health_save(&health, health_path, false))
		nbdkit_error("%s: %m", health_path);
	drive.cut = NULL;
}

static void twin_cleanup(void)
{
	control_socket_stop(control);
	control = NULL;
	shut_down();
	power_free(drive.power);
	drive.power = NULL;
	counters_free(drive.counters);
	drive.counters = NULL;
	timing_free(drive.timing);
	drive.timing = NULL;
	if (backing >= 0)
		close(backing);
	backing = -1;
}

static void *twin_open(int readonly)
{
	(void)readonly;
	return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t twin_get_size(void *handle)
{
	(void)handle;
	return size;
}

static int twin_yes(void *handle)
{
	(void)handle;
	return 1;
}

static int twin_can_fast_zero(void *handle)
{
	(void)handle;
	return punches;
}

static int twin_can_fua(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

/* The time is taken under the lock, so that the record's times never fall. */
static void served(const struct device_operation *operation, const uint64_t amounts[COUNTERS])
{
	int64_t now_ns;

	pthread_mutex_lock(&drive.lock);
	now_ns = clock_monotonic_ns();
	device_served(&drive, operation, now_ns, amounts);
	pthread_mutex_unlock(&drive.lock);
}

/* An operation that had begun: its time and its energy are spent, it is counted nowhere. */
static void given_up(void)
{
	int failure = errno;

	pthread_mutex_lock(&drive.lock);
	device_failed(&drive, clock_monotonic_ns());
	pthread_mutex_unlock(&drive.lock);
	errno = failure;
}

static int failed(const char *what, uint32_t count, uint64_t offset)
{
	nbdkit_error("%s of %" PRIu32 " at %" PRIu64 ": %m", what, count, offset);
	return -1;
}

static int twin_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct device_operation operation;
	uint64_t cycle;

	(void)handle;
	(void)flags;
	if (cut_enter(drive.cut, &cycle) < 0 ||
	    device_begin(&drive, &operation, cycle, PACE_READ, offset, count, false) < 0)
		return failed("read", count, offset);
	if (cut_read(drive.cut, cycle, buffer, count, offset) < 0 || device_wait(&drive, &operation) < 0 ||
	    cut_finish_read(drive.cut, cycle) < 0) {
		given_up();
		return failed("read", count, offset);
	}
	served(&operation, (uint64_t[COUNTERS]){ [COUNTER_READS] = 1, [COUNTER_READ_BYTES] = count });
	return 0;
}

/* Of zeroes where there is no buffer. */
static int write_through_cut(const char *what, enum pace_kind kind, const void *buffer, uint32_t count,
			     uint64_t offset, bool fua, const uint64_t amounts[COUNTERS])
{
	struct device_operation operation;
	uint64_t cycle, ticket;

	if (cut_enter(drive.cut, &cycle) < 0 ||
	    device_begin(&drive, &operation, cycle, kind, offset, count, fua) < 0)
		return failed(what, count, offset);
	if (cut_write(drive.cut, cycle, buffer, count, offset, &ticket) < 0 ||
	    device_wait(&drive, &operation) < 0 ||
	    cut_finish_write(drive.cut, cycle, ticket, fua) < 0) {
		given_up();
		return failed(what, count, offset);
	}
	served(&operation, amounts);
	return 0;
}

static int twin_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	bool fua = flags & NBDKIT_FLAG_FUA;

	(void)handle;
	return write_through_cut("write", PACE_WRITE, buffer, count, offset, fua, (uint64_t[COUNTERS]){
		[COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = count, [COUNTER_FUA_WRITES] = fua });
}

/* Durable is what lies in the backing file, in the kernel's hands: it outlives this
 * process. That it should also outlive a power cut of the machine under it would
 * cost the time of that machine's disk. */
static int twin_flush(void *handle, uint32_t flags)
{
	struct device_operation operation;
	uint64_t cycle, ticket;

	(void)handle;
	(void)flags;
	if (cut_enter(drive.cut, &cycle) < 0 || cut_flush(drive.cut, cycle, &ticket) < 0 ||
	    device_begin(&drive, &operation, cycle, PACE_FLUSH, 0, 0, false) < 0)
		return failed("flush", 0, 0);
	if (device_wait(&drive, &operation) < 0 || cut_finish_flush(drive.cut, cycle, ticket) < 0) {
		given_up();
		return failed("flush", 0, 0);
	}
	served(&operation, (uint64_t[COUNTERS]){ [COUNTER_FLUSHES] = 1 });
	return 0;
}

static int twin_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	return write_through_cut("discard", PACE_DISCARD, NULL, count, offset, flags & NBDKIT_FLAG_FUA,
				 (uint64_t[COUNTERS]){ [COUNTER_DISCARDS] = 1,
						       [COUNTER_DISCARD_BYTES] = count });
}

/* A write without data. Where the client lets the drive unmap, it costs what a
 * discard costs, else what writing the zeroes costs. */
static int twin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	bool fua = flags & NBDKIT_FLAG_FUA;

	(void)handle;
	return write_through_cut("zeroing", flags & NBDKIT_FLAG_MAY_TRIM ? PACE_DISCARD : PACE_WRITE, NULL,
				 count, offset, fua, (uint64_t[COUNTERS]){
		[COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = count, [COUNTER_ZEROES] = 1,
		[COUNTER_ZERO_BYTES] = count, [COUNTER_FUA_WRITES] = fua });
}

static struct nbdkit_plugin plugin = {
	.name = "twin",
	.longname = "Joulerig digital twin of a drive",
	.version = "1",
	.description = "A drive that takes its time, with a power model that knows its true joules.",
	.load = twin_load,
	.unload = twin_unload,
	.config = twin_config,
	.config_complete = twin_config_complete,
	.config_help =
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
		"               What a rail draws for the drive's own work.",
	.get_ready = twin_get_ready,
	.after_fork = twin_after_fork,
	.cleanup = twin_cleanup,
	.open = twin_open,
	.get_size = twin_get_size,
	.can_multi_conn = twin_yes,
	.can_write = twin_yes,
	.can_flush = twin_yes,
	.can_trim = twin_yes,
	.can_zero = twin_yes,
	.can_fast_zero = twin_can_fast_zero,
	.can_fua = twin_can_fua,
	.pread = twin_pread,
	.pwrite = twin_pwrite,
	.flush = twin_flush,
	.trim = twin_trim,
	.zero = twin_zero,
	.errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
