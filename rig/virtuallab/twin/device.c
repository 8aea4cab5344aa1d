/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "device.h"

#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

#define NS_PER_SECOND 1000000000
/* A sleep ends some microseconds late, mostly less than these: they are spent
 * looking at the clock. By one thread at a time, so that a core is left for the
 * others; the rest sleep to the end. */
#define SPIN_NS 25000
#define MOST_SPINNING 1

static atomic_int spinning;

static void sleep_until(int64_t time_ns)
{
	struct timespec until = { .tv_sec = time_ns / NS_PER_SECOND, .tv_nsec = time_ns % NS_PER_SECOND };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void wait_until(int64_t time_ns)
{
	static _Thread_local bool is_precise;
	int64_t now_ns = drive_monotonic_ns();

	if (now_ns >= time_ns)
		return;
	if (!is_precise) {
		/* The kernel otherwise adds up to 50 us to let timers expire together. */
		prctl(PR_SET_TIMERSLACK, 1);
		is_precise = true;
	}
	if (time_ns - now_ns > SPIN_NS)
		sleep_until(time_ns - SPIN_NS);
	if (atomic_fetch_add(&spinning, 1) < MOST_SPINNING) {
		while (drive_monotonic_ns() < time_ns)
			;
	} else {
		sleep_until(time_ns);
	}
	atomic_fetch_sub(&spinning, 1);
}

void device_settle(struct drive *drive, int64_t time_ns)
{
	struct work work;

	timing_advance(drive->timing, time_ns);
	while (timing_take_work(drive->timing, time_ns, &work))
		;
	power_advance(drive->power, time_ns);
}

/* The time to try again, or 0. */
static int64_t try_to_take(struct drive *drive, struct device_operation *operation)
{
	static const enum power_operation power_kinds[PACE_KINDS] = {
		[PACE_READ] = POWER_READ, [PACE_WRITE] = POWER_WRITE,
		[PACE_FLUSH] = POWER_FLUSH, [PACE_DISCARD] = POWER_DISCARD };
	struct timing_operation *timing = &operation->timing;
	int64_t now_ns = drive_monotonic_ns();
	int64_t retry_ns;

	device_settle(drive, now_ns);
	retry_ns = power_submit(drive->power, now_ns, power_kinds[timing->kind], timing->bytes, timing->fua);
	if (retry_ns)
		return retry_ns;
	timing->arrival_ns = now_ns;
	pace_arrived(&drive->pace, now_ns);
	timing_submit(drive->timing, timing);
	return 0;
}

/* Waits while the drive is at its power limit. */
static void take(struct drive *drive, struct device_operation *operation)
{
	/* Held while waiting, so that a large operation is not overtaken for ever by
	 * small ones that still fit. */
	static pthread_mutex_t admission = PTHREAD_MUTEX_INITIALIZER;
	int64_t began_ns = 0, retry_ns;

	pthread_mutex_lock(&admission);
	pthread_mutex_lock(&drive->lock);
	while ((retry_ns = try_to_take(drive, operation)) != 0) {
		pthread_mutex_unlock(&drive->lock);
		if (began_ns == 0)
			began_ns = drive_monotonic_ns();
		sleep_until(retry_ns);
		pthread_mutex_lock(&drive->lock);
	}
	if (began_ns)
		counters_add(drive->counters, drive_monotonic_ns(), (uint64_t[COUNTERS]){
			[COUNTER_THROTTLED_NS] = (uint64_t)(operation->timing.arrival_ns - began_ns) });
	pthread_mutex_unlock(&admission);
	/* drive->lock stays. */
}

void device_begin(struct drive *drive, struct device_operation *operation, enum pace_kind kind,
		  uint64_t offset, uint64_t bytes, bool fua)
{
	struct timing_operation *timing = &operation->timing;

	*timing = (struct timing_operation){ .kind = kind, .offset = offset, .bytes = bytes, .fua = fua };
	take(drive, operation);
	while (!timing_decided(timing)) {
		/* The next decision may be another operation's: it is looked at again then. */
		int64_t next_ns = timing_next_ns(drive->timing);

		pthread_mutex_unlock(&drive->lock);
		sleep_until(next_ns);
		pthread_mutex_lock(&drive->lock);
		device_settle(drive, drive_monotonic_ns());
	}
	pace_decided(&drive->pace, timing->arrival_ns, timing->complete_ns);
	pthread_mutex_unlock(&drive->lock);
}

void device_wait(struct drive *drive, const struct device_operation *operation)
{
	(void)drive;
	wait_until(operation->timing.complete_ns);
}

void device_served(struct drive *drive, const struct device_operation *operation, int64_t now_ns)
{
	const struct timing_operation *timing = &operation->timing;

	pace_served(&drive->pace, timing->kind, timing->arrival_ns, timing->complete_ns, now_ns);
}

void device_failed(struct drive *drive, const struct device_operation *operation, int64_t now_ns)
{
	(void)operation;
	pace_failed(&drive->pace, now_ns);
}
