/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef JOULERIG_CHECK_H
#define JOULERIG_CHECK_H

#include <stdio.h>
#include <string.h>

static unsigned failures;

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #condition); \
			failures++; \
		} \
	} while (0)

#define CHECK_TEXT(found, expected) \
	do { \
		const char *found_text = (found); \
		if (strcmp(found_text, (expected)) != 0) { \
			printf("%s:%d: %s: \"%s\", expected \"%s\"\n", __FILE__, __LINE__, __func__, \
			       found_text, (expected)); \
			failures++; \
		} \
	} while (0)

static inline int report(const char *what)
{
	printf("%s: %s\n", what, failures ? "FAILED" : "ok");
	return failures ? 1 : 0;
}

#endif
