/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "scpi.h"

#include "check.h"

static struct scpi scpi;
static uint8_t out[64];
static int patience;
static uint32_t seen_suffix[2];
static char seen_parameter[SCPI_LINE_SIZE];
static int64_t seen_waiting_ns;

static enum scpi_outcome hello(struct scpi *to, const struct scpi_call *call)
{
	memcpy(seen_suffix, call->suffix, sizeof seen_suffix);
	scpi_write_text(to, "hello");
	return SCPI_DONE;
}

static enum scpi_outcome number(struct scpi *to, const struct scpi_call *call)
{
	(void)call;
	scpi_write_unsigned(to, UINT64_MAX);
	return SCPI_DONE;
}

static enum scpi_outcome set(struct scpi *to, const struct scpi_call *call)
{
	(void)to;
	strcpy(seen_parameter, call->parameter);
	return SCPI_DONE;
}

static enum scpi_outcome slow(struct scpi *to, const struct scpi_call *call)
{
	seen_waiting_ns = call->waiting_ns;
	if (patience-- > 0)
		return SCPI_LATER;
	scpi_write_text(to, "at last");
	return SCPI_DONE;
}

static enum scpi_outcome block(struct scpi *to, const struct scpi_call *call)
{
	uint8_t *place = scpi_write_block(to, 12);

	(void)call;
	memset(place, 'x', 12);
	return SCPI_DONE;
}

static enum scpi_outcome too_much(struct scpi *to, const struct scpi_call *call)
{
	(void)call;
	CHECK(scpi_write_block(to, 1000) == NULL);
	return SCPI_DONE;
}

static const struct scpi_command commands[] = {
	{ "*IDN?", hello },	     { "CHANnel#:STATe?", hello }, { "DIGital#:SUB#:X?", hello },
	{ "CHANnel#:STATe", set },   { "SLOW?", slow },		   { "BLOCk?", block },
	{ "LARGe?", too_much },	     { "NUMBer?", number },	   { "TRIGger:A:SOURce?", hello },
	{ NULL, NULL },
};
static const struct scpi_command *const tables[] = { commands, NULL };

static void begin(void)
{
	scpi_init(&scpi, tables, NULL, out, sizeof out);
	patience = 0;
}

static void put(const char *text)
{
	for (; *text; text++)
		CHECK(scpi_put(&scpi, (uint8_t)*text));
}

/* The reply to a line, "" for none. */
static const char *reply(const char *line)
{
	static char text[sizeof out + 1];
	size_t length = 0;
	const uint8_t *bytes;

	put(line);
	bytes = scpi_run(&scpi, 0, &length);
	if (!bytes)
		length = 0;
	else
		memcpy(text, bytes, length);
	text[length] = '\0';
	return text;
}

static void answers_long_and_short_headers_in_any_case(void)
{
	begin();
	CHECK_TEXT(reply("*IDN?\n"), "hello\n");
	CHECK_TEXT(reply("*idn?\r\n"), "hello\n");
	CHECK_TEXT(reply("CHANnel3:STATe?\n"), "hello\n");
	CHECK(seen_suffix[0] == 3);
	CHECK_TEXT(reply(":chan12:stat?\n"), "hello\n");
	CHECK(seen_suffix[0] == 12);
	CHECK_TEXT(reply(":CHAN:STAT?\n"), "hello\n");
	CHECK(seen_suffix[0] == 1);
	CHECK_TEXT(reply(":DIG0:SUB8:X?\n"), "hello\n");
	CHECK(seen_suffix[0] == 0 && seen_suffix[1] == 8);
	CHECK_TEXT(reply("TRIG:A:SOUR?\n"), "hello\n");
	CHECK_TEXT(reply("NUMB?\n"), "18446744073709551615\n");
	CHECK(scpi_pop_error(&scpi) == SCPI_OK);
}

