/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "watchdog.h"

#include "frame.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* How often to look: often enough for the silence to be kept to a quarter, rarely enough to cost
 * nothing. */
#define MOST_TICK_NS 500000000
#define TICKS_OF_SILENCE 4
/* How long libsigrok may take to end an acquisition that waits inside a driver. */
#define STOP_NS INT64_C(1000000000)
/* No packet for this long while burning CPU: a driver that spins on a closed connection. */
#define SPIN_NS INT64_C(500000000)

static atomic_llong last_packet;
static atomic_llong stop_asked;
static atomic_int packets_seen;
static atomic_int connection_lost;
static atomic_llong silence_ns;

static int64_t now_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void leave_silent(double seconds, const char *why)
{
	char json[96];

	snprintf(json, sizeof json, "{\"event\":\"silence\",\"seconds\":%.3f}", seconds);
	if (!frame_try_event(json))
		return;
	fprintf(stderr, "srcap: %s for %.1f s, giving up\n", why, seconds);
	_exit(4);
}

static void *watch(void *unused)
{
	int64_t cpu_at_packet = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	int64_t packet_seen = atomic_load(&last_packet);

	(void)unused;
	int64_t tick_ns = silence_ns / TICKS_OF_SILENCE;

	if (tick_ns > MOST_TICK_NS)
		tick_ns = MOST_TICK_NS;
	for (;;) {
		struct timespec tick = { 0, (long)tick_ns };

		nanosleep(&tick, NULL);
		frame_flush_due();
		int64_t now = now_ns(CLOCK_MONOTONIC);
		int64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
		int64_t asked = atomic_load(&stop_asked);

		if (asked && now - asked > STOP_NS)
			_exit(0);
		/* While a write waits for the reader no packet can come: that is not the instrument's silence. */
		if (frame_is_writing()) {
			atomic_store(&last_packet, now);
			continue;
		}
		int64_t last = atomic_load(&last_packet);
		if (last != packet_seen) {
			packet_seen = last;
			cpu_at_packet = cpu;
		}
		int64_t quiet = now - last;

		if (quiet > atomic_load(&silence_ns))
			leave_silent((double)quiet / 1e9, "no samples");
		else if (atomic_load(&connection_lost))
			leave_silent((double)quiet / 1e9, "the connection was closed: no samples");
		else if (atomic_load(&packets_seen) && quiet > SPIN_NS && cpu - cpu_at_packet > quiet / 2)
			leave_silent((double)quiet / 1e9, "the driver spins without samples");
	}
	return NULL;
}

void watchdog_acquiring(double silence_seconds)
{
	atomic_store(&last_packet, now_ns(CLOCK_MONOTONIC));
	atomic_store(&silence_ns, (int64_t)(silence_seconds * 1e9));
}

void watchdog_start(double open_seconds)
{
	pthread_t thread;

	watchdog_acquiring(open_seconds);
	if (pthread_create(&thread, NULL, watch, NULL) != 0) {
		fprintf(stderr, "srcap: cannot start the watchdog\n");
		exit(5);
	}
	pthread_detach(thread);
}

void watchdog_packet(void)
{
	atomic_store(&last_packet, now_ns(CLOCK_MONOTONIC));
	atomic_store(&packets_seen, 1);
}

int watchdog_connection_lost(void)
{
	if (atomic_load(&packets_seen))
		atomic_store(&connection_lost, 1);
	return atomic_load(&connection_lost);
}

void watchdog_stop_requested(void)
{
	long long none = 0;

	atomic_compare_exchange_strong(&stop_asked, &none, now_ns(CLOCK_MONOTONIC));
}

int watchdog_is_stopping(void)
{
	return atomic_load(&stop_asked) != 0;
}
