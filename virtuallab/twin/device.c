/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "device.h"

#include "clock.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define NS_PER_SECOND 1000000000
/* A sleep ends some microseconds late; how many shows. By so many it ends early, and
 * what is left then is spent looking at the clock: nothing is handed back too soon.
 * These are times of the machine: on a lab's clock that goes slower, they are shorter. */
#define MARGIN_NS 3000
#define MOST_EARLY_NS 25000
/* Falling asleep and waking takes as long as that. */
#define SHORTEST_SLEEP_NS 8000
#define LATE_WEIGHT 16

static _Atomic int64_t usual_late_ns = MOST_EARLY_NS / 2; /* of the machine */

/* The kernel otherwise adds up to 50 us to a sleep, to let timers expire together. */
static void be_precise(void)
{
	static _Thread_local bool is_precise;

	if (!is_precise)
		prctl(PR_SET_TIMERSLACK, 1);
	is_precise = true;
}

static void learn_late(int64_t late_ns)
{
	int64_t usual_ns = atomic_load_explicit(&usual_late_ns, memory_order_relaxed);

	if (late_ns > MOST_EARLY_NS)
		late_ns = MOST_EARLY_NS;
	usual_ns += (late_ns - usual_ns) / LATE_WEIGHT;
	atomic_store_explicit(&usual_late_ns, usual_ns, memory_order_relaxed);
}

int device_wait(struct drive *drive, const struct device_operation *operation)
{
	int64_t end_ns = operation->timing.complete_ns;
	double early_ns = MARGIN_NS + (double)atomic_load_explicit(&usual_late_ns, memory_order_relaxed);
	double slowness = clock_slowness();
	int64_t wake_ns = end_ns - (int64_t)(early_ns / slowness);

	be_precise();
	if (clock_monotonic_ns() < wake_ns - (int64_t)(SHORTEST_SLEEP_NS / slowness)) {
		if (cut_wait(drive->cut, operation->cycle, wake_ns) < 0)
			return -1;
		learn_late((int64_t)((double)(clock_monotonic_ns() - wake_ns) * slowness));
	}
	while (clock_monotonic_ns() < end_ns)
		;
	return 0;
}

/* From when it was due, or was let in. False where the drive draws all it may. */
static bool draw_work(struct drive *drive, int64_t time_ns, const struct work *work)
{
	static const enum power_cause causes[WORK_CAUSES] = { [WORK_GC] = CAUSE_GC,
							      [WORK_FOLD] = CAUSE_FOLD,
							      [WORK_SEEK] = CAUSE_SEEK,
							      [WORK_SPIN_UP] = CAUSE_SPIN_UP,
							      [WORK_WAKE] = CAUSE_POWER_STATE };
	struct power_work drawn = { .cause = causes[work->cause] };
	double all = 0;

	for (unsigned r = 0; r < power_rail_count(drive->power); r++) {
		drawn.joules[r] = (double)work->bytes * drive->energy.of[work->cause][r].joules_per_byte +
				  (double)work->duration_ns * 1e-9 * drive->energy.of[work->cause][r].watts;
		all += drawn.joules[r];
	}
	return all == 0 || power_draw(drive->power, time_ns, work->duration_ns, &drawn, 1) == 0;
}

static void draw_due_work(struct drive *drive, int64_t time_ns)
{
	while (drive->is_held || timing_take_work(drive->timing, time_ns, &drive->held)) {
		int64_t begin_ns = drive->is_held ? time_ns : drive->held.start_ns;

		drive->is_held = !draw_work(drive, begin_ns, &drive->held);
		if (drive->is_held)
			return;
	}
}

/* Gives the power model the times of the drive's power states, whenever they change. */
static void plan_dozing(struct drive *drive, int64_t time_ns)
{
	const struct doze *doze = timing_doze(drive->timing);
	struct power_step steps[DOZE_MAX_STATES];

	if (doze->idle_since_ns == drive->planned_since_ns || (doze->state_count == 0 && !drive->is_planned))
		return;
	drive->is_planned = doze->state_count > 0;
	drive->planned_since_ns = doze->idle_since_ns;
	for (unsigned n = 0; n < doze->state_count; n++) {
		steps[n].time_ns = doze_entered_ns(doze, n + 1);
		for (unsigned r = 0; r < POWER_MAX_RAILS; r++)
			steps[n].idle_watts[r] = drive->states.of[drive->doze_numbers[n]].idle_watts[r];
	}
	power_plan_idle(drive->power, time_ns, steps, doze->state_count);
}

void device_advance(struct drive *drive, int64_t time_ns)
{
	timing_advance(drive->timing, time_ns);
	draw_due_work(drive, time_ns);
	/* Work that was due has ended the power state when it began, not when it is looked at. */
	plan_dozing(drive, power_settled_ns(drive->power));
	power_advance(drive->power, time_ns);
}

/* README.md, "The log of operations". */
static void log_operation(FILE *log, const struct timing_operation *operation)
{
	if (log)
		fprintf(log, "%" PRId64 " %s %" PRIu64 " %" PRIu64 " %d\n", operation->arrival_ns,
			pace_kind_name(operation->kind), operation->offset, operation->bytes,
			operation->fua);
}

/* The time to try again, or 0. */
static int64_t try_to_take(struct drive *drive, struct timing_operation *operation)
{
	static const enum power_operation power_kinds[PACE_KINDS] = {
		[PACE_READ] = POWER_READ, [PACE_WRITE] = POWER_WRITE,
		[PACE_FLUSH] = POWER_FLUSH, [PACE_DISCARD] = POWER_DISCARD };
	int64_t now_ns = clock_monotonic_ns();
	int64_t retry_ns;

	device_advance(drive, now_ns);
	retry_ns = power_submit(drive->power, now_ns, power_kinds[operation->kind], operation->bytes,
				operation->fua);
	if (retry_ns)
		return retry_ns;
	operation->arrival_ns = now_ns;
	log_operation(drive->operations, operation);
	pace_arrived(&drive->pace, now_ns);
	timing_submit(drive->timing, operation);
	drive->is_shut_down = false;
	device_left_rest(drive);
	draw_due_work(drive, now_ns);
	plan_dozing(drive, now_ns);
	return 0;
}

