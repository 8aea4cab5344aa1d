/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A client's session on the tap, spoken as libsigrok's hameg-hmo driver speaks. */
#include "session.h"

#include "check.h"

#define MS 1000000LL

static struct tap tap;
static struct session session;
static float samples[TAP_WINDOW_SAMPLES];
static float next_value;

static void begin(uint32_t rate_hz, unsigned instrument)
{
	tap_init(&tap, rate_hz, "S1", NULL);
	session_open(&session, &tap, instrument);
	next_value = 0;
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

/* Samples in the block that is the reply, into samples[]; 0 for no reply. */
static unsigned take_block(int64_t now_ns)
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
	CHECK(bytes_in_block > 0 && bytes_in_block % 4 == 0);
	memcpy(samples, bytes + 2 + digits, bytes_in_block);
	return bytes_in_block / 4;
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
	CHECK_TEXT(reply("TAP:IDN?\n"), "Joulerig,power tap,S1,1\n");
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
	CHECK(samples[0] == expected + 100);
	CHECK(tap.overruns[1] == 0);
}

static void data_the_tap_has_not_are_not_made_up(void)
{
	begin(1000, 0);
	sample(20);
	CHECK_TEXT(reply(":FORM UINT,8;:LOG1:DATA?\n"), "");
	CHECK_TEXT(reply("SYST:ERR?\n"), "-241,\"Hardware missing\"\n");
	CHECK_TEXT(reply(":CHAN1:DATA?\n"), "");
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
	a_client_that_fell_behind_catches_up_then_counts_its_loss();
	data_the_tap_has_not_are_not_made_up();
	return report("session");
}
