/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * How well the host under the twin kept the model's time. Pure: the caller gives
 * times (nanoseconds of one monotonic clock) and holds one lock around all calls.
 *
 * An operation is in the device's hands from its arrival to the model's end of
 * it; from there until it is handed back it is late. device_bound_ns is the time
 * in which at least one was in the device's hands, busy_ns that in which at least
 * one was there at all: their ratio is the fraction of the time in which the device
 * set the pace.
 */
#ifndef JOULERIG_PACE_H
#define JOULERIG_PACE_H

#include <stdint.h>

enum pace_kind { PACE_READ, PACE_WRITE, PACE_FLUSH, PACE_DISCARD, PACE_KINDS };

/* Bins of a quarter octave: bin n counts [edge(n), edge(n + 1)), the first also
 * what is shorter, the last also what is longer. */
#define PACE_BINS 112

struct pace {
	uint64_t operations;
	uint64_t late_operations; /* by more than a tenth of what the model gave them */
	int64_t late_ns_total;
	int64_t late_ns_max;
	uint64_t model_counts[PACE_KINDS][PACE_BINS];
	uint64_t served_counts[PACE_KINDS][PACE_BINS];
	int64_t model_ns_total[PACE_KINDS];
	int64_t served_ns_total[PACE_KINDS];

	unsigned in_flight;
	int64_t busy_since_ns;
	int64_t busy_ended_ns; /* sum of what is over */
	unsigned undecided;
	int64_t undecided_since_ns;
	int64_t device_until_ns;
	int64_t device_ns;
};

const char *pace_kind_name(enum pace_kind kind);
int64_t pace_edge_ns(unsigned bin);

/* Arrivals come in the order of their times. */
void pace_arrived(struct pace *pace, int64_t arrival_ns);
/* The model has said when the operation ends. */
void pace_decided(struct pace *pace, int64_t arrival_ns, int64_t complete_ns);
void pace_served(struct pace *pace, enum pace_kind kind, int64_t arrival_ns, int64_t complete_ns,
		 int64_t served_ns);
/* It ended without success: it was there, and is in no figure of latency. */
void pace_failed(struct pace *pace, int64_t now_ns);

int64_t pace_busy_ns(const struct pace *pace, int64_t now_ns);
int64_t pace_device_bound_ns(const struct pace *pace, int64_t now_ns);

#endif
