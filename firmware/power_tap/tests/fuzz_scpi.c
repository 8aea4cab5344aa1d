/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A client that sends anything at all, at any time, to a tap that samples: input
 * for a coverage-guided fuzzer (libFuzzer). The first byte chooses the rate, the
 * instrument and whether the board has its parts; of the others, those below 128
 * are what the client sends, the rest puts in samples and lets time pass. Besides
 * the sanitizers, what every client relies on is checked: replies fit, blocks
 * have the length they announce and are never empty, and the number of a sample is
 * true.
 */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_SAMPLE 1000000

#define MUST(condition) \
	do { \
		if (!(condition)) \
			abort(); \
	} while (0)

static struct tap tap;
static struct session session;
static struct {
	bool on[TAP_RAILS];
	uint8_t memory[CALIBRATION_IMAGE_SIZE];
	uint8_t lines;
} hardware;

static void set_rail(void *context, unsigned rail, bool on)
{
	(void)context;
	MUST(rail < TAP_RAILS);
	hardware.on[rail] = on;
}

static bool rail_is_on(void *context, unsigned rail)
{
	(void)context;
	MUST(rail < TAP_RAILS);
	return hardware.on[rail];
}

static uint8_t lines(void *context)
{
	(void)context;
	return hardware.lines++;
}

static bool store(void *context, const void *data, size_t length)
{
	(void)context;
	MUST(length == sizeof hardware.memory);
	memcpy(hardware.memory, data, length);
	return hardware.lines % 4 != 0; /* it fails now and then */
}

static bool load(void *context, void *data, size_t length)
{
	(void)context;
	MUST(length == sizeof hardware.memory);
	memcpy(data, hardware.memory, length);
	return true;
}

static const struct board board = { .set_rail = set_rail,
				    .rail_is_on = rail_is_on,
				    .markers = lines,
				    .store = store,
				    .load = load,
				    .name = "fuzzed" };

/* A reply is a line of text, or has a block in it; one that begins with a block
 * has all of it. */
static void check_reply(const uint8_t *reply, size_t length)
{
	size_t digits, block = 0;

	MUST(length > 0 && length <= SESSION_OUT_SIZE);
	if (!session.scpi.out_is_block) {
		MUST(memchr(reply, '\n', length) == reply + length - 1);
		return;
	}
	if (reply[0] != '#')
		return;
	MUST(length > 2);
	digits = (size_t)(reply[1] - '0');
	MUST(digits >= 1 && digits <= 9 && 2 + digits < length);
	for (size_t n = 0; n < digits; n++)
		block = block * 10 + (size_t)(reply[2 + n] - '0');
	MUST(block > 0 && block <= TAP_WINDOW_SAMPLES * 4 && 2 + digits + block <= length);
}

/* The samples of the window are those before the reader's place, in order: the
 * markers number them. */
static void check_place(void)
{
	const struct tap_view *view = &session.view;

	MUST(view->window_samples <= TAP_WINDOW_SAMPLES);
	MUST(view->window_lost <= view->window_samples);
	MUST(view->reader.next <= tap_samples(&tap));
	/* A client that asks for the identity starts over, the tap's count goes on. */
	MUST(view->reader.overruns <= tap.overruns[view->instrument]);
	MUST((uint64_t)view->window_lost + view->unreported <= view->reader.overruns);
	for (uint32_t n = view->window_lost; n < view->window_samples; n++) {
		uint64_t number = view->reader.next - (view->window_samples - n);

		MUST(view->window[n - view->window_lost].markers == number % 4);
	}
}

static void put_samples(unsigned count)
{
	for (unsigned n = 0; n < count; n++) {
		uint64_t number = tap_samples(&tap);
		float volts = number % 7 == 6 ? __builtin_nanf("") : (float)(number % 13);
		struct sample sample = { .volts = { volts, volts, volts, volts },
					 .amps = { volts, -volts, volts, -volts } };

		sample.markers = (uint8_t)(number % 4);
		hardware.lines = sample.markers;
		for (unsigned r = 0; r < TAP_RAILS; r++)
			if (!hardware.on[r])
				sample.volts[r] /= 4;
		tap_sample(&tap, &sample);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t rates[] = { 1, 50, 1000, 100000 };
	int64_t now_ns = 0;

	if (size == 0)
		return 0;
	for (unsigned r = 0; r < TAP_RAILS; r++)
		hardware.on[r] = true;
	memset(hardware.memory, 0, sizeof hardware.memory);
	if (data[0] & 16)
		memcpy(hardware.memory, data, size < sizeof hardware.memory ? size : sizeof hardware.memory);
	tap_init(&tap, rates[data[0] & 3], "fuzz", data[0] & 8 ? &board : NULL);
	session_open(&session, &tap, data[0] >> 2 & 1);

	for (size_t n = 1; n < size; n++) {
		size_t length = 0;
		const uint8_t *reply;

		if (data[n] & 0x80) {
			unsigned count = data[n] & 0x7f;

			/* Few, for many inputs a second; the longest overtake the client. */
			put_samples(count > 120 ? (count - 120) * TAP_RING_SAMPLES / 4 : count / 16);
			now_ns += (int64_t)count * NS_PER_SAMPLE;
		} else {
			scpi_put(&session.scpi, data[n]);
		}
		reply = scpi_run(&session.scpi, now_ns, &length);
		if (!reply)
			continue;
		check_reply(reply, length);
		if (data[0] & 8 && session.view.window_samples)
			check_place();
	}
	/* Whatever it was sent, it answers, once what it waits for is there. */
	for (unsigned n = 0; n < 2; n++) {
		static const char line[] = "\n*IDN?\n";

		for (const char *at = line; *at; at++) {
			size_t length = 0;

			for (unsigned tries = 0; !scpi_put(&session.scpi, (uint8_t)*at); tries++) {
				MUST(tries < SCPI_LINE_SIZE);
				put_samples(TAP_WINDOW_SAMPLES);
				now_ns += NS_PER_SAMPLE * 1000;
				scpi_run(&session.scpi, now_ns, &length);
			}
			const uint8_t *reply = scpi_run(&session.scpi, now_ns, &length);

			if (n == 1 && at[1] == '\0')
				MUST(reply && length > 20 && memcmp(reply, "Rohde", 5) == 0);
		}
	}
	return 0;
}
