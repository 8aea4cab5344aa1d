/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A client's session on the tap, spoken as libsigrok's hameg-hmo driver speaks. */
#define _GNU_SOURCE
#include "session.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#define MS 1000000LL

static struct tap tap;
static struct session session;
static float samples[TAP_WINDOW_SAMPLES];
static float next_value;

/* A board of which every part can be seen, and made to fail. */
static struct {
	bool on[TAP_RAILS];
	uint8_t lines;
	uint8_t memory[256];
	size_t stored; /* bytes in the memory */
	bool fails;
} hardware;

static void set_rail(void *context, unsigned rail, bool on)
{
	CHECK(context == &hardware);
	hardware.on[rail] = on;
}

static bool rail_is_on(void *context, unsigned rail)
{
	CHECK(context == &hardware);
	return hardware.on[rail];
}

static uint8_t lines(void *context)
{
	CHECK(context == &hardware);
	return hardware.lines;
}

static bool store(void *context, const void *data, size_t length)
{
	CHECK(context == &hardware && length <= sizeof hardware.memory);
	if (hardware.fails)
		return false;
	memcpy(hardware.memory, data, length);
	hardware.stored = length;
	return true;
}

static bool load(void *context, void *data, size_t length)
{
	CHECK(context == &hardware && length <= sizeof hardware.memory);
	if (hardware.stored < length)
		return false;
	memcpy(data, hardware.memory, length);
	return true;
}

static const struct board board = { .context = &hardware,
				    .set_rail = set_rail,
				    .rail_is_on = rail_is_on,
				    .markers = lines,
				    .store = store,
				    .load = load,
				    .name = "bench" };

static void begin(uint32_t rate_hz, unsigned instrument)
{
	tap_init(&tap, rate_hz, "S1", NULL);
	session_open(&session, &tap, instrument);
	next_value = 0;
}

/* As after power-on: the memory keeps what it has. */
static void begin_on_board(uint32_t rate_hz, unsigned instrument)
{
	for (unsigned r = 0; r < TAP_RAILS; r++)
		hardware.on[r] = true;
	hardware.lines = 0;
	hardware.fails = false;
	tap_init(&tap, rate_hz, "S1", &board);
	session_open(&session, &tap, instrument);
	next_value = 0;
}

static void begin_with_empty_memory(uint32_t rate_hz, unsigned instrument)
{
	hardware.stored = 0;
	begin_on_board(rate_hz, instrument);
}

static void sample_volts(float volts)
{
	struct sample one = { .volts = { volts, volts, volts, volts } };

	tap_sample(&tap, &one);
}

/* Sample n has volts n + rail / 10 and amps -(n + rail / 10). */
static void sample(unsigned count)
{
	for (unsigned n = 0; n < count; n++) {
		struct sample one = { .markers = 0 };

		for (unsigned r = 0; r < TAP_RAILS; r++) {
			one.volts[r] = next_value + 0.125f * (float)r;
			one.amps[r] = -one.volts[r];
		}
		tap_sample(&tap, &one);
		next_value++;
	}
}

static void put(const char *text)
{
	for (; *text; text++)
		CHECK(scpi_put(&session.scpi, (uint8_t)*text));
}

static const char *reply(const char *line)
{
	static char text[256];
	size_t length = 0;
	const uint8_t *bytes;

	put(line);
	bytes = scpi_run(&session.scpi, 0, &length);
	if (!bytes || length >= sizeof text)
		length = 0;
	else
		memcpy(text, bytes, length);
	text[length] = '\0';
	return text;
}

static uint8_t pod_bytes[TAP_WINDOW_SAMPLES * 4];
static unsigned pod_samples;

/* Bytes in the block that is the reply, into pod_bytes[]; 0 for no reply. */
static unsigned take_bytes(int64_t now_ns)
{
	size_t length;
	const uint8_t *bytes = scpi_run(&session.scpi, now_ns, &length);
	unsigned digits, bytes_in_block = 0;

	if (!bytes)
		return 0;
	CHECK(bytes[0] == '#');
	digits = (unsigned)(bytes[1] - '0');
	for (unsigned n = 0; n < digits; n++)
		bytes_in_block = bytes_in_block * 10 + (unsigned)(bytes[2 + n] - '0');
	CHECK(length == 2 + digits + bytes_in_block);
	CHECK(bytes_in_block > 0 && bytes_in_block <= sizeof pod_bytes);
	memcpy(pod_bytes, bytes + 2 + digits, bytes_in_block);
	return bytes_in_block;
}

