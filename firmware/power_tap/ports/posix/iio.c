/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "iio.h"

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Other trees than /sys and /dev, for tests, as the capturers have them. */
#define SYSFS "JOULERIG_SYSFS"
#define DEVICES "JOULERIG_DEV"
#define TEXT_SIZE 256
#define SCANS "4096" /* that the kernel keeps for us */
#define MILLI 1e-3
/* Windows without a reading that are counted one by one; the aligner must hold them. */
#define MOST_MISSING (ALIGN_QUEUE / 2)

enum { VOLTS, AMPS, TIME, ELEMENTS };

static const char *root(const char *variable, const char *usual)
{
	const char *set = getenv(variable);

	return set ? set : usual;
}

static bool copy_word(char *to, const char *from, size_t length)
{
	if (length == 0 || length >= IIO_NAME_SIZE)
		return false;
	memcpy(to, from, length);
	to[length] = '\0';
	return strcspn(to, "/:,") == length;
}

bool iio_parse(struct iio *iio, unsigned rail, const char *value)
{
	const char *colon = strchr(value, ':'), *comma = colon ? strchr(colon, ',') : NULL;

	memset(iio, 0, sizeof *iio);
	iio->rail = rail;
	iio->fd = -1;
	iio->window = -1;
	if (!colon) {
		strcpy(iio->volts, "voltage1");
		strcpy(iio->amps, "current3");
		return copy_word(iio->device, value, strlen(value));
	}
	return comma && copy_word(iio->device, value, (size_t)(colon - value)) &&
	       copy_word(iio->volts, colon + 1, (size_t)(comma - colon - 1)) &&
	       copy_word(iio->amps, comma + 1, strlen(comma + 1));
}

/* The text of an attribute without its line end; false where there is none. */
static bool read_text(const char *folder, const char *name, char *text)
{
	char path[PATH_MAX];
	FILE *file;
	size_t length;

	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	length = fread(text, 1, TEXT_SIZE - 1, file);
	fclose(file);
	text[length] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static bool write_text(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	ssize_t length = (ssize_t)strlen(text);
	bool written;
	int fd;

	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
		return false;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_TRUNC);
	if (fd < 0)
		return false;
	written = write(fd, text, (size_t)length) == length;
	return close(fd) == 0 && written;
}

/* The folder of the device that is called `device` after "iio:", or whose chip has that place
 * on its bus, such as 1-0040. */