/* Waits while the drive is at its power limit. Leaves the drive's lock taken. */
static int take(struct drive *drive, struct device_operation *operation)
{
	/* Held while waiting, so that a large operation is not overtaken forever by
	 * small ones that still fit. */
	static pthread_mutex_t admission = PTHREAD_MUTEX_INITIALIZER;
	static atomic_int waiting;
	int64_t began_ns = 0, retry_ns;
	int result = 0;

	if (waiting == 0) {
		pthread_mutex_lock(&drive->lock);
		if (try_to_take(drive, &operation->timing) == 0)
			return 0;
		pthread_mutex_unlock(&drive->lock);
	}
	waiting++;
	pthread_mutex_lock(&admission);
	pthread_mutex_lock(&drive->lock);
	while (result == 0 && (retry_ns = try_to_take(drive, &operation->timing)) != 0) {
		pthread_mutex_unlock(&drive->lock);
		if (began_ns == 0)
			began_ns = clock_monotonic_ns();
		result = cut_wait(drive->cut, operation->cycle, retry_ns);
		pthread_mutex_lock(&drive->lock);
	}
	if (began_ns) {
		int64_t now_ns = clock_monotonic_ns();

		counters_add(drive->counters, now_ns, (uint64_t[COUNTERS]){
			[COUNTER_THROTTLED_NS] = (uint64_t)(now_ns - began_ns) });
	}
	pthread_mutex_unlock(&admission);
	waiting--;
	return result;
}

int device_begin(struct drive *drive, struct device_operation *operation, uint64_t cycle,
		 enum pace_kind kind, uint64_t offset, uint64_t bytes, bool fua)
{
	struct timing_operation *timing = &operation->timing;
	int result;

	operation->cycle = cycle;
	*timing = (struct timing_operation){ .kind = kind, .offset = offset, .bytes = bytes, .fua = fua };
	if (take(drive, operation) < 0) {
		pthread_mutex_unlock(&drive->lock);
		return -1;
	}
	result = 0;
	while (!timing_decided(timing) && result == 0) {
		/* The next decision may be another operation's: it is looked at again then. */
		int64_t next_ns = timing_next_ns(drive->timing);

		pthread_mutex_unlock(&drive->lock);
		be_precise();
		result = cut_wait(drive->cut, cycle, next_ns);
		pthread_mutex_lock(&drive->lock);
		device_advance(drive, clock_monotonic_ns());
	}
	if (result < 0) {
		int64_t now_ns = clock_monotonic_ns();

		timing_cancel(drive->timing, timing);
		pace_decided(&drive->pace, timing->arrival_ns, now_ns);
		pace_failed(&drive->pace, now_ns);
	} else {
		pace_decided(&drive->pace, timing->arrival_ns, timing->complete_ns);
	}
	pthread_mutex_unlock(&drive->lock);
	return result;
}

void device_served(struct drive *drive, const struct device_operation *operation, int64_t now_ns,
		   const uint64_t amounts[COUNTERS])
{
	const struct timing_operation *timing = &operation->timing;
	uint64_t before[COUNTERS], all[COUNTERS];

	pace_served(&drive->pace, timing->kind, timing->arrival_ns, timing->complete_ns, now_ns);
	counters_now(drive->counters, before);
	memcpy(all, amounts, sizeof all);
	all[COUNTER_BUSY_NS] = (uint64_t)pace_busy_ns(&drive->pace, now_ns) - before[COUNTER_BUSY_NS];
	all[COUNTER_DEVICE_BOUND_NS] =
		(uint64_t)pace_device_bound_ns(&drive->pace, now_ns) - before[COUNTER_DEVICE_BOUND_NS];
	counters_add(drive->counters, now_ns, all);
}

void device_failed(struct drive *drive, int64_t now_ns)
{
	pace_failed(&drive->pace, now_ns);
}

static void on_rail_switched(void *owner, int64_t time_ns, unsigned rail, bool on)
{
	struct drive *drive = owner;

	pthread_mutex_lock(&drive->lock);
	power_switch(drive->power, time_ns, rail, on);
	pthread_mutex_unlock(&drive->lock);
}

static void on_power_lost(void *owner, int64_t time_ns)
{
	struct drive *drive = owner;

	pthread_mutex_lock(&drive->lock);
	power_run(drive->power, time_ns, false);
	timing_reset(drive->timing, time_ns);
	drive->second_ends_ns = 0;
	drive->is_held = false;
	if (drive->is_shut_down)
		drive->orderly_cuts++;
	pthread_mutex_unlock(&drive->lock);
}

static void on_power_restored(void *owner, int64_t time_ns, int64_t ready_ns)
{
	struct drive *drive = owner;

	pthread_mutex_lock(&drive->lock);
	power_run(drive->power, time_ns, true);
	timing_begin(drive->timing, time_ns, ready_ns);
	device_begin_states(drive, time_ns);
	self_report_power_on(&drive->self_report);
	device_advance(drive, time_ns);
	pthread_mutex_unlock(&drive->lock);
}

struct cut_events device_power_events(struct drive *drive)
{
	return (struct cut_events){
		.owner = drive,
		.rail_switched = on_rail_switched,
		.power_lost = on_power_lost,
		.power_restored = on_power_restored,
	};
}
