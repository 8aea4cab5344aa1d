/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sets a program's CLOCK_REALTIME back by a second from when a file exists, as a controller's clock
 * is set back while it measures:
 *
 *   cc -shared -fPIC -o clockshim.so clockshim.c
 *   CLOCKSHIM_FILE=/tmp/back LD_PRELOAD=./clockshim.so PROGRAM
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	const char *path = getenv("CLOCKSHIM_FILE");
	int result;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (result == 0 && clock == CLOCK_REALTIME && path && access(path, F_OK) == 0)
		now->tv_sec--;
	return result;
}