static void refuses_other_headers_with_an_error_and_no_reply(void)
{
	static const char *const others[] = { "CHANN1:STAT?\n", "CHAN1:STATE1?\n", "CHAN1?\n", "IDN?\n",
					      ":*IDN?\n", "CHAN1:STAT:X?\n", "CHA1:STAT?\n", "?\n" };

	begin();
	for (unsigned n = 0; n < sizeof others / sizeof *others; n++) {
		CHECK_TEXT(reply(others[n]), "");
		CHECK(scpi_pop_error(&scpi) == SCPI_UNDEFINED_HEADER);
		CHECK(scpi_pop_error(&scpi) == SCPI_OK);
	}
}

static void hands_on_the_parameter_without_blanks_around(void)
{
	begin();
	CHECK_TEXT(reply(":CHAN2:STAT  a b\t \n"), "");
	CHECK_TEXT(seen_parameter, "a b");
	CHECK_TEXT(reply(":CHAN2:STAT\n"), "");
	CHECK_TEXT(seen_parameter, "");
}

static void joins_the_replies_of_a_line(void)
{
	begin();
	CHECK_TEXT(reply("*IDN?; :CHAN1:STAT 1 ;;*IDN? ;NUMB?\n"), "hello;hello;18446744073709551615\n");
	CHECK_TEXT(reply("\n"), "");
	CHECK_TEXT(reply(" ; ;\n"), "");
}

static void waits_and_then_goes_on_where_it_was(void)
{
	size_t length;
	const uint8_t *bytes = NULL;

	begin();
	patience = 3;
	put("*IDN?;SLOW? \t ;*IDN?\n");
	for (int64_t now = 100; now < 400; now += 100) {
		CHECK(scpi_run(&scpi, now, &length) == NULL);
		CHECK(scpi_is_waiting(&scpi));
		CHECK(!scpi_put(&scpi, 'x')); /* nothing is taken meanwhile */
	}
	bytes = scpi_run(&scpi, 400, &length);
	CHECK(seen_waiting_ns == 300);
	CHECK(!scpi_is_waiting(&scpi));
	CHECK(bytes && length == 20 && memcmp(bytes, "hello;at last;hello\n", 20) == 0);
	patience = 1;
	put("SLOW?\n");
	CHECK(scpi_run(&scpi, 1000, &length) == NULL);
	CHECK(seen_waiting_ns == 0); /* its own wait */
}

static void a_block_ends_by_its_length(void)
{
	begin();
	CHECK_TEXT(reply("BLOC?\n"), "#212xxxxxxxxxxxx");
	CHECK_TEXT(reply("*IDN?\n"), "hello\n");
}

static void refuses_an_empty_block(void)
{
	begin();
	CHECK(scpi_write_block(&scpi, 0) == NULL);
	CHECK(scpi.out_length == 0);
}

static void an_answer_that_does_not_fit_is_an_error_not_a_part(void)
{
	begin();
	CHECK_TEXT(reply("LARG?\n"), "");
	CHECK(scpi_pop_error(&scpi) == SCPI_RESPONSE_TOO_LONG);
	CHECK_TEXT(reply("*IDN?\n"), "hello\n");
}

static void an_overlong_line_is_refused_whole(void)
{
	begin();
	for (unsigned n = 0; n < 1000; n++)
		CHECK(scpi_put(&scpi, ' '));
	CHECK_TEXT(reply("*IDN?\n"), "");
	CHECK(scpi_pop_error(&scpi) == SCPI_INPUT_OVERRUN);
	CHECK_TEXT(reply("*IDN?\n"), "hello\n");
}

/* A line has room for its end. */
static void the_longest_line_is_one_byte_shorter_than_its_buffer(void)
{
	for (unsigned length = SCPI_LINE_SIZE - 3; length < SCPI_LINE_SIZE + 3; length++) {
		bool fits = length < SCPI_LINE_SIZE;

		begin();
		for (unsigned n = 5; n < length; n++)
			CHECK(scpi_put(&scpi, ' '));
		CHECK_TEXT(reply("*IDN?\n"), fits ? "hello\n" : "");
		CHECK(scpi_pop_error(&scpi) == (fits ? SCPI_OK : SCPI_INPUT_OVERRUN));
	}
}