/* Samples in the block that is the reply, into samples[]; 0 for no reply. */
static unsigned take_block(int64_t now_ns)
{
	unsigned length = take_bytes(now_ns);

	CHECK(length % 4 == 0);
	memcpy(samples, pod_bytes, length);
	return length / 4;
}

static unsigned ask(unsigned channel, int64_t now_ns)
{
	char line[] = ":FORM:BORD LSBF;:FORM REAL,32;:CHAN1:DATA?\r\n";

	*strchr(line, '1') = (char)('0' + channel);
	put(line);
	return take_block(now_ns);
}

static void join(void)
{
	CHECK(ask(1, 0) == 0);
	sample(20);
	CHECK(take_block(0) == 20);
	CHECK(ask(2, 0) == 20);
	CHECK(ask(3, 0) == 20);
	CHECK(ask(4, 0) == 20);
}

static void says_what_the_driver_wants_to_hear(void)
{
	begin(1000, 1);
	CHECK_TEXT(reply("*IDN?\r\n"), "Rohde&Schwarz,RTA4004,S1-B,01.600\n");
	CHECK_TEXT(reply(":PROB1:SET:ATT:UNIT?\r\n"), "V\n");
	CHECK_TEXT(reply(":PROB2:SET:ATT:UNIT?\r\n"), "A\n");
	CHECK_TEXT(reply(":PROB3:SET:ATT:UNIT?\r\n"), "V\n");
	CHECK_TEXT(reply(":PROB4:SET:ATT:UNIT?\r\n"), "A\n");
	CHECK_TEXT(reply(":ACQ:SRAT?\r\n"), "1000\n");
	CHECK_TEXT(reply(":LOG15:STAT?\r\n"), "0\n");
	CHECK_TEXT(reply(":CHAN5:STAT?\r\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\r\n"), "-114,\"Header suffix out of range\"\n");
	CHECK_TEXT(reply("SYST:ERR?\r\n"), "0,\"No error\"\n");
}

static void answers_the_native_commands(void)
{
	begin(2000, 0);
	sample(3);
	CHECK_TEXT(reply("TAP:IDN?\n"), "Joulerig,power tap,S1,2,0.2.0,unknown\n");
	CHECK_TEXT(reply("TAP:RATE?\n"), "2000\n");
	CHECK_TEXT(reply("TAP:COUNT?\n"), "3,0\n");
	CHECK_TEXT(reply("TAP:COUN?\n"), "3,0\n");
}

static void channels_of_a_round_share_one_window(void)
{
	begin(1000, 0);
	join();
	sample(20);
	CHECK(ask(1, 0) == 20);
	CHECK(samples[0] == 20 && samples[19] == 39);
	sample(7); /* comes in between, belongs to the next window */
	CHECK(ask(2, 0) == 20);
	CHECK(samples[0] == -20 && samples[19] == -39);
	CHECK(ask(3, 0) == 20);
	CHECK(samples[0] == 20.125f);
	CHECK(ask(4, 0) == 20);
	CHECK(samples[19] == -39.125f);
	sample(13);
	CHECK(ask(1, 0) == 20);
	CHECK(samples[0] == 40);
}

static void the_second_instrument_has_rails_three_and_four(void)
{
	begin(1000, 1);
	join();
	sample(20);
	CHECK(ask(1, 0) == 20);
	CHECK(samples[0] == 20.25f);
	CHECK(ask(4, 0) == 20);
	CHECK(samples[0] == -20.375f);
}

static void windows_follow_each_other_without_gap(void)
{
	float expected = 20;

	begin(1000, 0);
	join();
	for (unsigned round = 0; round < 200; round++) {
		unsigned count;

		sample(20 + round % 90);
		count = ask(1, 0);
		for (unsigned n = 0; n < count; n++)
			CHECK(samples[n] == expected++);
		CHECK(ask(2, 0) == count);
	}
	CHECK(expected > 20 + 200 * 20);
	CHECK(tap.overruns[0] == 0);
}

static void any_subset_of_channels_makes_rounds(void)
{
	begin(1000, 0);
	put(":CHAN1:STAT 0\n");
	CHECK(take_block(0) == 0);
	put(":CHAN2:STAT 0\n");
	CHECK(take_block(0) == 0);
	CHECK_TEXT(reply(":CHAN2:STAT?\n"), "0\n");
	CHECK(ask(3, 0) == 0);
	sample(20);
	CHECK(take_block(0) == 20);
	CHECK(ask(4, 0) == 20);
	CHECK(samples[0] == -0.125f);
	sample(20);
	CHECK(ask(3, 0) == 20);
	CHECK(samples[0] == 20.125f);
	sample(20);
	/* Channel 4 has not been given from this window, then it has. */
	CHECK(ask(4, 0) == 20 && samples[0] == -20.125f);
	CHECK(ask(4, 0) == 20 && samples[0] == -40.125f);
}

