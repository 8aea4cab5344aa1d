/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "throttle.h"
#include "check.h"

#include <math.h>
#include <string.h>

static bool is_close(double found, double expected)
{
	return fabs(found - expected) < 1e-9;
}

static struct throttle two_levels(void)
{
	struct throttle throttle = { 0 };
	char error[256];

	CHECK(throttle_add(&throttle, "70,65,0.5,0.6", error, sizeof error));
	CHECK(throttle_add(&throttle, "80,75,0.1,0.2", error, sizeof error));
	return throttle;
}

static void a_cool_drive_is_not_throttled(void)
{
	struct throttle none = { 0 }, throttle = two_levels();

	CHECK(!throttle_step(&none, 1, 150) && none.level == 0 && is_close(throttle_now(&none).rate, 1));
	CHECK(!throttle_step(&throttle, 1, 69.9) && throttle.level == 0);
	CHECK(is_close(throttle_now(&throttle).watts, 1) && throttle.counts.entered[0] == 0);
}

static void a_hot_one_is_until_it_is_cooler_than_it_became_hot(void)
{
	struct throttle throttle = two_levels();

	CHECK(throttle_step(&throttle, 1, 70) && throttle.level == 1);
	CHECK(is_close(throttle_now(&throttle).rate, 0.5) && is_close(throttle_now(&throttle).watts, 0.6));
	CHECK(!throttle_step(&throttle, 3, 65) && throttle.level == 1);
	CHECK(throttle_step(&throttle, 2, 64.9) && throttle.level == 0);
	CHECK(throttle.counts.entered[0] == 1 && throttle.counts.entered[1] == 0);
	CHECK(is_close(throttle.counts.seconds[0], 5) && is_close(throttle.counts.seconds[1], 0));
}

static void each_level_has_its_count_and_its_time(void)
{
	struct throttle throttle = two_levels();

	CHECK(throttle_step(&throttle, 1, 90) && throttle.level == 2); /* through both at once */
	CHECK(throttle.counts.entered[0] == 1 && throttle.counts.entered[1] == 1);
	CHECK(!throttle_step(&throttle, 4, 76));
	CHECK(throttle_step(&throttle, 1, 74) && throttle.level == 1); /* from above: not entered again */
	CHECK(throttle_step(&throttle, 7, 81) && throttle.level == 2);
	CHECK(throttle.counts.entered[0] == 1 && throttle.counts.entered[1] == 2);
	CHECK(throttle_step(&throttle, 2, 20) && throttle.level == 0);
	CHECK(is_close(throttle.counts.seconds[0], 7) && is_close(throttle.counts.seconds[1], 7));
}

static void what_cannot_be_is_refused_in_one_line(void)
{
	static const char *const wrong[] = { "",	      "70",		"70,65,0.5",	  "70,65,0.5,0.6,1",
					     "70,70,0.5,0.6", "70,71,0.5,0.6", "70,65,0,0.6",	  "70,65,1.1,0.6",
					     "70,65,0.5,0",   "70,65,0.5,nan",	"201,65,0.5,0.6", "70,-51,0.5,0.6",
					     "nan,65,1,1",    "70,65,0.5,0.6x" };
	struct throttle throttle = { 0 };
	char error[256];

	for (unsigned n = 0; n < sizeof wrong / sizeof *wrong; n++) {
		CHECK(!throttle_add(&throttle, wrong[n], error, sizeof error));
		CHECK(strstr(error, "allowed is ENTER,LEAVE,RATE,WATTS") && !strchr(error, '\n'));
	}
	throttle = two_levels();
	CHECK(!throttle_add(&throttle, "90,85,0.1,0.1", error, sizeof error) && strstr(error, "at most 2 levels"));
	throttle.count = 1;
	CHECK(!throttle_add(&throttle, "70,65,0.1,0.1", error, sizeof error) && strstr(error, "above 70 degrees"));
}

int main(void)
{
	a_cool_drive_is_not_throttled();
	a_hot_one_is_until_it_is_cooler_than_it_became_hot();
	each_level_has_its_count_and_its_time();
	what_cannot_be_is_refused_in_one_line();
	return report("throttle");
}