static bool find_device(const char *device, char *folder, char *node)
{
	char devices[PATH_MAX], link[PATH_MAX], real[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *all;

	snprintf(devices, sizeof devices, "%s/bus/iio/devices", root(SYSFS, "/sys"));
	all = opendir(devices);
	while (all && !found && (entry = readdir(all))) {
		const char *chip = "";

		if (strncmp(entry->d_name, "iio:device", 10) != 0)
			continue;
		snprintf(link, sizeof link, "%.2000s/%.255s", devices, entry->d_name);
		/* The chip's folder has the device's in it. */
		if (realpath(link, real)) {
			*strrchr(real, '/') = '\0';
			chip = strrchr(real, '/') + 1;
		}
		found = strcmp(entry->d_name + 4, device) == 0 || strcmp(chip, device) == 0;
		if (found) {
			snprintf(folder, PATH_MAX, "%.2000s/%.255s", devices, entry->d_name);
			snprintf(node, PATH_MAX, "%.2000s/%.255s", root(DEVICES, "/dev"), entry->d_name);
		}
	}
	if (all)
		closedir(all);
	return found;
}

bool iio_parse_type(struct iio_element *element, const char *type)
{
	char order, sign;
	unsigned storage, shift = 0;
	int length = 0;

	if (sscanf(type, "%ce:%c%u/%u%n>>%u%n", &order, &sign, &element->bits, &storage, &length, &shift,
		   &length) < 4 ||
	    type[length] != '\0' || (order != 'b' && order != 'l') || (sign != 's' && sign != 'u'))
		return false;
	element->big_endian = order == 'b';
	element->is_signed = sign == 's';
	element->bytes = storage / 8;
	element->shift = shift;
	return (storage == 8 || storage == 16 || storage == 32 || storage == 64) && element->bits >= 1 &&
	       element->bits <= storage && shift < storage;
}

double iio_decode(const struct iio_element *element, const uint8_t *scan)
{
	uint64_t raw = 0, mask = element->bits == 64 ? UINT64_MAX : (UINT64_C(1) << element->bits) - 1;
	double value;

	for (size_t n = 0; n < element->bytes; n++)
		raw = raw << 8 | scan[element->place + (element->big_endian ? n : element->bytes - 1 - n)];
	raw = raw >> element->shift & mask;
	value = (double)raw;
	if (element->is_signed && raw >> (element->bits - 1))
		value = -(double)((~raw & mask) + 1);
	return (value + element->offset) * element->scale;
}

/* A channel's scale or offset: its own, or that of all of its kind (voltage, current). */
static double factor(const char *folder, const char *channel, const char *what, double otherwise)
{
	char name[2 * IIO_NAME_SIZE], text[TEXT_SIZE];
	size_t kind = strcspn(channel, "0123456789");

	snprintf(name, sizeof name, "in_%s_%s", channel, what);
	if (read_text(folder, name, text))
		return strtod(text, NULL);
	snprintf(name, sizeof name, "in_%.*s_%s", (int)kind, channel, what);
	return read_text(folder, name, text) ? strtod(text, NULL) : otherwise;
}

static bool wanted(const struct iio *iio, const char *channel)
{
	return strcmp(channel, iio->volts) == 0 || strcmp(channel, iio->amps) == 0 ||
	       strcmp(channel, "timestamp") == 0;
}

/* Has the wanted elements in the scan, and no others. */
static bool choose_elements(const struct iio *iio, const char *scans)
{
	DIR *all = opendir(scans);
	struct dirent *entry;
	unsigned there = 0;
	bool written = true;

	while (all && (entry = readdir(all))) {
		const char *name = entry->d_name;
		char channel[IIO_NAME_SIZE];
		size_t length = strlen(name);

		if (length < 7 || length >= sizeof channel || strcmp(name + length - 3, "_en") != 0 ||
		    strncmp(name, "in_", 3) != 0)
			continue;
		memcpy(channel, name + 3, length - 6);
		channel[length - 6] = '\0';
		there += wanted(iio, channel);
		written = written && write_text(scans, name, wanted(iio, channel) ? "1" : "0");
	}
	if (all)
		closedir(all);
	return written && there == ELEMENTS;
}

/* Where each element lies in a scan: in the order of their indices, each aligned to its length, the
 * scan to the longest (the kernel's iio-buffer documentation). */
static bool lay_out(struct iio *iio, const char *scans)
{
	const char *channels[ELEMENTS] = { iio->volts, iio->amps, "timestamp" };
	unsigned long index[ELEMENTS];
	unsigned order[ELEMENTS] = { VOLTS, AMPS, TIME };
	size_t at = 0, longest = 1;

	for (unsigned n = 0; n < ELEMENTS; n++) {
		char name[2 * IIO_NAME_SIZE], text[TEXT_SIZE];

		snprintf(name, sizeof name, "in_%s_index", channels[n]);
		if (!read_text(scans, name, text))
			return false;
		index[n] = strtoul(text, NULL, 10);
		snprintf(name, sizeof name, "in_%s_type", channels[n]);
		if (!read_text(scans, name, text) || !iio_parse_type(&iio->elements[n], text))
			return false;
	}
	for (unsigned n = 1; n < ELEMENTS; n++)
		for (unsigned k = n; k > 0 && index[order[k]] < index[order[k - 1]]; k--) {
			unsigned earlier = order[k];

			order[k] = order[k - 1];
			order[k - 1] = earlier;
		}
	for (unsigned n = 0; n < ELEMENTS; n++) {
		struct iio_element *element = &iio->elements[order[n]];

		at = (at + element->bytes - 1) / element->bytes * element->bytes;
		element->place = at;
		at += element->bytes;
		if (element->bytes > longest)
			longest = element->bytes;
	}
	iio->scan_bytes = (at + longest - 1) / longest * longest;
	return true;
}

static bool fail(const struct iio *iio, const char *what, char *error, size_t error_size)
{
	snprintf(error, error_size, "--rail %u=iio:%s: %s", iio->rail + 1, iio->device, what);
	return false;
}

bool iio_open(struct iio *iio, uint32_t rate_hz, struct align *align, char *error, size_t error_size)
{
	char folder[PATH_MAX], node[PATH_MAX], scans[PATH_MAX + 16], text[TEXT_SIZE] = "", what[TEXT_SIZE + 64];
	double rate;

	if (!find_device(iio->device, folder, node))
		return fail(iio, "no such device; allowed is what /sys/bus/iio/devices has: deviceN, or the chip's"
				 " place on its bus, such as 1-0040", error, error_size);
	snprintf(scans, sizeof scans, "%s/scan_elements", folder);
	if (!write_text(folder, "buffer/enable", "0"))
		return fail(iio, "has no buffer, or one that this user may not start", error, error_size);
	if (!choose_elements(iio, scans) || !lay_out(iio, scans)) {
		snprintf(what, sizeof what, "its buffer has not all of %s, %s and timestamp; name two others:"
			 " iio:DEVICE:VOLTS,AMPS", iio->volts, iio->amps);
		return fail(iio, what, error, error_size);
	}
	if (!write_text(folder, "current_timestamp_clock", "monotonic"))
		return fail(iio, "its readings have no time of CLOCK_MONOTONIC", error, error_size);
	if (!read_text(folder, "in_sampling_frequency", text))
		read_text(folder, "sampling_frequency", text);
	rate = strtod(text, NULL);
	if (!(rate >= rate_hz)) {
		snprintf(what, sizeof what, "converts %s times a second; --rate may be that at most", *text ? text : "?");
		return fail(iio, what, error, error_size);
	}
	iio->elements[VOLTS].scale = factor(folder, iio->volts, "scale", 1) * MILLI;
	iio->elements[VOLTS].offset = factor(folder, iio->volts, "offset", 0);
	iio->elements[AMPS].scale = factor(folder, iio->amps, "scale", 1) * MILLI;
	iio->elements[AMPS].offset = factor(folder, iio->amps, "offset", 0);
	iio->elements[TIME].scale = 1;
	write_text(folder, "buffer/length", SCANS);
	iio->fd = open(node, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (iio->fd < 0) {
		snprintf(what, sizeof what, "%.200s: %s", node, strerror(errno));
		return fail(iio, what, error, error_size);
	}
	if (!write_text(folder, "buffer/enable", "1"))
		return fail(iio, "its buffer does not start", error, error_size);
	align_attach(align, iio->rail);
	return true;
}

bool iio_wants_read(const struct iio *iio, const struct align *align)
{
	return align_room(align, iio->rail) > MOST_MISSING;
}

static void end_window(struct iio *iio, struct align *align)
{
	float volts = NAN, amps = NAN;

	if (iio->readings) {
		volts = (float)(iio->volts_sum / iio->readings);
		amps = (float)(iio->amps_sum / iio->readings);
	}
	align_put(align, iio->rail, iio->window, volts, amps);
	iio->window++;
	iio->volts_sum = iio->amps_sum = 0;
	iio->readings = 0;
}

static bool take(struct iio *iio, struct align *align, const uint8_t *scan, int64_t window_ns)
{
	int64_t window = (int64_t)iio_decode(&iio->elements[TIME], scan) / window_ns;

	if (iio->window < 0)
		iio->window = window;
	if (window - iio->window > MOST_MISSING)
		return false;
	while (iio->window < window)
		end_window(iio, align);
	/* One that is late has a window that was taken already. */
	if (window == iio->window) {
		iio->volts_sum += iio_decode(&iio->elements[VOLTS], scan);
		iio->amps_sum += iio_decode(&iio->elements[AMPS], scan);
		iio->readings++;
	}
	return true;
}

bool iio_work(struct iio *iio, struct align *align, int64_t window_ns, char *error, size_t error_size)
{
	size_t used = 0;
	ssize_t got;

	if (iio_wants_read(iio, align)) {
		got = read(iio->fd, iio->buffer + iio->length, IIO_BUFFER - iio->length);
		if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
			return fail(iio, got ? strerror(errno) : "its buffer has ended", error, error_size);
		if (got > 0)
			iio->length += (size_t)got;
	}
	while (iio->length - used >= iio->scan_bytes && iio_wants_read(iio, align)) {
		if (!take(iio, align, iio->buffer + used, window_ns))
			return fail(iio, "stood still for longer than can be counted", error, error_size);
		used += iio->scan_bytes;
	}
	iio->length -= used;
	memmove(iio->buffer, iio->buffer + used, iio->length);
	return true;
}
