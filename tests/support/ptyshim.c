/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Lets libserialport (0.1.1) open pseudo-terminals, on which tests have their emulated instruments:
 *
 *   cc -shared -fPIC -o ptyshim.so ptyshim.c
 *   LD_PRELOAD=./ptyshim.so sigrok-cli -d DRIVER:conn=/dev/pts/N ...
 *
 * libserialport looks a port up in /sys/class/tty, where pseudo-terminals are not listed, and asks
 * for modem lines, which they do not have. Only these two calls are changed; real ports are not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSFS_OF_PTYS "/sys/class/tty/pts/"
#define TARGET "../../devices/virtual/tty/pts"

static int is_pty(const char *path)
{
	return strncmp(path, SYSFS_OF_PTYS, sizeof SYSFS_OF_PTYS - 1) == 0;
}

static int stat_as_link(struct stat *status)
{
	memset(status, 0, sizeof *status);
	status->st_mode = S_IFLNK | 0777;
	return 0;
}

int lstat(const char *path, struct stat *status)
{
	int (*real)(const char *, struct stat *) = dlsym(RTLD_NEXT, "lstat");

	return is_pty(path) ? stat_as_link(status) : real(path, status);
}

/* What lstat is in programs built against glibc before 2.33. */
int __lxstat(int version, const char *path, struct stat *status)
{
	int (*real)(int, const char *, struct stat *) = dlsym(RTLD_NEXT, "__lxstat");

	return is_pty(path) ? stat_as_link(status) : real(version, path, status);
}

ssize_t readlink(const char *path, char *target, size_t size)
{
	ssize_t (*real)(const char *, char *, size_t) = dlsym(RTLD_NEXT, "readlink");
	size_t length = sizeof TARGET - 1;

	if (!is_pty(path))
		return real(path, target, size);
	if (length > size)
		length = size;
	memcpy(target, TARGET, length);
	return (ssize_t)length;
}

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	va_list arguments;
	void *argument;
	int result;

	va_start(arguments, request);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	result = real(fd, request, argument);
	if (result == 0 || (errno != ENOTTY && errno != EINVAL))
		return result;
	if (request == TIOCMGET) {
		*(int *)argument = 0;
		return 0;
	}
	return request == TIOCMSET || request == TIOCMBIS || request == TIOCMBIC ? 0 : result;
}
