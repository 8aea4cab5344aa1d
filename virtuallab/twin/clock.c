/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "clock.h"

#include <time.h>

#define NS_PER_SECOND 1000000000

int64_t clock_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}
