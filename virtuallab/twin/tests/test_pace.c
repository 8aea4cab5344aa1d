/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "check.h"
#include "pace.h"

#define US 1000LL

static void time_in_the_devices_hands_is_the_union_of_its_operations(void)
{
	struct pace pace = { 0 };

	pace_arrived(&pace, 0);
	pace_decided(&pace, 0, 100 * US);
	pace_arrived(&pace, 50 * US);
	pace_decided(&pace, 50 * US, 120 * US);
	CHECK(pace_device_bound_ns(&pace, 70 * US) == 70 * US); /* what is to come does not count yet */
	CHECK(pace_busy_ns(&pace, 70 * US) == 70 * US);
	pace_served(&pace, PACE_READ, 0, 100 * US, 100 * US);
	pace_served(&pace, PACE_READ, 50 * US, 120 * US, 150 * US); /* 30 us late */
	CHECK(pace_busy_ns(&pace, 400 * US) == 150 * US);
	CHECK(pace_device_bound_ns(&pace, 400 * US) == 120 * US);
	pace_arrived(&pace, 400 * US);
	pace_decided(&pace, 400 * US, 410 * US);
	pace_served(&pace, PACE_WRITE, 400 * US, 410 * US, 410 * US);
	CHECK(pace_busy_ns(&pace, 500 * US) == 160 * US);
	CHECK(pace_device_bound_ns(&pace, 500 * US) == 130 * US);
}

static void while_an_operation_waits_for_its_decision_the_device_has_it(void)
{
	struct pace pace = { 0 };

	pace_arrived(&pace, 0);
	pace_arrived(&pace, 5 * US);
	pace_decided(&pace, 5 * US, 10 * US); /* the later one goes first */
	pace_served(&pace, PACE_READ, 5 * US, 10 * US, 10 * US);
	CHECK(pace_device_bound_ns(&pace, 15 * US) == 15 * US);
	pace_decided(&pace, 0, 20 * US);
	pace_served(&pace, PACE_READ, 0, 20 * US, 20 * US);
	CHECK(pace_device_bound_ns(&pace, 30 * US) == 20 * US);
	CHECK(pace_busy_ns(&pace, 30 * US) == 20 * US);
}

static void lateness_is_counted(void)
{
	struct pace pace = { 0 };

	for (unsigned n = 0; n < 3; n++) {
		pace_arrived(&pace, 0);
		pace_decided(&pace, 0, 100 * US);
	}
	pace_served(&pace, PACE_READ, 0, 100 * US, 100 * US);
	pace_served(&pace, PACE_READ, 0, 100 * US, 109 * US);
	pace_served(&pace, PACE_READ, 0, 100 * US, 120 * US);
	CHECK(pace.operations == 3);
	CHECK(pace.late_operations == 1);
	CHECK(pace.late_ns_total == 29 * US);
	CHECK(pace.late_ns_max == 20 * US);
	CHECK(pace.model_ns_total[PACE_READ] == 300 * US);
	CHECK(pace.served_ns_total[PACE_READ] == 329 * US);
}

static void an_operation_that_fails_is_in_no_latency(void)
{
	struct pace pace = { 0 };

	pace_arrived(&pace, 0);
	pace_decided(&pace, 0, 100 * US);
	pace_failed(&pace, 40 * US);
	CHECK(pace.operations == 0);
	CHECK(pace_busy_ns(&pace, 200 * US) == 40 * US);
}

static void each_latency_is_between_the_edges_of_its_bin(void)
{
	for (int64_t latency_ns = 1000; latency_ns < 200000000000; latency_ns += latency_ns / 7 + 1) {
		struct pace pace = { 0 };
		unsigned bin = 0;

		pace_arrived(&pace, 0);
		pace_decided(&pace, 0, latency_ns);
		pace_served(&pace, PACE_FLUSH, 0, latency_ns, latency_ns);
		while (pace.model_counts[PACE_FLUSH][bin] == 0)
			bin++;
		CHECK(latency_ns >= pace_edge_ns(bin));
		CHECK(bin == PACE_BINS - 1 || latency_ns < pace_edge_ns(bin + 1));
		CHECK(pace.served_counts[PACE_FLUSH][bin] == 1);
	}
	for (unsigned bin = 0; bin + 1 < PACE_BINS; bin++) {
		struct pace pace = { 0 };

		pace_arrived(&pace, 0);
		pace_decided(&pace, 0, pace_edge_ns(bin));
		pace_served(&pace, PACE_READ, 0, pace_edge_ns(bin), pace_edge_ns(bin + 1) - 1);
		CHECK(pace.model_counts[PACE_READ][bin] == 1);
		CHECK(pace.served_counts[PACE_READ][bin] == 1);
	}
}

int main(void)
{
	time_in_the_devices_hands_is_the_union_of_its_operations();
	while_an_operation_waits_for_its_decision_the_device_has_it();
	lateness_is_counted();
	an_operation_that_fails_is_in_no_latency();
	each_latency_is_between_the_edges_of_its_bin();
	return report("pace");
}