static void a_reply_waits_for_20_ms_of_samples(void)
{
	begin(1000, 0);
	join();
	CHECK(ask(1, 100 * MS) == 0);
	sample(19);
	CHECK(take_block(110 * MS) == 0);
	sample(1);
	CHECK(take_block(111 * MS) == 20);
}

static void a_reply_with_few_samples_comes_before_the_driver_reads(void)
{
	begin(1000, 0);
	join();
	CHECK(ask(1, 100 * MS) == 0);
	sample(3);
	CHECK(take_block(139 * MS) == 0);
	CHECK(take_block(140 * MS) == 3);
}

static void a_reply_without_samples_waits_for_ever(void)
{
	begin(1000, 0);
	join();
	CHECK(ask(1, 0) == 0);
	CHECK(take_block(3600 * 1000 * MS) == 0);
	sample(1);
	CHECK(take_block(3600 * 1000 * MS) == 1);
}

static void slow_rates_give_single_samples(void)
{
	begin(10, 0);
	CHECK(ask(1, 0) == 0);
	sample(1);
	CHECK(take_block(0) == 1);
}

static void a_client_starts_at_the_newest_sample(void)
{
	begin(1000, 0);
	sample(500); /* before its first request: another's */
	CHECK(ask(1, 0) == 0);
	sample(20);
	CHECK(take_block(0) == 20);
	CHECK(samples[0] == 500);
}

/* A serial line has no connections, so that is how a client begins there. */
static void who_asks_for_the_identity_starts_at_the_newest_sample(void)
{
	begin(1000, 0);
	join();
	sample(100); /* which the client before left */
	CHECK(strlen(reply("*IDN?\n")) > 0);
	CHECK(ask(1, 0) == 0);
	sample(20);
	CHECK(take_block(0) == 20);
	CHECK(samples[0] == 120);
}

static void a_client_that_fell_behind_catches_up_then_counts_its_loss(void)
{
	float expected = 20;

	begin(1000, 0);
	join();
	sample(TAP_RING_SAMPLES / 2);
	while (expected < 20 + TAP_RING_SAMPLES / 2) {
		unsigned count = ask(1, 0);

		CHECK(count > 0 && count <= TAP_WINDOW_SAMPLES);
		for (unsigned n = 0; n < count; n++)
			CHECK(samples[n] == expected++);
		if (count == 0)
			break;
	}
	CHECK(tap.overruns[0] == 0);
	sample(TAP_RING_SAMPLES + 99);
	CHECK(ask(1, 0) == TAP_WINDOW_SAMPLES);
	CHECK(tap.overruns[0] == 100); /* the slot being written is never read */
	for (unsigned n = 0; n < 100; n++)
		CHECK(samples[n] != samples[n]);
	CHECK(samples[100] == expected + 100);
	CHECK(tap.overruns[1] == 0);
}

/* What a client that counts samples must be able to rely on: sample number n has
 * the value n, or is reported as lost. */
static void lost_samples_keep_the_number_of_the_others(void)
{
	unsigned number = 20, reported = 0, count, stalls = 0;

	begin(1000, 0);
	join();
	while (number < 16 * TAP_RING_SAMPLES) {
		if (stalls < 3 && number > (stalls + 1) * 4 * TAP_RING_SAMPLES) {
			stalls++;
			sample(TAP_RING_SAMPLES + 700);
		} else {
			sample(20);
		}
		count = ask(1, 0);
		CHECK(count > 0);
		for (unsigned n = 0; n < count; n++, number++) {
			reported += samples[n] != samples[n];
			CHECK(samples[n] != samples[n] || samples[n] == (float)number);
		}
		CHECK(ask(2, 0) == count);
	}
	CHECK(stalls == 3);
	CHECK(reported > 3 * 700 && reported == tap.overruns[0]);
}

static void of_a_loss_a_second_at_most_is_reported(void)
{
	unsigned reported = 0, count;

	begin(200, 0);
	CHECK(ask(1, 0) == 0);
	sample(4);
	CHECK(take_block(0) == 4);
	sample(TAP_RING_SAMPLES - 1 + 1000);
	CHECK(tap.overruns[0] == 0);
	do {
		count = ask(1, 0);
		for (unsigned n = 0; n < count; n++)
			reported += samples[n] != samples[n];
	} while (count == TAP_WINDOW_SAMPLES && samples[count - 1] != samples[count - 1]);
	CHECK(tap.overruns[0] == 1000);
	CHECK(reported == 200);
	CHECK(samples[count - 1] == (float)(4 + 1000 + TAP_WINDOW_SAMPLES - 200 % TAP_WINDOW_SAMPLES - 1));
}

