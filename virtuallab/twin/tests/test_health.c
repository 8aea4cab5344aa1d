/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "health.h"
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define SECOND 1000000000LL

static char folder[] = "/tmp/twin-health-XXXXXX";
static char path[64];

static void put(const char *text)
{
	FILE *file = fopen(path, "w");

	CHECK(file != NULL);
	fputs(text, file);
	fclose(file);
}

static bool is_close(double found, double expected)
{
	return fabs(found - expected) < 1e-9;
}

static void a_steady_power_warms_up_by_the_time_constant(void)
{
	struct thermal thermal = { .ambient_celsius = 25, .kelvin_per_watt = 4, .seconds = 100 };
	struct warmth warmth, by_steps;

	warmth_begin(&warmth, &thermal, 7 * SECOND);
	warmth_begin(&by_steps, &thermal, 7 * SECOND);
	CHECK(is_close(warmth.celsius, 25));
	warmth_step(&warmth, 107 * SECOND, 500); /* 5 W */
	CHECK(is_close(warmth.celsius, 25 + 20 * (1 - exp(-1))));
	for (int n = 1; n <= 100; n++)
		warmth_step(&by_steps, (7 + n) * SECOND, 5.0 * n);
	CHECK(is_close(by_steps.celsius, warmth.celsius));
	warmth_step(&warmth, 100007 * SECOND, 500 + 5.0 * 99900);
	CHECK(is_close(warmth.celsius, 45));
	warmth_step(&warmth, 100007 * SECOND, 1e9); /* no time: nothing */
	CHECK(is_close(warmth.celsius, 45));
	warmth_step(&warmth, 200007 * SECOND, 500 + 5.0 * 99900); /* off */
	CHECK(is_close(warmth.celsius, 25));
}

static void what_was_kept_is_read_back(void)
{
	struct health health = { .host_bytes_written = 1ULL << 60, .nand_bytes_written = 12345, .power_cycles = 7,
				 .unsafe_shutdowns = 2, .power_on_seconds = 3600.5, .host_bytes_read = 1ULL << 50,
				 .host_reads = 8, .host_writes = 9, .media_errors = 1, .busy_seconds = 12.5,
				 .warm_seconds = 90, .hot_seconds = 30.25,
				 .throttled = { .entered = { 4, 1 }, .seconds = { 60.5, 7 } }, .reported_joules = 1e7 };
	struct health read;
	char error[256];

	unlink(path);
	CHECK(health_load(&read, path, error, sizeof error) && read.power_cycles == 0);
	CHECK(health_save(&health, path, false) && health_load(&read, path, error, sizeof error));
	CHECK(read.host_bytes_written == 1ULL << 60 && read.nand_bytes_written == 12345);
	CHECK(read.power_cycles == 7 && read.unsafe_shutdowns == 2 && is_close(read.power_on_seconds, 3600.5));
	CHECK(read.host_bytes_read == 1ULL << 50 && read.host_reads == 8 && read.host_writes == 9);
	CHECK(read.media_errors == 1 && is_close(read.busy_seconds, 12.5));
	CHECK(is_close(read.warm_seconds, 90) && is_close(read.hot_seconds, 30.25));
	CHECK(read.throttled.entered[0] == 4 && is_close(read.throttled.seconds[0], 60.5));
	CHECK(read.throttled.entered[1] == 1 && is_close(read.throttled.seconds[1], 7));
	CHECK(is_close(read.reported_joules, 1e7));
}

static void a_file_from_before_reads_were_kept_is_taken(void)
{
	struct health read;
	char error[256];

	put("host_bytes_written 1\nnand_bytes_written 2\npower_cycles 3\nunsafe_shutdowns 4\n"
	    "power_on_seconds 5.0\nrunning 1\n");
	CHECK(health_load(&read, path, error, sizeof error) && read.power_cycles == 3 && read.unsafe_shutdowns == 5);
	CHECK(read.host_bytes_read == 0 && read.host_reads == 0 && read.busy_seconds == 0);
}

static void a_file_from_before_heat_was_kept_is_taken(void)
{
	struct health read;
	char error[256];

	put("host_bytes_written 1\nnand_bytes_written 2\npower_cycles 3\nunsafe_shutdowns 4\n"
	    "power_on_seconds 5.0\nrunning 0\nhost_bytes_read 6\nhost_reads 7\nhost_writes 8\n"
	    "media_errors 9\nbusy_seconds 10.0\n");
	CHECK(health_load(&read, path, error, sizeof error) && read.media_errors == 9);
	CHECK(is_close(read.warm_seconds, 0) && read.throttled.entered[0] == 0);
}

static void an_end_without_a_word_is_an_unsafe_shutdown(void)
{
	struct health health = { .unsafe_shutdowns = 2 }, read;
	char error[256];

	CHECK(health_save(&health, path, true) && health_load(&read, path, error, sizeof error));
	CHECK(read.unsafe_shutdowns == 3);
}

static void a_damaged_file_is_refused_and_named(void)
{
	static const char *const texts[] = {
		"", "hello\n",
		"host_bytes_written 1\nnand_bytes_written 1\npower_cycles 1\nunsafe_shutdowns 1\n",
		"host_bytes_written 1\nnand_bytes_written 1\npower_cycles 1\nunsafe_shutdowns 1\n"
		"power_on_seconds 1.0\nrunning 2\n",
		"host_bytes_written 1\nnand_bytes_written 1\npower_cycles 1\nunsafe_shutdowns 1\n"
		"power_on_seconds 1.0\nrunning 0\nhost_bytes_read 1\nhost_reads x\n",
		"host_bytes_written 1\nnand_bytes_written 1\npower_cycles 1\nunsafe_shutdowns 1\n"
		"power_on_seconds 1.0\nrunning 0\nhost_bytes_read 1\nhost_reads 1\nhost_writes 1\n"
		"media_errors 1\nbusy_seconds 1.0\nwarm_seconds 1.0\nhot_seconds x\n",
	};
	struct health read;
	char error[256];

	for (unsigned n = 0; n < sizeof texts / sizeof *texts; n++) {
		put(texts[n]);
		CHECK(!health_load(&read, path, error, sizeof error) && strstr(error, path));
	}
}

static void a_file_that_cannot_be_written_leaves_the_one_before(void)
{
	struct health health = { .power_cycles = 5 }, read;
	char error[256];

	CHECK(health_save(&health, path, false));
	CHECK(!health_save(&health, "/nonexistent/health", false));
	CHECK(health_load(&read, path, error, sizeof error) && read.power_cycles == 5);
}

int main(void)
{
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/drive.img.health", folder);
	a_steady_power_warms_up_by_the_time_constant();
	what_was_kept_is_read_back();
	a_file_from_before_reads_were_kept_is_taken();
	a_file_from_before_heat_was_kept_is_taken();
	an_end_without_a_word_is_an_unsafe_shutdown();
	a_damaged_file_is_refused_and_named();
	a_file_that_cannot_be_written_leaves_the_one_before();
	unlink(path);
	rmdir(folder);
	return report("health");
}
