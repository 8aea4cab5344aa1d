/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a tap that is made dirty does to samples that are right, fault by fault. */
#define _GNU_SOURCE
#include "faults.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define RATE 1000
#define BLOCK (RATE / 50)

static struct faults it;
static char error[256];

static bool load(const char *text)
{
	char path[] = "/tmp/tap-faults-XXXXXX";
	int fd = mkstemp(path);
	bool loaded = write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	faults_init(&it, RATE);
	loaded = loaded && faults_load(&it, path, error, sizeof error);
	unlink(path);
	return loaded;
}

/* Sample n of a rail of 12 V and n A, as the tap gives it; its times of coming. */
static unsigned apply(uint64_t n, struct sample *sample)
{
	*sample = (struct sample){ .volts = { 12, 5 }, .amps = { (float)n, 1 } };
	return faults_apply(&it, sample);
}

static void without_faults_a_sample_stays_as_it_is(void)
{
	struct sample sample;

	CHECK(load("") && load("seed=7\n"));
	CHECK(apply(3, &sample) == 1 && sample.volts[0] == 12 && sample.amps[0] == 3);
}

static void a_channel_has_its_own_gain_and_offset(void)
{
	struct sample sample;

	CHECK(load("gain.2=1.5\noffset.1=0.25\n"));
	apply(2, &sample);
	CHECK(sample.amps[0] == 3 && sample.volts[0] == 12.25f && sample.volts[1] == 5 && sample.amps[1] == 1);
}

static void readings_are_late_and_amps_later_than_volts(void)
{
	struct sample sample;

	CHECK(load("delay=3\nskew=2\noffset.1=0\n"));
	for (uint64_t n = 0; n < 20; n++) {
		sample = (struct sample){ .volts = { (float)n }, .amps = { (float)n } };
		faults_apply(&it, &sample);
		CHECK(sample.volts[0] == (n < 3 ? 0 : (float)n - 3));
		CHECK(sample.amps[0] == (n < 5 ? 0 : (float)n - 5));
	}
}

static void a_converter_has_steps_and_an_end_of_its_range(void)
{
	struct sample sample;

	CHECK(load("lsb.2=0.5\nfull_scale.1=10\nover_range.2=100\n"));
	sample = (struct sample){ .volts = { -12 }, .amps = { 1.3f } };
	faults_apply(&it, &sample);
	CHECK(sample.volts[0] == -10 && sample.amps[0] == 1.5f);
	apply(101, &sample);
	CHECK(isinf(sample.amps[0]) && sample.amps[0] > 0);
}

static void a_channel_sticks_and_peaks_are_lost(void)
{
	struct sample sample;

	CHECK(load("stuck.2=0.01\n"));
	for (uint64_t n = 0; n < 20; n++) {
		apply(n, &sample);
		CHECK(sample.amps[0] == (n < 10 ? (float)n : 9));
	}
	CHECK(load("peaks.2=5\n"));
	for (uint64_t n = 0; n < 20; n++) {
		apply(n, &sample);
		CHECK(sample.amps[0] == (n < 6 ? (float)n : 5));
	}
}

static void a_shunt_gets_warm(void)
{
	struct sample sample;

	CHECK(load("warm.2=0.1\nwarm_seconds=1\n"));
	apply(100, &sample);
	CHECK(sample.amps[0] == 100);
	for (uint64_t n = 1; n <= 20 * RATE; n++)
		apply(100, &sample);
	CHECK(fabsf(sample.amps[0] - 110) < 1e-4f);
}

static void noise_has_its_deviation_and_no_mean(void)
{
	double sum = 0, squares = 0;
	const unsigned count = 20000;
	struct sample sample;

	CHECK(load("noise.1=0.5\nseed=4\n"));
	for (unsigned n = 0; n < count; n++) {
		double off;

		apply(n, &sample);
		off = (double)sample.volts[0] - 12;
		sum += off;
		squares += off * off;
	}
	CHECK(fabs(sum / count) < 5 * 0.5 / sqrt(count));
	CHECK(fabs(sqrt(squares / count) - 0.5) < 0.01);
}

static void a_block_comes_twice_in_place_of_another(void)
{
	struct sample sample;
	unsigned doubled = 0;

	CHECK(load("doubled=0.25\nseed=3\n"));
	for (uint64_t n = 0; n < 100 * BLOCK; n++) {
		bool again;

		CHECK(apply(n, &sample) == 1);
		again = sample.amps[0] != (float)n;
		CHECK(!again || sample.amps[0] == (float)(n - BLOCK) || sample.amps[0] == (float)(n - 2 * BLOCK));
		doubled += again;
	}
	CHECK(doubled >= 24 * BLOCK && doubled <= 25 * BLOCK);
}

static unsigned that_come(const char *text, unsigned samples)
{
	unsigned came = 0;
	struct sample sample;

	CHECK(load(text));
	for (uint64_t n = 0; n < samples; n++)
		came += apply(n, &sample);
	return came;
}

static void blocks_and_samples_never_come_and_a_clock_is_slow_or_fast(void)
{
	CHECK(that_come("lost=0.1\n", 100 * BLOCK) == 90 * BLOCK);
	CHECK(that_come("trickle=0.001\n", 100000) == 99900);
	CHECK(that_come("ppm=100.5\n", 100000) == 99990);
	CHECK(that_come("ppm=-100.5\n", 100000) == 100010);
}

static void what_is_no_fault_is_refused_by_its_line(void)
{
	static const char *const wrong[] = { "gain.9=1", "gain=1", "delay.1=1", "lost=2", "lsb.1=x", "what", "seed=-1" };

	for (unsigned n = 0; n < sizeof wrong / sizeof *wrong; n++) {
		CHECK(!load(wrong[n]));
		CHECK(strstr(error, wrong[n]) != NULL);
	}
	CHECK(!faults_load(&it, "/nonexistent/faults", error, sizeof error));
	CHECK(strstr(error, "No such file") != NULL);
}

int main(void)
{
	without_faults_a_sample_stays_as_it_is();
	a_channel_has_its_own_gain_and_offset();
	readings_are_late_and_amps_later_than_volts();
	a_converter_has_steps_and_an_end_of_its_range();
	a_channel_sticks_and_peaks_are_lost();
	a_shunt_gets_warm();
	noise_has_its_deviation_and_no_mean();
	a_block_comes_twice_in_place_of_another();
	blocks_and_samples_never_come_and_a_clock_is_slow_or_fast();
	what_is_no_fault_is_refused_by_its_line();
	return report("faults of a tap");
}
