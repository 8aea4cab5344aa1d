/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "cut.h"

#include "clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define NS_PER_SECOND 1000000000
#define TICK_NS (NS_PER_SECOND / 2)
#define NEVER INT64_MAX

struct cut {
	struct cut_settings settings;
	struct cut_events events;
	/* Readers share it: the cache is only looked at. */
	pthread_rwlock_t lock;
	struct cache *cache;
	/* Changed with the lock held; read also without, by operations that only ask. */
	_Atomic uint64_t cycle; /* odd while there is power */
	_Atomic int64_t ready_ns;
	_Atomic int64_t dies_ns; /* with a rail off: when the hold-up is over */
	unsigned rail_count;
	bool rail_on[POWER_MAX_RAILS];
	int64_t switched_ns[POWER_MAX_RAILS]; /* last; at first when the twin began */
	uint64_t power_ons, cuts;
	struct cut_report last;
	/* For operations that wait for a time, which a cut ends. */
	pthread_mutex_t sleep_lock;
	pthread_cond_t power_went;
};

static bool is_powered(const struct cut *cut)
{
	return cut->cycle % 2;
}

struct cut *cut_new(const struct cut_settings *settings, int backing, unsigned rail_count,
		    int64_t began_ns, const struct cut_events *events)
{
	struct cut *cut = calloc(1, sizeof *cut);
	pthread_rwlockattr_t writers_first;
	pthread_condattr_t monotonic;

	if (!cut)
		return NULL;
	cut->settings = *settings;
	cut->events = *events;
	cut->cache = cache_new(backing, settings->write_cache_bytes, settings->destage_ns);
	if (!cut->cache) {
		free(cut);
		return NULL;
	}
	cut->rail_count = rail_count;
	for (unsigned r = 0; r < cut->rail_count; r++) {
		cut->rail_on[r] = true;
		cut->switched_ns[r] = began_ns;
	}
	cut->cycle = 1;
	cut->power_ons = 1;
	cut->dies_ns = NEVER;
	/* A cut does not wait for a gap between readers. */
	pthread_rwlockattr_init(&writers_first);
	pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&cut->lock, &writers_first);
	pthread_rwlockattr_destroy(&writers_first);
	pthread_mutex_init(&cut->sleep_lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&cut->power_went, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return cut;
}

int cut_close(struct cut *cut)
{
	int result = 0;

	if (!cut)
		return 0;
	if (is_powered(cut))
		result = cache_evict(cut->cache, 0);
	cache_free(cut->cache);
	pthread_rwlock_destroy(&cut->lock);
	pthread_mutex_destroy(&cut->sleep_lock);
	pthread_cond_destroy(&cut->power_went);
	free(cut);
	return result;
}

static uint64_t kernel_random(void)
{
	uint64_t value = 0;

	while (getrandom(&value, sizeof value, 0) < 0 && errno == EINTR)
		;
	return value;
}

/* With the lock held. */
static void lose_power(struct cut *cut, int64_t time_ns, const uint64_t *seed,
		       const enum cache_loss *loss)
{
	const struct cut_settings *settings = &cut->settings;
	struct cut_report *report = &cut->last;

	/* The settings' seed gives each cut its own, in turn. */
	report->seed = seed ? *seed : settings->seeded ? settings->seed + cut->cuts : kernel_random();
	report->loss = loss ? *loss :
		       settings->has_loss ? settings->loss :
					    (enum cache_loss)(kernel_random() % CACHE_LOSSES);
	report->cut_ns = time_ns;
	report->held_up = settings->plp;

	/* First of all no operation finishes any more, with or without the lock. */
	pthread_mutex_lock(&cut->sleep_lock);
	cut->cycle++;
	pthread_cond_broadcast(&cut->power_went);
	pthread_mutex_unlock(&cut->sleep_lock);
	cut->dies_ns = NEVER;
	cut->cuts++;

	cache_destage(cut->cache, time_ns);
	report->failure = 0;
	if (cache_cut(cut->cache, report->seed, settings->plp ? CACHE_LOSE_NONE : report->loss,
		      &report->cache) < 0)
		report->failure = errno;

	cut->events.power_lost(cut->events.owner, time_ns);
}

