/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A virtual drive as an nbdkit plugin: a backing file, counters of what was
 * done to it, the time and the power that doing it took. README.md lists the
 * parameters.
 *
 * Threads. PARALLEL: the backing file needs no lock (positioned I/O), and the
 * counters and the models of time and power stand behind drive.lock, which is held
 * for the arithmetic of one operation only. An operation is put into the models
 * before its I/O begins, in one call under that lock, so no energy is lost or
 * counted twice however operations interleave; it is counted, likewise in one
 * call, when it has succeeded and its time has come.
 */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "device.h"
#include "drive.h"
#include "truth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

#define NS_PER_SECOND 1000000000
#define DEFAULT_WINDOW_NS 1000000
#define DEFAULT_ACTIVITY_NS 500000
#define MIN_WINDOW_NS 1000

static char *backing_path;
static char *truth_path;
static char *serial;
static int64_t size = -1;
static int64_t window_ns = DEFAULT_WINDOW_NS;
static int64_t activity_ns = DEFAULT_ACTIVITY_NS;
static struct timing_config timing;
static struct power_rail rails[POWER_MAX_RAILS];
static unsigned rail_count;

static int backing = -1;
static struct truth *truth;
static struct drive drive = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void twin_unload(void)
{
	free(backing_path);
	free(truth_path);
	free(serial);
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

static int set_ns(int64_t *ns, const char *key, const char *value, int64_t least)
{
	char *end;
	long long parsed;

	errno = 0;
	parsed = strtoll(value, &end, 10);
	if (end == value || *end != '\0' || errno || parsed < least || parsed > NS_PER_SECOND) {
		nbdkit_error("%s=%s: allowed are whole nanoseconds from %" PRId64 " to %d", key, value,
			     least, NS_PER_SECOND);
		return -1;
	}
	*ns = parsed;
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

static int twin_config(const char *key, const char *value)
{
	char error[512];

	if (strcmp(key, "file") == 0)
		return set_path(&backing_path, key, value);
	if (strcmp(key, "truth") == 0)
		return set_path(&truth_path, key, value);
	if (strcmp(key, "size") == 0) {
		size = nbdkit_parse_size(value);
		if (size > 0)
			return 0;
		nbdkit_error("size=%s: allowed is a size above 0, like 4294967296 or 4G", value);
		return -1;
	}
	if (strcmp(key, "serial") == 0)
		return set_serial(value);
	if (strcmp(key, "window") == 0)
		return set_ns(&window_ns, key, value, MIN_WINDOW_NS);
	if (strcmp(key, "activity") == 0)
		return set_ns(&activity_ns, key, value, 1);
	if (strcmp(key, "rail") == 0)
		return add_rail(value);
	switch (timing_set(&timing, key, value, error, sizeof error)) {
	case 1:
		return 0;
	case 0:
		nbdkit_error("%s=%s: allowed keys are file, size, serial, truth, window, activity, rail, model"
			     " and those of the model", key, value);
		return -1;
	default:
		nbdkit_error("%s", error);
		return -1;
	}
}

static int twin_config_complete(void)
{
	const char *missing = !backing_path ? "file" : size < 0 ? "size" : !serial ? "serial" :
			      !truth_path ? "truth" : rail_count == 0 ? "rail" : NULL;
	char error[512];

	if (missing) {
		nbdkit_error("%s= is missing", missing);
		return -1;
	}
	if (!timing_check(&timing, error, sizeof error)) {
		nbdkit_error("%s", error);
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
	truth = truth_listen(truth_path, error, sizeof error);
	if (!truth) {
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
	int failure;

	drive.serial = serial;
	drive.power = power_new(rails, rail_count, window_ns, activity_ns, drive_monotonic_ns());
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
	fill_from_backing();
	failure = truth_start(truth, &drive);
	if (failure) {
		nbdkit_error("starting the truth thread: %s", strerror(failure));
		return -1;
	}
	return 0;
}

static void twin_cleanup(void)
{
	truth_stop(truth);
	truth = NULL;
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

static int twin_can_fua(void *handle)
{
	(void)handle;
	return NBDKIT_FUA_NATIVE;
}

/* Waits for the operation's end, and counts it. */
static void finish(const struct device_operation *operation, const uint64_t amounts[COUNTERS])
{
	int64_t now_ns;

	device_wait(&drive, operation);
	pthread_mutex_lock(&drive.lock);
	/* The time is taken under the lock, so that the record's times never fall. */
	now_ns = drive_monotonic_ns();
	device_served(&drive, operation, now_ns);
	counters_add(drive.counters, now_ns, amounts);
	pthread_mutex_unlock(&drive.lock);
}

/* It failed: its time and its energy are spent, and it is counted nowhere. */
static void give_up(const struct device_operation *operation)
{
	int failure = errno;

	pthread_mutex_lock(&drive.lock);
	device_failed(&drive, operation, drive_monotonic_ns());
	pthread_mutex_unlock(&drive.lock);
	errno = failure;
}

static int twin_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	char *to = buffer;
	uint32_t done = 0;
	struct device_operation operation;

	(void)handle;
	(void)flags;
	device_begin(&drive, &operation, PACE_READ, offset, count, false);
	while (done < count) {
		ssize_t got = pread(backing, to + done, count - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			if (got == 0)
				errno = EIO;
			give_up(&operation);
			nbdkit_error("read of %" PRIu32 " at %" PRIu64 ": %m", count, offset);
			return -1;
		}
		done += (uint32_t)got;
	}
	finish(&operation, (uint64_t[COUNTERS]){ [COUNTER_READS] = 1, [COUNTER_READ_BYTES] = count });
	return 0;
}

static int twin_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	const char *from = buffer;
	bool fua = flags & NBDKIT_FLAG_FUA;
	uint32_t done = 0;
	struct device_operation operation;

	(void)handle;
	device_begin(&drive, &operation, PACE_WRITE, offset, count, fua);
	while (done < count) {
		ssize_t put = pwrite(backing, from + done, count - done, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0) {
			give_up(&operation);
			nbdkit_error("write of %" PRIu32 " at %" PRIu64 ": %m", count, offset);
			return -1;
		}
		done += (uint32_t)put;
	}
	finish(&operation, (uint64_t[COUNTERS]){
		[COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = count, [COUNTER_FUA_WRITES] = fua });
	return 0;
}

/* An event for the books and the power model only. What was written is in the
 * kernel's hands and outlives this process; that it should also outlive a power
 * cut of the machine under it would cost the time of that machine's disk. */
static int twin_flush(void *handle, uint32_t flags)
{
	struct device_operation operation;

	(void)handle;
	(void)flags;
	device_begin(&drive, &operation, PACE_FLUSH, 0, 0, false);
	finish(&operation, (uint64_t[COUNTERS]){ [COUNTER_FLUSHES] = 1 });
	return 0;
}

static int punch(uint32_t count, uint64_t offset)
{
	return fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			 (off_t)count);
}

static int twin_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	bool fua = flags & NBDKIT_FLAG_FUA;
	struct device_operation operation;

	(void)handle;
	device_begin(&drive, &operation, PACE_DISCARD, offset, count, fua);
	/* A hint: where the file system cannot, the data simply stay. */
	if (punch(count, offset) < 0 && errno != EOPNOTSUPP) {
		give_up(&operation);
		nbdkit_error("discard of %" PRIu32 " at %" PRIu64 ": %m", count, offset);
		return -1;
	}
	finish(&operation, (uint64_t[COUNTERS]){ [COUNTER_DISCARDS] = 1, [COUNTER_DISCARD_BYTES] = count });
	return 0;
}

static int write_zeroes(uint32_t count, uint64_t offset)
{
	static const char zeroes[65536];
	uint32_t done = 0;

	while (done < count) {
		size_t chunk = count - done < sizeof zeroes ? count - done : sizeof zeroes;
		ssize_t put = pwrite(backing, zeroes, chunk, (off_t)(offset + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -1;
		done += (uint32_t)put;
	}
	return 0;
}

/* A write without data. Where the client lets the drive unmap, it costs what a
 * discard costs, else what writing the zeroes costs. */
static int twin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	bool fua = flags & NBDKIT_FLAG_FUA;
	bool may_trim = flags & NBDKIT_FLAG_MAY_TRIM;
	bool only_fast = flags & NBDKIT_FLAG_FAST_ZERO;
	struct device_operation operation;
	int result;

	(void)handle;
	device_begin(&drive, &operation, may_trim ? PACE_DISCARD : PACE_WRITE, offset, count, fua);
	result = punch(count, offset);
	if (result < 0 && errno == EOPNOTSUPP && !only_fast)
		result = write_zeroes(count, offset);
	if (result < 0) {
		give_up(&operation);
		nbdkit_error("zeroing of %" PRIu32 " at %" PRIu64 ": %m", count, offset);
		return -1;
	}
	finish(&operation, (uint64_t[COUNTERS]){ [COUNTER_WRITES] = 1, [COUNTER_WRITE_BYTES] = count,
				    [COUNTER_ZEROES] = 1, [COUNTER_ZERO_BYTES] = count,
				    [COUNTER_FUA_WRITES] = fua });
	return 0;
}

static struct nbdkit_plugin plugin = {
	.name = "twin",
	.longname = "Joulerig digital twin of a drive",
	.version = "1",
	.description = "A drive that takes its time, with a power model that tells its true joules.",
	.unload = twin_unload,
	.config = twin_config,
	.config_complete = twin_config_complete,
	.config_help =
		"file=PATH      (required) Backing file; made sparse if it is not there.\n"
		"size=SIZE      (required) Size of the drive.\n"
		"serial=TEXT    (required) Serial number, as told on the truth socket.\n"
		"truth=PATH     (required) Unix socket that tells the truth.\n"
		"rail=NAME,VOLTS,OHMS,IDLE_W,READ_J_PER_B,WRITE_J_PER_B,COMMAND_J,FLUSH_J[,ACTIVE_W]\n"
		"               (required, up to 4 times) A supply rail.\n"
		"window=NS      Grid of the window means (default 1000000).\n"
		"activity=NS    Shortest time an operation draws power (default 500000).\n"
		"model=null|flash|disk\n"
		"               Model of time (default null: none), with its own parameters.",
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
	.can_fast_zero = twin_yes,
	.can_fua = twin_can_fua,
	.pread = twin_pread,
	.pwrite = twin_pwrite,
	.flush = twin_flush,
	.trim = twin_trim,
	.zero = twin_zero,
	.errno_is_preserved = 1,
};

NBDKIT_REGISTER_PLUGIN(plugin)
