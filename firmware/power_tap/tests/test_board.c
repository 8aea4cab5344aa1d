/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The posix port's parts: what stands for the board, its source, its losses. */
#define _GNU_SOURCE
#include "calibration.h"
#include "loss.h"
#include "synthetic.h"
#include "virtual_board.h"

#include "check.h"

#include <stdlib.h>
#include <unistd.h>

static struct virtual_board it;
static char memory[] = "/tmp/tap-memory-XXXXXX";

static bool load(uint8_t *data, size_t length)
{
	return it.board.load(it.board.context, data, length);
}

static bool file_has(const char *path, const char *text)
{
	char found[8] = "";
	FILE *file = fopen(path, "r");
	bool read = file && fgets(found, sizeof found, file);

	if (file)
		fclose(file);
	return read && strcmp(found, text) == 0;
}

static void a_measured_rails_switch_is_a_file_and_its_samples_are_what_was_measured(void)
{
	char path[] = "/tmp/tap-switch-XXXXXX";
	int fd = mkstemp(path);
	struct sample sample = { .volts = { 12, 5 }, .amps = { 1, 2 } };

	CHECK(fd >= 0 && write(fd, "0\n", 2) == 2 && close(fd) == 0);
	virtual_board_init(&it, 1000000, NULL);
	virtual_board_measure(&it, 0, path);
	virtual_board_measure(&it, 1, NULL);
	CHECK(!it.board.rail_is_on(it.board.context, 0)); /* as it was found */
	it.board.set_rail(it.board.context, 0, true);
	CHECK(file_has(path, "1\n") && it.board.rail_is_on(it.board.context, 0));
	it.board.set_rail(it.board.context, 0, false);
	CHECK(file_has(path, "0\n") && !it.board.rail_is_on(it.board.context, 0));
	virtual_board_apply(&it, 0, 4, &sample);
	CHECK(sample.volts[0] == 12 && sample.amps[0] == 1); /* its drive has another way to power */
	it.board.set_rail(it.board.context, 1, false);
	CHECK(it.board.rail_is_on(it.board.context, 1)); /* nothing switches it */
	unlink(path);
	it.board.set_rail(it.board.context, 0, true);
	CHECK(!it.board.rail_is_on(it.board.context, 0)); /* its switch has gone */
}

static void a_rail_that_is_off_draws_nothing_and_decays_in_a_line(void)
{
	virtual_board_init(&it, 1000000, NULL);
	it.board.set_rail(it.board.context, 1, false);
	CHECK(!it.board.rail_is_on(it.board.context, 1) && it.board.rail_is_on(it.board.context, 0));
	for (unsigned n = 0; n < 8; n++) {
		struct sample sample = { .volts = { 12, 8 }, .amps = { 1, 2 } };

		virtual_board_apply(&it, n, 4, &sample);
		CHECK(sample.volts[0] == 12 && sample.amps[0] == 1);
		CHECK(sample.volts[1] == (n < 4 ? 8 - 2 * (float)n : 0) && sample.amps[1] == 0);
	}
	it.board.set_rail(it.board.context, 1, true);
	it.board.set_rail(it.board.context, 1, false);
	struct sample sample = { .volts = { 12, 8 }, .amps = { 1, 2 } };

	virtual_board_apply(&it, 9, 0, &sample);
	CHECK(sample.volts[1] == 0); /* without decay: at once */
}

static void a_rail_of_a_twin_is_left_to_the_twin(void)
{
	struct sample sample = { .volts = { 12, 8 }, .amps = { 1, 2 } };

	virtual_board_init(&it, 1000000, NULL);
	virtual_board_attach(&it, 1, "/nonexistent/twin", "12v");
	it.next_sample = 41;
	it.board.set_rail(it.board.context, 1, false);
	/* The twin is gone: as commanded, from the next sample on. */
	CHECK(!it.board.rail_is_on(it.board.context, 1));
	CHECK(it.board.switched_sample(it.board.context, 1) == 41);
	virtual_board_apply(&it, 9, 0, &sample);
	CHECK(sample.volts[1] == 8 && sample.amps[1] == 2);
}