static void lock_for_change(struct cut *cut)
{
	pthread_rwlock_wrlock(&cut->lock);
	if (clock_monotonic_ns() >= cut->dies_ns)
		lose_power(cut, cut->dies_ns, NULL, NULL);
}

static void unlock(struct cut *cut)
{
	pthread_rwlock_unlock(&cut->lock);
}

/* The first thread that sees a hold-up over ends the power cycle. */
static void cut_what_is_due(struct cut *cut)
{
	if (clock_monotonic_ns() >= cut->dies_ns) {
		lock_for_change(cut);
		unlock(cut);
	}
}

/* Shared, where no cut is due. */
static void lock_to_look(struct cut *cut)
{
	pthread_rwlock_rdlock(&cut->lock);
	while (clock_monotonic_ns() >= cut->dies_ns) {
		unlock(cut);
		cut_what_is_due(cut);
		pthread_rwlock_rdlock(&cut->lock);
	}
}

static int no_power(void)
{
	errno = EIO;
	return -1;
}

/* Without the lock, for each operation comes by here: what is read may be the past
 * the moment after with the lock as well, and the next step looks again. */
int cut_enter(struct cut *cut, uint64_t *cycle)
{
	cut_what_is_due(cut);
	*cycle = cut->cycle;
	return *cycle % 2 && clock_monotonic_ns() >= cut->ready_ns ? 0 : no_power();
}

int cut_read(struct cut *cut, uint64_t cycle, void *data, size_t bytes, uint64_t offset)
{
	int result;

	lock_to_look(cut);
	result = cut->cycle == cycle ? cache_read(cut->cache, data, bytes, offset) : no_power();
	unlock(cut);
	return result;
}

/* What has to leave the cache for it leaves here, in the time that the write takes,
 * and not when it is done. */
int cut_write(struct cut *cut, uint64_t cycle, const void *data, uint64_t bytes, uint64_t offset,
	      uint64_t *ticket)
{
	struct entry *entry = cache_prepare(data, bytes, offset);
	int result = 0;

	lock_for_change(cut);
	if (cut->cycle != cycle) {
		cache_forget(entry);
		result = no_power();
	} else {
		int64_t now_ns = clock_monotonic_ns();

		*ticket = entry ? cache_write_prepared(cut->cache, now_ns, entry) :
				  cache_write(cut->cache, now_ns, data, bytes, offset);
		if (*ticket == 0)
			result = -1;
		else if (cut->settings.write_cache_bytes > 0)
			result = cache_destage(cut->cache, now_ns);
	}
	unlock(cut);
	return result;
}

int cut_flush(struct cut *cut, uint64_t cycle, uint64_t *ticket)
{
	int result = 0;

	lock_to_look(cut);
	*ticket = cache_newest(cut->cache);
	if (cut->cycle != cycle)
		result = no_power();
	unlock(cut);
	return result;
}

int cut_wait(struct cut *cut, uint64_t cycle, int64_t until_ns)
{
	struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
				  .tv_nsec = until_ns % NS_PER_SECOND };

	if (clock_monotonic_ns() < until_ns) {
		pthread_mutex_lock(&cut->sleep_lock);
		while (cut->cycle == cycle &&
		       pthread_cond_timedwait(&cut->power_went, &cut->sleep_lock, &until) != ETIMEDOUT)
			;
		pthread_mutex_unlock(&cut->sleep_lock);
	}
	return cut->cycle == cycle ? 0 : no_power();
}

int cut_finish_read(struct cut *cut, uint64_t cycle)
{
	cut_what_is_due(cut);
	return cut->cycle == cycle ? 0 : no_power();
}

int cut_finish_write(struct cut *cut, uint64_t cycle, uint64_t ticket, bool fua)
{
	bool durable = cut->settings.write_cache_bytes == 0 || (fua && !cut->settings.lies);
	int result;

	if (!durable) /* nothing is promised: as of a read */
		return cut_finish_read(cut, cycle);
	lock_for_change(cut);
	result = cut->cycle == cycle ? cache_commit(cut->cache, ticket) : no_power();
	unlock(cut);
	return result;
}