static atomic_bool stop;

static void *sample_for_ever(void *unused)
{
	unsigned n = 0;

	(void)unused;
	while (!atomic_load(&stop)) {
		sample_volts((float)(n++ % 1000000));
		if (n % 512 == 0)
			sched_yield();
	}
	return NULL;
}

/* Also where the interrupt that samples overtakes the client while its window is
 * being copied. */
static void numbers_stay_true_while_samples_come(void)
{
	uint64_t number = 0, lost = 0;
	pthread_t thread;
	bool is_true = true;

	if (failures) /* it would wait for losses that may never be reported */
		return;
	begin(UINT32_MAX, 0); /* so that all of a loss is reported */
	session.view.joined = true;
	atomic_store(&stop, false);
	CHECK(pthread_create(&thread, NULL, sample_for_ever, NULL) == 0);
	/* On a busy machine it may take a while until samples were lost, or some were not. */
	while (number < 3000000 || ((lost == 0 || lost == number) && number < 300000000)) {
		uint32_t count = tap_view_latch(&session.view);

		for (uint32_t n = 0; n < count; n++, number++) {
			float volts = tap_view_value(&session.view, 0, n);

			lost += volts != volts;
			is_true = is_true && (volts != volts || volts == (float)(number % 1000000));
		}
		if (number / TAP_RING_SAMPLES % 3 == 0)
			sched_yield();
		if (number >= 3000000 && lost == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	CHECK(is_true);
	CHECK(lost > 0 && lost < number);
	CHECK(lost + session.view.unreported == tap.overruns[0]);
}

static void ask_pod(unsigned pod, int64_t now_ns)
{
	char line[] = ":FORM UINT,8;:LOG1:DATA?\r\n";

	*strchr(line, '1') = (char)('0' + pod);
	put(line);
	pod_samples = take_bytes(now_ns);
}

static void markers_are_of_the_same_window_as_volts_and_amps(void)
{
	begin_with_empty_memory(1000, 0);
	CHECK(ask(1, 0) == 0);
	sample(20);
	CHECK(take_block(0) == 20);
	for (unsigned n = 0; n < 30; n++) {
		hardware.lines = (uint8_t)(n % 4 | 0xf0); /* lines that the tap has not */
		sample(1);
	}
	CHECK(ask(1, 0) == 30 && samples[0] == 20);
	hardware.lines = 3;
	sample(25); /* belongs to the next window */
	CHECK(ask(2, 0) == 30);
	CHECK(ask(4, 0) == 30);
	ask_pod(1, 0);
	CHECK(pod_samples == 30);
	for (unsigned n = 0; n < 30; n++)
		CHECK(pod_bytes[n] == n % 4);
	ask_pod(2, 0);
	CHECK(pod_samples == 30 && pod_bytes[3] == 0); /* nothing is connected there */
	CHECK(ask(1, 0) == 25 && samples[0] == 50);
	CHECK_TEXT(reply("TAP:MARK?\n"), "3\n");
}

static void a_pod_alone_makes_rounds(void)
{
	begin_with_empty_memory(1000, 0);
	for (unsigned channel = 1; channel <= TAP_CHANNELS; channel++) {
		char line[] = ":CHAN1:STAT 0\n";

		*strchr(line, '1') = (char)('0' + channel);
		CHECK_TEXT(reply(line), "");
	}
	ask_pod(1, 0);
	CHECK(pod_samples == 0); /* it waits, as a channel does */
	sample(20);
	CHECK(take_bytes(0) == 20);
	sample(21);
	ask_pod(1, 0);
	CHECK(pod_samples == 21);
}

static void markers_of_lost_samples_are_0(void)
{
	begin_with_empty_memory(1000, 0);
	CHECK(ask(1, 0) == 0);
	sample(20);
	CHECK(take_block(0) == 20);
	hardware.lines = 3;
	sample(TAP_RING_SAMPLES - 1 + 10);
	CHECK(ask(1, 0) == TAP_WINDOW_SAMPLES);
	ask_pod(1, 0);
	CHECK(pod_samples == TAP_WINDOW_SAMPLES);
	CHECK(pod_bytes[9] == 0 && pod_bytes[10] == 3);
}

static void a_loss_is_of_the_instrument_whose_client_was_late(void)
{
	for (unsigned instrument = 0; instrument < TAP_INSTRUMENTS; instrument++) {
		begin_with_empty_memory(1000, instrument);
		CHECK(ask(1, 0) == 0);
		sample(TAP_RING_SAMPLES - 1 + 10);
		CHECK(take_block(0) == TAP_WINDOW_SAMPLES);
		CHECK(tap.overruns[instrument] == 10 && tap.overruns[!instrument] == 0);
	}
}

static void digital_lines_keep_the_state_that_the_driver_sets(void)
{
	begin(1000, 0);
	CHECK_TEXT(reply(":LOG0:STAT?\n"), "0\n");
	CHECK_TEXT(reply(":LOG0:STAT 1;:LOG15:STAT ON\n"), "");
	CHECK_TEXT(reply(":LOG0:STAT?;:LOG15:STAT?;:LOG1:STAT?\n"), "1;1;0\n");
	CHECK_TEXT(reply(":LOG0:STAT 0\n"), "");
	CHECK_TEXT(reply(":LOG0:STAT?\n"), "0\n");
	CHECK_TEXT(reply("SYST:ERR?\n"), "0,\"No error\"\n");
	CHECK_TEXT(reply(":LOG16:STAT?\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-114,\"Header suffix out of range\"\n");
}

static void switches_a_rail_and_reports_the_sample(void)
{
	begin_with_empty_memory(1000, 1); /* any rail from any instrument */
	sample(7);
	CHECK_TEXT(reply("TAP:OUTP1?\n"), "1\n");
	CHECK_TEXT(reply("TAP:OUTP1:CUT?\n"), "NONE\n");
	CHECK_TEXT(reply("TAP:OUTP1 OFF\n"), "");
	CHECK(!hardware.on[0] && hardware.on[1] && hardware.on[2] && hardware.on[3]);
	sample(5);
	CHECK_TEXT(reply("TAP:OUTPut1?;:TAP:OUTPut1:CUT?\n"), "0;7\n");
	CHECK_TEXT(reply("TAP:OUTP1 OFF\n"), ""); /* it is already: no second cut */
	CHECK_TEXT(reply("TAP:OUTP1:CUT?\n"), "7\n");
	CHECK_TEXT(reply("TAP:OUTP1 1\n"), "");
	CHECK(hardware.on[0]);
	CHECK_TEXT(reply("TAP:OUTP1:CUT?\n"), "12\n");
	CHECK_TEXT(reply("TAP:OUTP4 OFF;:TAP:OUTP4?\n"), "0\n");
	CHECK_TEXT(reply("TAP:OUTP5 OFF\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-114,\"Header suffix out of range\"\n");
	CHECK_TEXT(reply("TAP:OUTP2 AUS\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-104,\"Data type error\"\n");
	CHECK(hardware.on[1]);
}

static void all_off_is_for_the_rails_of_the_instrument(void)
{
	begin_with_empty_memory(1000, 1);
	CHECK_TEXT(reply("TAP:OUTP:ALL OFF\n"), "");
	CHECK(hardware.on[0] && hardware.on[1] && !hardware.on[2] && !hardware.on[3]);
	CHECK_TEXT(reply("TAP:OUTP:ALL ON\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-224,\"Illegal parameter value\"\n");
	CHECK(!hardware.on[2] && !hardware.on[3]);
}

static void hold_up_is_from_the_cut_to_the_threshold(void)
{
	begin_with_empty_memory(1000, 0);
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "NONE\n");
	for (unsigned n = 0; n < 10; n++)
		sample_volts(12);
	CHECK_TEXT(reply("TAP:OUTP1 OFF\n"), "");
	sample_volts(11);
	sample_volts(__builtin_nanf("")); /* a sample that could not be read ends nothing */
	sample_volts(7);
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "RUNNING,0.003000000,1.20000000E+01,6.00000000E+00\n");
	sample_volts(6);
	sample_volts(1);
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "DONE,0.003000000,1.20000000E+01,6.00000000E+00\n");
	CHECK_TEXT(reply("TAP:HOLD2?\n"), "NONE\n");
	CHECK_TEXT(reply("TAP:OUTP1 ON\n"), "");
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "NONE\n");

	CHECK_TEXT(reply("TAP:HOLD1:THR 10.8;:TAP:HOLD1:THR?\n"), "1.08000002E+01\n");
	sample_volts(12);
	CHECK_TEXT(reply("TAP:OUTP1 OFF\n"), "");
	sample_volts(11.5f);
	sample_volts(10.5f);
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "DONE,0.001000000,1.20000000E+01,1.08000002E+01\n");
	CHECK_TEXT(reply("TAP:HOLD1:THR -1\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-222,\"Data out of range\"\n");
	CHECK_TEXT(reply("TAP:HOLD1:THR x\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-104,\"Data type error\"\n");
}

/* Rails have other volts. */
static void hold_up_is_of_the_rail_that_was_cut(void)
{
	struct sample one = { .volts = { 12, 5, 3.3f, 1.8f } };

	begin_with_empty_memory(1000, 0);
	tap_sample(&tap, &one);
	CHECK_TEXT(reply("TAP:OUTP2 OFF;:TAP:OUTP3 OFF\n"), "");
	CHECK_TEXT(reply("TAP:HOLD2?\n"), "RUNNING,0.000000000,5.00000000E+00,2.50000000E+00\n");
	one.volts[0] = one.volts[3] = 0;
	one.volts[1] = 2.6f;
	one.volts[2] = 1.6f;
	tap_sample(&tap, &one);
	CHECK_TEXT(reply("TAP:HOLD2?\n"), "RUNNING,0.001000000,5.00000000E+00,2.50000000E+00\n");
	CHECK_TEXT(reply("TAP:HOLD3?\n"), "DONE,0.000000000,3.29999995E+00,1.64999998E+00\n");
	CHECK_TEXT(reply("TAP:HOLD1?;:TAP:HOLD4?\n"), "NONE;NONE\n");
}

/* The volts at the cut decide where no threshold is set, again at each cut. */
static void a_threshold_that_was_set_is_of_its_rail_until_it_is_set_to_0(void)
{
	begin_with_empty_memory(1000, 0);
	sample_volts(12);
	CHECK_TEXT(reply("TAP:HOLD2:THR 9;:TAP:OUTP1 OFF;:TAP:OUTP2 OFF\n"), "");
	CHECK_TEXT(reply("TAP:HOLD1?;:TAP:HOLD2?\n"), "RUNNING,0.000000000,1.20000000E+01,6.00000000E+00;"
						      "RUNNING,0.000000000,1.20000000E+01,9.00000000E+00\n");
	CHECK_TEXT(reply("TAP:OUTP2 ON;:TAP:HOLD2:THR 0;:TAP:OUTP2 OFF;:TAP:HOLD2?\n"),
		   "RUNNING,0.000000000,1.20000000E+01,6.00000000E+00\n");
}

/* An interrupt that looked at the cut before ends that one or none. */
static void no_two_cuts_look_the_same(void)
{
	const struct holdup *holdup = &tap.switches[0].holdup;
	uint32_t before;

	begin_with_empty_memory(1000, 0);
	sample_volts(12);
	CHECK_TEXT(reply("TAP:OUTP1 OFF\n"), "");
	before = atomic_load(&holdup->word);
	CHECK(holdup_state(holdup) == HOLDUP_RUNNING);
	CHECK_TEXT(reply("TAP:OUTP1 ON;:TAP:OUTP1 OFF\n"), "");
	CHECK(holdup_state(holdup) == HOLDUP_RUNNING && atomic_load(&holdup->word) != before);
}

static uint64_t five_samples_on(void *context, unsigned rail)
{
	CHECK(context == &hardware && rail == 0);
	return 15;
}

static void a_cut_of_a_board_whose_samples_come_late_is_at_the_sample_it_names(void)
{
	struct board late = board;

	late.switched_sample = five_samples_on;
	begin_with_empty_memory(1000, 0);
	tap.board = &late;
	for (unsigned n = 0; n < 10; n++)
		sample_volts(12);
	CHECK_TEXT(reply("TAP:OUTP1 OFF;:TAP:OUTP1:CUT?\n"), "15\n");
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "RUNNING,0.000000000,1.20000000E+01,6.00000000E+00\n");
	sample_volts(3); /* from before it: of an earlier cut */
	for (unsigned n = 11; n < 17; n++)
		sample_volts(12);
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "RUNNING,0.002000000,1.20000000E+01,6.00000000E+00\n");
	sample_volts(6);
	CHECK_TEXT(reply("TAP:HOLD1?\n"), "DONE,0.002000000,1.20000000E+01,6.00000000E+00\n");
}

static void calibration_corrects_what_comes_after_it(void)
{
	begin_with_empty_memory(1000, 0);
	CHECK_TEXT(reply("TAP:CAL1?;:TAP:CAL:STAT?\n"), "1.00000000E+00,0.00000000E+00;NONE\n");
	CHECK(ask(1, 0) == 0);
	sample(10);
	CHECK_TEXT(reply(""), "");
	CHECK(take_block(50 * MS) == 10 && samples[9] == 9);
	CHECK_TEXT(reply("TAP:CAL1 1.5, -0.25;:TAP:CAL4 0.5,1\n"), "");
	sample(20);
	CHECK(ask(1, 0) == 20);
	CHECK(samples[0] == 1.5f * 10 - 0.25f);
	CHECK(ask(2, 0) == 20 && samples[0] == -10);
	CHECK(ask(3, 0) == 20 && samples[0] == 10.125f);
	CHECK(ask(4, 0) == 20 && samples[0] == 0.5f * -10.125f + 1);
	CHECK_TEXT(reply("TAP:CAL1?\n"), "1.50000000E+00,-2.50000000E-01\n");
	CHECK_TEXT(reply("TAP:CAL:STAT?\n"), "CHANGED\n");
}

static void calibration_outside_what_it_is_for_is_refused(void)
{
	static const struct {
		const char *line, *error;
	} wrong[] = {
		{ "TAP:CAL1 0,0\n", "-222,\"Data out of range\"\n" },
		{ "TAP:CAL1 2.1,0\n", "-222,\"Data out of range\"\n" },
		{ "TAP:CAL1 1,-11\n", "-222,\"Data out of range\"\n" },
		{ "TAP:CAL1 1\n", "-104,\"Data type error\"\n" },
		{ "TAP:CAL1 1,\n", "-104,\"Data type error\"\n" },
		{ "TAP:CAL1 1,0,0\n", "-104,\"Data type error\"\n" },
		{ "TAP:CAL1 nan,0\n", "-104,\"Data type error\"\n" },
		{ "TAP:CAL9 1,0\n", "-114,\"Header suffix out of range\"\n" },
		{ "TAP:CAL0?\n", "-114,\"Header suffix out of range\"\n" },
		{ "TAP:CAL:DATE 2026\n", "-224,\"Illegal parameter value\"\n" },
		{ "TAP:CAL:DATE \"\n", "-224,\"Illegal parameter value\"\n" },
		{ "TAP:CAL:DATE \"12345678901234567890123456789012\"\n", "-224,\"Illegal parameter value\"\n" },
	};

	begin_with_empty_memory(1000, 0);
	for (unsigned n = 0; n < sizeof wrong / sizeof *wrong; n++) {
		CHECK_TEXT(reply(wrong[n].line), "");
		CHECK_TEXT(reply("SYST:ERR?\n"), wrong[n].error);
	}
	CHECK_TEXT(reply("TAP:CAL1?;:TAP:CAL:STAT?\n"), "1.00000000E+00,0.00000000E+00;NONE\n");
}

static void calibration_outlives_the_power(void)
{
	begin_with_empty_memory(1000, 0);
	reply("TAP:CAL8 1.0125,-0.001;:TAP:CAL:DATE \"2026-11-21 lab 3\"\n");
	begin_on_board(1000, 0);
	CHECK_TEXT(reply("TAP:CAL8?\n"), "1.00000000E+00,0.00000000E+00\n"); /* it was not saved */
	reply("TAP:CAL8 1.0125,-0.001;:TAP:CAL:DATE \"2026-11-21 lab 3\";:TAP:CAL:SAVE\n");
	CHECK_TEXT(reply("SYST:ERR?;:TAP:CAL:STAT?\n"), "0,\"No error\";STORED\n");
	begin_on_board(1000, 0);
	CHECK_TEXT(reply("TAP:CAL8?;:TAP:CAL:STAT?\n"), "1.01250005E+00,-1.00000005E-03;STORED\n");
	CHECK_TEXT(reply("TAP:CAL:DATE?\n"), "\"2026-11-21 lab 3\"\n");
}

static void a_damaged_calibration_is_ignored_and_reported(void)
{
	begin_with_empty_memory(1000, 0);
	reply("TAP:CAL1 1.5,0;:TAP:CAL:SAVE\n");
	for (size_t n = 0; n < hardware.stored; n++) {
		hardware.memory[n] ^= 0x10;
		begin_on_board(1000, 0);
		CHECK_TEXT(reply("TAP:CAL1?\n"), "1.00000000E+00,0.00000000E+00\n");
		CHECK_TEXT(reply("TAP:CAL:STAT?\n"), "CORRUPT\n");
		hardware.memory[n] ^= 0x10;
	}
	begin_on_board(1000, 0);
	CHECK_TEXT(reply("TAP:CAL1?\n"), "1.50000000E+00,0.00000000E+00\n");
	memset(hardware.memory, 0xff, sizeof hardware.memory); /* erased, so not damaged */
	begin_on_board(1000, 0);
	CHECK_TEXT(reply("TAP:CAL:STAT?\n"), "NONE\n");
}

static void a_failing_memory_is_reported(void)
{
	begin_with_empty_memory(1000, 0);
	hardware.fails = true;
	CHECK_TEXT(reply("TAP:CAL1 1.5,0;:TAP:CAL:SAVE\n"), "");
	CHECK_TEXT(reply("SYST:ERR?;:TAP:CAL:STAT?\n"), "-311,\"Memory error\";CHANGED\n");
}

static void a_board_without_a_part_says_so(void)
{
	static const char *const commands[] = { "TAP:OUTP1 OFF\n", "TAP:OUTP:ALL OFF\n", "TAP:CAL:SAVE\n" };

	begin(1000, 0);
	for (unsigned n = 0; n < sizeof commands / sizeof *commands; n++) {
		CHECK_TEXT(reply(commands[n]), "");
		CHECK_TEXT(reply("SYST:ERR?\n"), "-241,\"Hardware missing\"\n");
	}
	CHECK_TEXT(reply("TAP:OUTP1?\n"), "1\n");
	CHECK_TEXT(reply("TAP:OUTP1:CUT?\n"), "NONE\n");
}

static void counts_what_the_port_reports(void)
{
	begin_with_empty_memory(4, 0);
	sample(11);
	tap_converter_error(&tap, 1);
	tap_converter_error(&tap, 3);
	tap_converter_error(&tap, 3);
	tap_converter_error(&tap, TAP_RAILS);
	CHECK_TEXT(reply("TAP:ERR?\n"), "0,1,0,2\n");
	CHECK_TEXT(reply("TAP:UPT?\n"), "2.750000000\n");
	CHECK_TEXT(reply("TAP:COUN?\n"), "11,0\n");
	/* After centuries at 4 Hz, or half a day at a million. */
	atomic_store(&tap.sampler.written_high, 10);
	CHECK_TEXT(reply("TAP:UPT?\n"), "10737418242.750000000\n");
	atomic_store(&tap.sampler.written_high, 0);
	tap_missed(&tap, 5);
	CHECK_TEXT(reply("TAP:COUN?\n"), "11,0,5\n");
	CHECK_TEXT(reply("TAP:IDN?\n"), "Joulerig,power tap,S1,2,0.2.0,bench\n");
}

static void data_the_tap_has_not_are_not_made_up(void)
{
	begin(1000, 0);
	sample(20);
	CHECK_TEXT(reply(":FORM UINT,8;:LOG3:DATA?\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-114,\"Header suffix out of range\"\n");
	CHECK_TEXT(reply(":CHAN1:DATA?\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-221,\"Settings conflict\"\n");
	CHECK_TEXT(reply(":FORM REAL,32;:LOG1:DATA?\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-221,\"Settings conflict\"\n");
	CHECK_TEXT(reply(":FORM ASC\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-224,\"Illegal parameter value\"\n");
	CHECK_TEXT(reply(":FORM:BORD MSBF\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-224,\"Illegal parameter value\"\n");
}

int main(void)
{
	says_what_the_driver_wants_to_hear();
	answers_the_native_commands();
	channels_of_a_round_share_one_window();
	the_second_instrument_has_rails_three_and_four();
	windows_follow_each_other_without_gap();
	any_subset_of_channels_makes_rounds();
	a_reply_waits_for_20_ms_of_samples();
	a_reply_with_few_samples_comes_before_the_driver_reads();
	a_reply_without_samples_waits_for_ever();
	slow_rates_give_single_samples();
	a_client_starts_at_the_newest_sample();
	who_asks_for_the_identity_starts_at_the_newest_sample();
	a_client_that_fell_behind_catches_up_then_counts_its_loss();
	data_the_tap_has_not_are_not_made_up();
	lost_samples_keep_the_number_of_the_others();
	of_a_loss_a_second_at_most_is_reported();
	numbers_stay_true_while_samples_come();
	markers_are_of_the_same_window_as_volts_and_amps();
	a_pod_alone_makes_rounds();
	markers_of_lost_samples_are_0();
	a_loss_is_of_the_instrument_whose_client_was_late();
	digital_lines_keep_the_state_that_the_driver_sets();
	switches_a_rail_and_reports_the_sample();
	all_off_is_for_the_rails_of_the_instrument();
	hold_up_is_from_the_cut_to_the_threshold();
	hold_up_is_of_the_rail_that_was_cut();
	a_threshold_that_was_set_is_of_its_rail_until_it_is_set_to_0();
	no_two_cuts_look_the_same();
	a_cut_of_a_board_whose_samples_come_late_is_at_the_sample_it_names();
	calibration_corrects_what_comes_after_it();
	calibration_outside_what_it_is_for_is_refused();
	calibration_outlives_the_power();
	a_damaged_calibration_is_ignored_and_reported();
	a_failing_memory_is_reported();
	a_board_without_a_part_says_so();
	counts_what_the_port_reports();
	return report("session");
}
