/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writes JSON, without spaces, into a buffer of fixed size. It puts the commas;
 * that brackets match and that an object's members have keys is the caller's. A
 * key of NULL is for what has none: the outermost value, and items of an array.
 *
 * What does not fit is cut off, and json_is_whole says so. No allocation, no
 * lock: a writer belongs to one thread.
 */
#ifndef JOULERIG_JSON_WRITER_H
#define JOULERIG_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_writer {
	char *text; /* not terminated */
	size_t size;
	size_t length;
	bool needs_comma;
	bool overflowed;
};

/* Goes on behind `length` bytes that are in the buffer already. */
void json_init(struct json_writer *json, char *text, size_t size, size_t length);
bool json_is_whole(const struct json_writer *json);

void json_open(struct json_writer *json, const char *key, char bracket);  /* '{' or '[' */
void json_close(struct json_writer *json, char bracket);		  /* '}' or ']' */
void json_text(struct json_writer *json, const char *key, const char *value);
void json_bool(struct json_writer *json, const char *key, bool value);
void json_null(struct json_writer *json, const char *key);
void json_signed(struct json_writer *json, const char *key, int64_t value);
void json_unsigned(struct json_writer *json, const char *key, uint64_t value);
/* With so many decimals; of a finite number. */
void json_fixed(struct json_writer *json, const char *key, double value, int decimals);
/* With so many significant digits; of a finite number. */
void json_number(struct json_writer *json, const char *key, double value, int digits);

/* {"error": text} and a line's end, where `format` makes the text. */
void json_error_line(struct json_writer *json, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* What stands outside of JSON: line ends, lines of numbers. */
void json_raw(struct json_writer *json, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