int cut_finish_flush(struct cut *cut, uint64_t cycle, uint64_t ticket)
{
	int result = 0;

	lock_for_change(cut);
	if (cut->cycle != cycle)
		result = no_power();
	else if (!cut->settings.lies)
		result = cache_flush(cut->cache, ticket);
	unlock(cut);
	return result;
}

/* With the lock held. */
static void switch_rail(struct cut *cut, unsigned rail, bool on, int64_t now_ns)
{
	cut->rail_on[rail] = on;
	cut->switched_ns[rail] = now_ns;
	cut->events.rail_switched(cut->events.owner, now_ns, rail, on);
}

/* With the lock held, after switches have changed: the drive begins, or when it
 * will stop. */
static void follow_switches(struct cut *cut, int64_t now_ns)
{
	int64_t dies_ns = NEVER;

	for (unsigned r = 0; r < cut->rail_count; r++)
		if (!cut->rail_on[r] && cut->switched_ns[r] + cut->settings.holdup_ns < dies_ns)
			dies_ns = cut->switched_ns[r] + cut->settings.holdup_ns;
	if (is_powered(cut)) {
		cut->dies_ns = dies_ns;
		return;
	}
	if (dies_ns != NEVER)
		return;
	cut->ready_ns = now_ns + cut->settings.ready_ns;
	cut->cycle++; /* after ready_ns: a thread that sees the new cycle sees the new time */
	cut->power_ons++;
	cut->events.power_restored(cut->events.owner, now_ns, cut->ready_ns);
}

bool cut_power_off(struct cut *cut, const uint64_t *seed, const enum cache_loss *loss,
		   struct cut_report *report)
{
	bool was_powered;

	lock_for_change(cut);
	was_powered = is_powered(cut);
	if (was_powered) {
		int64_t now_ns = clock_monotonic_ns();

		for (unsigned r = 0; r < cut->rail_count; r++)
			if (cut->rail_on[r])
				switch_rail(cut, r, false, now_ns);
		lose_power(cut, now_ns, seed, loss);
		*report = cut->last;
	}
	unlock(cut);
	return was_powered;
}

bool cut_power_on(struct cut *cut)
{
	bool changed = false;

	lock_for_change(cut);
	for (unsigned r = 0; r < cut->rail_count; r++) {
		if (!cut->rail_on[r]) {
			switch_rail(cut, r, true, clock_monotonic_ns());
			changed = true;
		}
	}
	if (changed)
		follow_switches(cut, clock_monotonic_ns());
	unlock(cut);
	return changed;
}

void cut_rail(struct cut *cut, unsigned rail, bool on)
{
	lock_for_change(cut);
	if (cut->rail_on[rail] != on) {
		int64_t now_ns = clock_monotonic_ns();

		switch_rail(cut, rail, on, now_ns);
		follow_switches(cut, now_ns);
	}
	unlock(cut);
}

int64_t cut_tick(struct cut *cut)
{
	int64_t now_ns, due_ns;

	lock_for_change(cut);
	now_ns = clock_monotonic_ns();
	/* What the file could not take stays, and is retried. */
	if (is_powered(cut))
		cache_destage(cut->cache, now_ns);
	due_ns = cut->dies_ns < now_ns + TICK_NS ? cut->dies_ns : now_ns + TICK_NS;
	unlock(cut);
	return due_ns;
}

void cut_state(struct cut *cut, struct cut_state *state)
{
	cut_tick(cut);
	lock_to_look(cut);
	*state = (struct cut_state){
		.powered = is_powered(cut),
		.ready = is_powered(cut) && clock_monotonic_ns() >= cut->ready_ns,
		.power_ons = cut->power_ons,
		.cuts = cut->cuts,
		.dirty_bytes = cache_dirty_bytes(cut->cache),
		.capacity_bytes = cache_capacity_bytes(cut->cache),
		.last = cut->last,
	};
	for (unsigned r = 0; r < cut->rail_count; r++) {
		state->rail_on[r] = cut->rail_on[r];
		state->switched_ns[r] = cut->switched_ns[r];
	}
	unlock(cut);
}