static void a_marker_shows_from_its_window_on(void)
{
	virtual_board_init(&it, 1000000, NULL);
	it.markers_fd = 1;
	it.changes[0].window = 5;
	it.changes[0].lines = 2;
	it.changes[1].window = 5;
	it.changes[1].lines = 3;
	it.changes[2].window = 7;
	it.changes[2].lines = 0;
	it.change_count = 3;
	for (int64_t window = 3; window < 9; window++) {
		struct sample sample = { .markers = 0 };

		virtual_board_apply(&it, window, 0, &sample);
		CHECK(sample.markers == (window == 5 || window == 6 ? 3 : 0));
	}
	CHECK(it.change_count == 0);
}

static void memory_keeps_what_was_stored(void)
{
	uint8_t data[CALIBRATION_IMAGE_SIZE], read[sizeof data];
	int fd = mkstemp(memory);

	CHECK(fd >= 0);
	close(fd);
	unlink(memory);
	virtual_board_init(&it, 1000000, memory);
	CHECK(!load(read, sizeof read)); /* never written */
	memset(data, 'x', sizeof data);
	CHECK(it.board.store(it.board.context, data, sizeof data));
	CHECK(load(read, sizeof read) && memcmp(data, read, sizeof read) == 0);
	/* A part of an image is no empty memory: the core must see that it is damaged. */
	CHECK(truncate(memory, sizeof data / 2) == 0);
	CHECK(load(read, sizeof read) && memcmp(data, read, sizeof read) != 0);
	CHECK(!calibration_is_blank(read));
	unlink(memory);
	it.memory_path = "/nonexistent/memory";
	CHECK(!it.board.store(it.board.context, data, sizeof data));
	CHECK(!load(read, sizeof read));
}

static void losses_are_the_part_asked_for_at_places_of_the_seed(void)
{
	static const double fractions[] = { 0.05, 0.3, 0.07, 0.9, 1, 0.0001 };

	for (unsigned f = 0; f < sizeof fractions / sizeof *fractions; f++) {
		struct loss loss = { .fraction = fractions[f], .seed = 1 };
		struct loss other = { .fraction = fractions[f], .seed = 2 };
		unsigned lost = 0, same = 0;
		const unsigned blocks = 100000;

		for (unsigned n = 0; n < blocks; n++) {
			bool drops = loss_drops(&loss, n);

			CHECK(drops == loss_drops(&loss, n));
			lost += drops;
			same += drops && loss_drops(&other, n);
		}
		CHECK(lost >= (unsigned)(blocks * fractions[f]) - 1 &&
		      lost <= (unsigned)(blocks * fractions[f]) + 1);
		CHECK(same < lost || fractions[f] == 1);
	}
	struct loss none = { .fraction = 0 };

	CHECK(!loss_drops(&none, 0) && !loss_drops(&none, 12345));
}

static void synthetic_samples_are_what_they_are_said_to_be(void)
{
	struct sample sample;

	synthetic_sample(0, &sample);
	CHECK(sample.amps[0] == 1 && sample.amps[1] == 1.5f && sample.amps[2] == 0.5f &&
	      sample.amps[3] == 0.25f);
	CHECK(sample.volts[0] == 12 - 0.05f && sample.markers == 0);
	synthetic_sample(4096 + 2048, &sample);
	CHECK(sample.amps[0] == 1.5f && sample.volts[0] == 12 - 0.05f * 1.5f && sample.markers == 3);
	synthetic_sample(4095, &sample);
	CHECK(sample.amps[0] > 1.999f && sample.markers == 2);
	synthetic_sample(4096ull * 4093, &sample);
	CHECK(sample.amps[0] == 1 && sample.amps[1] == 1.5f);
}

int main(void)
{
	a_measured_rails_switch_is_a_file_and_its_samples_are_what_was_measured();
	a_rail_that_is_off_draws_nothing_and_decays_in_a_line();
	a_rail_of_a_twin_is_left_to_the_twin();
	a_marker_shows_from_its_window_on();
	memory_keeps_what_was_stored();
	losses_are_the_part_asked_for_at_places_of_the_seed();
	synthetic_samples_are_what_they_are_said_to_be();
	return report("board");
}
