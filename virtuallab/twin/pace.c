/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pace.h"

#include <math.h>

#define FIRST_EDGE_NS 1000.0
#define BINS_PER_OCTAVE 4

const char *pace_kind_name(enum pace_kind kind)
{
	static const char *const names[PACE_KINDS] = { "read", "write", "flush", "discard" };

	return names[kind];
}

int64_t pace_edge_ns(unsigned bin)
{
	return (int64_t)(FIRST_EDGE_NS * exp2((double)bin / BINS_PER_OCTAVE));
}

static unsigned latency_bin(int64_t latency_ns)
{
	double octaves = latency_ns > 0 ? log2((double)latency_ns / FIRST_EDGE_NS) : 0;
	int bin = (int)floor(octaves * BINS_PER_OCTAVE);

	if (bin < 0)
		bin = 0;
	if (bin >= PACE_BINS)
		bin = PACE_BINS - 1;
	/* The edges are whole nanoseconds, the logarithm is not. */
	if (bin > 0 && latency_ns < pace_edge_ns((unsigned)bin))
		bin--;
	if (bin + 1 < PACE_BINS && latency_ns >= pace_edge_ns((unsigned)bin + 1))
		bin++;
	return (unsigned)bin;
}

void pace_arrived(struct pace *pace, int64_t arrival_ns)
{
	if (pace->in_flight++ == 0)
		pace->busy_since_ns = arrival_ns;
	if (pace->undecided++ == 0)
		pace->undecided_since_ns = arrival_ns;
}

/* Counts [from_ns, until_ns) but for what is counted already. */
static void add_device_time(struct pace *pace, int64_t from_ns, int64_t until_ns)
{
	if (from_ns < pace->device_until_ns)
		from_ns = pace->device_until_ns;
	if (until_ns <= from_ns)
		return;
	pace->device_ns += until_ns - from_ns;
	pace->device_until_ns = until_ns;
}

void pace_decided(struct pace *pace, int64_t arrival_ns, int64_t complete_ns)
{
	/* As long as one waits for its decision, it is in the device's hands. */
	add_device_time(pace, pace->undecided_since_ns < arrival_ns ? pace->undecided_since_ns : arrival_ns,
			complete_ns);
	if (--pace->undecided > 0)
		return;
	pace->undecided_since_ns = INT64_MAX;
}

static void leave(struct pace *pace, int64_t now_ns)
{
	if (--pace->in_flight == 0)
		pace->busy_ended_ns += now_ns - pace->busy_since_ns;
}

void pace_served(struct pace *pace, enum pace_kind kind, int64_t arrival_ns, int64_t complete_ns,
		 int64_t served_ns)
{
	int64_t late_ns = served_ns - complete_ns;

	pace->operations++;
	pace->late_ns_total += late_ns;
	if (late_ns > pace->late_ns_max)
		pace->late_ns_max = late_ns;
	if (late_ns > (complete_ns - arrival_ns) / 10)
		pace->late_operations++;
	pace->model_counts[kind][latency_bin(complete_ns - arrival_ns)]++;
	pace->served_counts[kind][latency_bin(served_ns - arrival_ns)]++;
	pace->model_ns_total[kind] += complete_ns - arrival_ns;
	pace->served_ns_total[kind] += served_ns - arrival_ns;
	leave(pace, served_ns);
}

void pace_failed(struct pace *pace, int64_t now_ns)
{
	leave(pace, now_ns);
}

int64_t pace_busy_ns(const struct pace *pace, int64_t now_ns)
{
	return pace->busy_ended_ns + (pace->in_flight ? now_ns - pace->busy_since_ns : 0);
}

int64_t pace_device_bound_ns(const struct pace *pace, int64_t now_ns)
{
	struct pace copy = *pace;

	if (copy.undecided)
		add_device_time(&copy, copy.undecided_since_ns, now_ns);
	/* What has been decided may lie ahead. */
	return copy.device_ns - (copy.device_until_ns > now_ns ? copy.device_until_ns - now_ns : 0);
}
