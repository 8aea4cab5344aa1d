/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "number.h"

#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static uint32_t seed = 2463534242;

static uint32_t random_word(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

/* What is read of all of the text; NaN when it is refused, or not read to its end. */
static float parsed(const char *text)
{
	float value;

	return number_parse(&text, &value) && *text == '\0' ? value : nanf("");
}

static void reads_every_form_of_a_number(void)
{
	CHECK(parsed("0") == 0);
	CHECK(parsed("12") == 12);
	CHECK(parsed("+12.") == 12);
	CHECK(parsed("-.5") == -0.5f);
	CHECK(parsed("1.25E-3") == 1.25e-3f);
	CHECK(parsed("1e+2") == 100);
	CHECK(parsed("000000000000000000000000000012.5") == 12.5f);
	CHECK(parsed("0.0000000000000000000000000012") == 1.2e-27f);
	CHECK(parsed("123456789012345678901234567890") == 123456789012345678901234567890.0f);
	CHECK(parsed("0e99999999999999999999") == 0);
	CHECK(parsed("1E-30") == 1e-30f && parsed("1E30") == 1e30f);
	CHECK(parsed("10000000000000000000000000E-25") == 1);
}

static void refuses_what_is_no_number_or_out_of_range(void)
{
	static const char *const others[] = { "",    "-",    ".",	"-.",	"E5",	"1E",	 "1E+",
					      "abc", "1.1E31", "1E-31", "1E99", "inf",	"nan",	 "1E99999999999",
					      "--1", "1E-99999999999" };

	for (unsigned n = 0; n < sizeof others / sizeof *others; n++) {
		const char *at = others[n];
		float value = 7;

		CHECK(!number_parse(&at, &value));
		CHECK(at == others[n] && value == 7);
	}
}

static void stops_behind_the_number(void)
{
	const char *text = "1.5,2", *at = text;
	float value;

	CHECK(number_parse(&at, &value) && value == 1.5f && at == text + 3);
	at = text = "1.2.3";
	CHECK(number_parse(&at, &value) && value == 1.2f && at == text + 3);
}

/* The C library's reading, which is correctly rounded, is the reference. */
static void rounds_to_the_nearest_single(void)
{
	for (unsigned n = 0; n < 200000; n++) {
		char text[64];

		snprintf(text, sizeof text, "%s%u.%09uE%d", random_word() & 1 ? "-" : "",
			 random_word() % 1000000, random_word() % 1000000000, (int)(random_word() % 46) - 23);
		CHECK(parsed(text) == strtof(text, NULL));
	}
}

static void what_is_written_reads_back_as_the_same_number(void)
{
	for (unsigned n = 0; n < 200000; n++) {
		char text[NUMBER_SIZE];
		uint32_t bits = random_word();
		float value;

		memcpy(&value, &bits, sizeof value);
		if (!(fabsf(value) >= 1e-30f && fabsf(value) <= 1e30f))
			continue;
		CHECK(strlen(number_format(value, text)) < NUMBER_SIZE);
		CHECK(parsed(text) == value);
		CHECK(strtof(text, NULL) == value);
	}
}

static void writes_nine_digits(void)
{
	char text[NUMBER_SIZE];

	CHECK_TEXT(number_format(0, text), "0.00000000E+00");
	CHECK_TEXT(number_format(-1, text), "-1.00000000E+00");
	CHECK_TEXT(number_format(12.5f, text), "1.25000000E+01");
	CHECK_TEXT(number_format(0.1f, text), "1.00000001E-01");
	CHECK_TEXT(number_format(9.9999998e9f, text), "1.00000000E+10");
	CHECK_TEXT(number_format(1e-45f, text), "1.40129846E-45");
	CHECK_TEXT(number_format(3.40282347e38f, text), "3.40282347E+38");
	CHECK_TEXT(number_format(nanf(""), text), "9.91E+37");
	CHECK_TEXT(number_format(-INFINITY, text), "-9.9E+37");
	CHECK_TEXT(number_format(INFINITY, text), "9.9E+37");
}

int main(void)
{
	reads_every_form_of_a_number();
	refuses_what_is_no_number_or_out_of_range();
	stops_behind_the_number();
	rounds_to_the_nearest_single();
	what_is_written_reads_back_as_the_same_number();
	writes_nine_digits();
	return report("number");
}
