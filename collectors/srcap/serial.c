/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * sp_nonblocking_read() in place of libserialport's: libsigrok calls it again and again while it
 * waits for the rest of a reply, and would use half a core for an instrument that sends too
 * little. Where there is nothing to read, here it pauses.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

/* A byte takes 87 us at 115200 baud. */
#define PAUSE_US 200

struct sp_port;
typedef int read_function(struct sp_port *port, void *buffer, size_t size);

int sp_nonblocking_read(struct sp_port *port, void *buffer, size_t size);

int sp_nonblocking_read(struct sp_port *port, void *buffer, size_t size)
{
	static read_function *real;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sp_nonblocking_read");
	if (!real)
		return -1;
	int got = real(port, buffer, size);

	if (got == 0)
		usleep(PAUSE_US);
	return got;
}
