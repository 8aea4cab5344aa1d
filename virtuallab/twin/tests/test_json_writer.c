/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "json_writer.h"
#include "check.h"

static char text[256];
static struct json_writer json;

static void begin(size_t size)
{
	json_init(&json, text, size, 0);
}

static const char *written(void)
{
	static char terminated[sizeof text + 1];

	memcpy(terminated, text, json.length);
	terminated[json.length] = '\0';
	return terminated;
}

static void members_and_items_are_separated_by_commas(void)
{
	begin(sizeof text);
	json_open(&json, NULL, '{');
	json_signed(&json, "a", -5);
	json_open(&json, "list", '[');
	json_unsigned(&json, NULL, UINT64_MAX);
	json_open(&json, NULL, '{');
	json_close(&json, '}');
	json_null(&json, NULL);
	json_close(&json, ']');
	json_bool(&json, "yes", true);
	json_bool(&json, "no", false);
	json_close(&json, '}');
	CHECK_TEXT(written(), "{\"a\":-5,\"list\":[18446744073709551615,{},null],\"yes\":true,\"no\":false}");
	CHECK(json_is_whole(&json));
}

static void numbers_have_the_digits_they_are_given(void)
{
	begin(sizeof text);
	json_open(&json, NULL, '[');
	json_fixed(&json, NULL, 1.0 / 3, 12);
	json_number(&json, NULL, 1.0 / 3, 9);
	json_number(&json, NULL, 12, 9);
	json_close(&json, ']');
	CHECK_TEXT(written(), "[0.333333333333,0.333333333,12]");
}

static void a_text_is_escaped(void)
{
	begin(sizeof text);
	json_text(&json, NULL, "a \"b\" \\ \n \x01");
	CHECK_TEXT(written(), "\"a \\\"b\\\" \\\\ \\u000a \\u0001\"");
}

static void an_error_is_a_line(void)
{
	begin(sizeof text);
	json_error_line(&json, "rail: allowed are %s, %d", "12v", 3);
	CHECK_TEXT(written(), "{\"error\":\"rail: allowed are 12v, 3\"}\n");
}

static void what_does_not_fit_is_cut_off_and_said(void)
{
	for (size_t size = 0; size < 20; size++) {
		begin(size);
		json_text(&json, "key", "a text of some length");
		json_signed(&json, "n", 123456789);
		json_raw(&json, "\n");
		CHECK(json.length <= size && !json_is_whole(&json));
	}
}

static void a_writer_goes_on_behind_what_is_there(void)
{
	memcpy(text, "1 2\n", 4);
	json_init(&json, text, sizeof text, 4);
	json_raw(&json, "%d %d\n", 3, 4);
	CHECK_TEXT(written(), "1 2\n3 4\n");
}

int main(void)
{
	members_and_items_are_separated_by_commas();
	numbers_have_the_digits_they_are_given();
	a_text_is_escaped();
	an_error_is_a_line();
	what_does_not_fit_is_cut_off_and_said();
	a_writer_goes_on_behind_what_is_there();
	return report("JSON writer");
}
