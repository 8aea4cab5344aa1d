/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "json_writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_SIZE 512

void json_init(struct json_writer *json, char *text, size_t size, size_t length)
{
	*json = (struct json_writer){ .text = text, .size = size, .length = length };
}

bool json_is_whole(const struct json_writer *json)
{
	return !json->overflowed;
}

static void put(struct json_writer *json, const char *text, size_t length)
{
	if (json->overflowed || length > json->size - json->length) {
		json->overflowed = true;
		return;
	}
	memcpy(json->text + json->length, text, length);
	json->length += length;
}

/* Straight into the buffer: replies have up to some hundred thousand numbers. */
static void put_formatted(struct json_writer *json, const char *format, va_list arguments)
{
	size_t room = json->size - json->length;
	int length;

	if (json->overflowed)
		return;
	length = vsnprintf(json->text + json->length, room, format, arguments);
	if (length < 0 || (size_t)length >= room)
		json->overflowed = true;
	else
		json->length += (size_t)length;
}

void json_raw(struct json_writer *json, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	put_formatted(json, format, arguments);
	va_end(arguments);
}

static void put_string(struct json_writer *json, const char *text)
{
	put(json, "\"", 1);
	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte == '"' || byte == '\\') {
			put(json, "\\", 1);
			put(json, text, 1);
		} else if (byte < ' ') {
			json_raw(json, "\\u%04x", byte);
		} else {
			put(json, text, 1);
		}
	}
	put(json, "\"", 1);
}

/* The comma before a value, and its key. */
static void begin_value(struct json_writer *json, const char *key)
{
	if (json->needs_comma)
		put(json, ",", 1);
	json->needs_comma = true;
	if (key) {
		put_string(json, key);
		put(json, ":", 1);
	}
}

void json_open(struct json_writer *json, const char *key, char bracket)
{
	begin_value(json, key);
	put(json, &bracket, 1);
	json->needs_comma = false;
}

void json_close(struct json_writer *json, char bracket)
{
	put(json, &bracket, 1);
	json->needs_comma = true;
}

void json_text(struct json_writer *json, const char *key, const char *value)
{
	begin_value(json, key);
	put_string(json, value);
}

void json_bool(struct json_writer *json, const char *key, bool value)
{
	begin_value(json, key);
	put(json, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json_writer *json, const char *key)
{
	begin_value(json, key);
	put(json, "null", 4);
}

void json_signed(struct json_writer *json, const char *key, int64_t value)
{
	begin_value(json, key);
	json_raw(json, "%" PRId64, value);
}

void json_unsigned(struct json_writer *json, const char *key, uint64_t value)
{
	begin_value(json, key);
	json_raw(json, "%" PRIu64, value);
}

void json_fixed(struct json_writer *json, const char *key, double value, int decimals)
{
	begin_value(json, key);
	json_raw(json, "%.*f", decimals, value);
}

void json_number(struct json_writer *json, const char *key, double value, int digits)
{
	begin_value(json, key);
	json_raw(json, "%.*g", digits, value);
}

void json_error_line(struct json_writer *json, const char *format, ...)
{
	char text[ERROR_SIZE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	json_open(json, NULL, '{');
	json_text(json, "error", text);
	json_close(json, '}');
	json_raw(json, "\n");
}
