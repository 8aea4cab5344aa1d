/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A virtual drive as an nbdkit plugin: a backing file, counters of what was
 * done to it, the time and the power that doing it took. README.md lists the
 * parameters.
 *
 * Threads. PARALLEL: the data go through cut.c, which locks for itself; the
 * counters and the models of time and power stand behind drive.lock, which is held
 * for the arithmetic of one operation only (block.h).
 */
#define _GNU_SOURCE
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include "block.h"
#include "clock.h"
#include "control_socket.h"
#include "device.h"
#include "drive.h"
#include "nvme/backend.h"
#include "nvme/target.h"
#include "twin_config.h"

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
#define FIRMWARE "1" /* the twin's version, as the plugin's below */

static struct twin_config config = TWIN_CONFIG_DEFAULTS;
static char *health_path; /* that of the backing file, and .health */
/* The file system under the backing file can give space back. */
static bool punches;

static int backing = -1;
static struct control_socket *control;
static struct nvme_target *target;
static struct nvme_backend backend;
static struct drive drive = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The write cache's memory comes and goes with every write: given back to the kernel
 * each time, it would have to be mapped and zeroed. */
static void twin_load(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

static void twin_unload(void)
{
	twin_config_free(&config);
	free(health_path);
}

static int twin_set(const char *key, const char *value)
{
	return twin_config_set(&config, key, value);
}

static int twin_check(void)
{
	return twin_config_check(&config);
}

/* The NVMe target's port, where there is to be one; its drive follows. */
static int listen_nvme(void)
{
	char error[512];

	if (!config.nvme.address)
		return 0;
	backend.rated_erases = config.rated_erases;
	backend.facts.serial = config.serial;
	backend.facts.model = config.nvme.model ? config.nvme.model : "Joulerig twin";
	backend.facts.firmware = FIRMWARE;
	backend.facts.name = config.nvme.name;
	backend.facts.bytes = (uint64_t)config.size;
	backend.facts.eui64 = config.nvme.eui64;
	backend.facts.reports_power = config.reports.is_on;
	backend.facts.has_ocp_log = config.reports.has_ocp;
	backend.facts.plp = config.cut.plp;
	backend.facts.has_write_cache = config.cut.write_cache_bytes > 0;
	target = nvme_target_listen(config.nvme.address, &backend.facts, &backend.functions, error, sizeof error);
	if (target)
		return 0;
	nbdkit_error("%s", error);
	return -1;
}

/* Before nbdkit goes to the background, so that its exit status shows a failure. */
static int twin_get_ready(void)
{
	struct stat status;
	char error[512];

	backing = open(config.backing_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (backing < 0 || fstat(backing, &status) < 0) {
		nbdkit_error("file=%s: %m", config.backing_path);
		return -1;
	}
	if (!S_ISREG(status.st_mode)) {
		nbdkit_error("file=%s: allowed is a regular file", config.backing_path);
		return -1;
	}
	if (flock(backing, LOCK_EX | LOCK_NB) < 0) {
		nbdkit_error("file=%s: another twin has it open", config.backing_path);
		return -1;
	}
	/* A drive does not change its size: neither cut off data nor grow. */
	if (status.st_size != 0 && status.st_size != config.size) {
		nbdkit_error("size=%" PRId64 ": file %s is %" PRId64 " bytes long", config.size, config.backing_path,
			     (int64_t)status.st_size);
		return -1;
	}
	if (ftruncate(backing, config.size) < 0) {
		nbdkit_error("file=%s: setting its size: %m", config.backing_path);
		return -1;
	}
	if (asprintf(&health_path, "%s.health", config.backing_path) < 0) {
		health_path = NULL;
		nbdkit_error("no memory for a path");
		return -1;
	}
	if (!health_load(&drive.kept, health_path, error, sizeof error)) {
		nbdkit_error("%s", error);
		return -1;
	}
	drive.operations = config.operations_path ? fopen(config.operations_path, "we") : NULL;
	if (config.operations_path && !drive.operations) {
		nbdkit_error("operations=%s: %m", config.operations_path);
		return -1;
	}
	drive.writes = config.writes_path ? write_log_open(config.writes_path) : NULL;
	if (config.writes_path && !drive.writes) {
		nbdkit_error("writes=%s: %m", config.writes_path);
		return -1;
	}
	/* Behind the end there is nothing to lose. */
	punches = fallocate(backing, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)config.size, 4096) == 0;
	control = control_socket_listen(config.control_path, error, sizeof error);
	if (!control) {
		nbdkit_error("%s", error);
		return -1;
	}
	return listen_nvme();
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

	drive.serial = config.serial;
	drive.energy = config.energy;
	drive.states = config.states;
	drive.power = power_new(config.rails, config.rail_count, config.window_ns, config.activity_ns,
				config.cut.holdup_ns, clock_monotonic_ns());
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
	drive.timing = timing_new(&config.timing, (uint64_t)config.size, power_settled_ns(drive.power));
	if (!drive.timing) {
		nbdkit_error("no memory for the model of time");
		return -1;
	}
	device_begin_states(&drive, power_settled_ns(drive.power));
	if (drive.operations)
		fprintf(drive.operations, "%" PRId64 " begin 0 0 0\n", power_settled_ns(drive.power));
	fill_from_backing();
	power_events = device_power_events(&drive);
	drive.cut = cut_new(&config.cut, backing, config.rail_count, power_settled_ns(drive.power),
			    &power_events);
	if (!drive.cut) {
		nbdkit_error("no memory for the write cache");
		return -1;
	}
	drive.health_path = health_path;
	drive.throttle = config.throttle;
	drive.self_report.settings = config.reports;
	drive.self_report.lifetime_joules = drive.kept.reported_joules;
	warmth_begin(&drive.warmth, &config.thermal, power_settled_ns(drive.power));
	drive.powered_until_ns = power_settled_ns(drive.power);
	failure = control_socket_start(control, &drive);
	if (failure) {
		nbdkit_error("starting the control thread: %s", strerror(failure));
		return -1;
	}
	if (target) {
		nvme_backend_begin(&backend, &drive);
		failure = nvme_target_start(target);
	}
	if (failure) {
		nbdkit_error("starting the NVMe target: %s", strerror(failure));
		return -1;
	}
	return 0;
}

/* An orderly shutdown. */
static void shut_down(void)
{
	struct health health;
	double celsius;

	if (!drive.cut)
		return;
	device_catch_up(&drive);
	device_health(&drive, &health, &celsius);
	if (cut_close(drive.cut) < 0)
		nbdkit_error("file=%s: the write cache could not be made durable: %m", config.backing_path);
	else if (!health_save(&health, health_path, false))
		nbdkit_error("%s: %m", health_path);
	drive.cut = NULL;
}

static void twin_cleanup(void)
{
	nvme_target_stop(target);
	target = NULL;
	control_socket_stop(control);
	control = NULL;
	shut_down();
	power_free(drive.power);
	drive.power = NULL;
	counters_free(drive.counters);
	drive.counters = NULL;
	timing_free(drive.timing);
	drive.timing = NULL;
	if (drive.operations && fclose(drive.operations) != 0)
		nbdkit_error("operations=%s: %m", config.operations_path);
	drive.operations = NULL;
	if (!write_log_close(drive.writes))
		nbdkit_error("writes=%s: %m", config.writes_path);
	drive.writes = NULL;
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
	return config.size;
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

static int failed(const char *what, uint32_t count, uint64_t offset)
{
	nbdkit_error("%s of %" PRIu32 " at %" PRIu64 ": %m", what, count, offset);
	return -1;
}

static int twin_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return block_read(&drive, buffer, count, offset) < 0 ? failed("read", count, offset) : 0;
}

static int twin_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset,
		       uint32_t flags)
{
	(void)handle;
	if (block_write(&drive, buffer, count, offset, flags & NBDKIT_FLAG_FUA) < 0)
		return failed("write", count, offset);
	return 0;
}

static int twin_flush(void *handle, uint32_t flags)
{
	(void)handle;
	(void)flags;
	return block_flush(&drive) < 0 ? failed("flush", 0, 0) : 0;
}

static int twin_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	if (block_discard(&drive, count, offset, flags & NBDKIT_FLAG_FUA) < 0)
		return failed("discard", count, offset);
	return 0;
}

static int twin_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)handle;
	if (block_zero(&drive, count, offset, flags & NBDKIT_FLAG_MAY_TRIM, flags & NBDKIT_FLAG_FUA) < 0)
		return failed("zeroing", count, offset);
	return 0;
}

static struct nbdkit_plugin plugin = {
	.name = "twin",
	.longname = "Joulerig digital twin of a drive",
	.version = FIRMWARE,
	.description = "A drive that takes its time, with a power model that knows its true joules.",
	.load = twin_load,
	.unload = twin_unload,
	.config = twin_set,
	.config_complete = twin_check,
	.config_help = twin_config_help,
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