static void errors_come_out_in_their_order(void)
{
	begin();
	scpi_push_error(&scpi, SCPI_DATA_TYPE_ERROR);
	scpi_push_error(&scpi, SCPI_HARDWARE_MISSING);
	CHECK(scpi_pop_error(&scpi) == SCPI_DATA_TYPE_ERROR);
	scpi_push_error(&scpi, SCPI_MEMORY_ERROR);
	CHECK(scpi_pop_error(&scpi) == SCPI_HARDWARE_MISSING);
	CHECK(scpi_pop_error(&scpi) == SCPI_MEMORY_ERROR);
	CHECK(scpi_pop_error(&scpi) == SCPI_OK);
}

/* The buffer has 64 bytes. */
static void a_reply_may_fill_the_buffer(void)
{
	begin();
	CHECK_TEXT(reply("*IDN?;*IDN?;*IDN?;*IDN?;*IDN?;*IDN?;NUMB?;*IDN?\n"),
		   "hello;hello;hello;hello;hello;hello;18446744073709551615;hello\n");
	begin();
	for (unsigned n = 0; n < 12; n++)
		scpi_write_text(&scpi, "fives");
	CHECK(scpi.out_length == 60 && !scpi.out_overflowed);
	scpi_write_text(&scpi, "four");
	CHECK(scpi.out_length == 64 && !scpi.out_overflowed);
	scpi_write_text(&scpi, "1");
	CHECK(scpi.out_length == 64 && scpi.out_overflowed);
}

static void switches_are_words_or_digits(void)
{
	bool value = false;

	CHECK(scpi_parse_bool("ON", &value) && value);
	CHECK(scpi_parse_bool("0", &value) && !value);
	CHECK(scpi_parse_bool("1", &value) && value);
	CHECK(scpi_parse_bool("off", &value) && !value);
	CHECK(!scpi_parse_bool("", &value) && !scpi_parse_bool("2", &value) && !scpi_parse_bool("ONE", &value));
}

static void the_error_queue_overflows_visibly(void)
{
	begin();
	for (unsigned n = 0; n < SCPI_ERRORS + 5; n++)
		reply("NONSENSE\n");
	for (unsigned n = 0; n < SCPI_ERRORS - 1; n++)
		CHECK(scpi_pop_error(&scpi) == SCPI_UNDEFINED_HEADER);
	CHECK(scpi_pop_error(&scpi) == SCPI_QUEUE_OVERFLOW);
	CHECK(scpi_pop_error(&scpi) == SCPI_OK);
}

static void any_bytes_are_survived(void)
{
	uint32_t seed = 12345;
	size_t length;

	begin();
	for (unsigned n = 0; n < 200000; n++) {
		static const char likely[] = "*IDN?:;CHAN1STAT \n\n\r#0987";

		seed = seed * 1664525 + 1013904223;
		scpi_put(&scpi, seed >> 31 ? (uint8_t)(seed >> 16) :
					     (uint8_t)likely[(seed >> 16) % (sizeof likely - 1)]);
		scpi_run(&scpi, 0, &length);
	}
	while (scpi_pop_error(&scpi) != SCPI_OK)
		;
	put("\n");
	scpi_run(&scpi, 0, &length);
	CHECK_TEXT(reply("*IDN?\n"), "hello\n");
}

int main(void)
{
	answers_long_and_short_headers_in_any_case();
	refuses_other_headers_with_an_error_and_no_reply();
	hands_on_the_parameter_without_blanks_around();
	joins_the_replies_of_a_line();
	waits_and_then_goes_on_where_it_was();
	a_block_ends_by_its_length();
	refuses_an_empty_block();
	an_answer_that_does_not_fit_is_an_error_not_a_part();
	an_overlong_line_is_refused_whole();
	the_longest_line_is_one_byte_shorter_than_its_buffer();
	errors_come_out_in_their_order();
	a_reply_may_fill_the_buffer();
	switches_are_words_or_digits();
	the_error_queue_overflows_visibly();
	any_bytes_are_survived();
	return report("scpi");
}
