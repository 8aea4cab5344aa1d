/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finding an instrument by its driver specification, choosing its channels, setting its options
 * by name. */
#ifndef SRCAP_DEVICE_H
#define SRCAP_DEVICE_H

#include <libsigrok/libsigrok.h>

#define MAX_CHANNELS 64

enum exit_code {
	EXIT_STOPPED = 0,
	EXIT_USAGE = 2,
	EXIT_NOT_FOUND = 3,
	EXIT_SILENT = 4,
	EXIT_SIGROK = 5,
};

struct channels {
	int count;
	struct sr_channel *at[MAX_CHANNELS];
};

/* All of these print one line on stderr and end the process where the user or the instrument is
 * at fault. */

/* What DRIVER[:key=value...] finds, as JSON: an array of objects; the caller frees it (g_free). */
char *device_scan(struct sr_context *ctx, const char *spec);

/* Open the first instrument that DRIVER[:key=value...] finds. */
struct sr_dev_inst *device_open(struct sr_context *ctx, const char *spec);

/* Enable the named channels (comma separated), in that order, and no other. */
void device_select(const struct sr_dev_inst *sdi, const char *names, struct channels *chosen);

/* Set an option ("GROUP.KEY": of a channel group); on failure return a message that the caller
 * frees (g_free), else NULL. */
char *device_set(const struct sr_dev_inst *sdi, const char *key, const char *value);

/* As device_set with "key=value", ending the process on failure. */
void device_set_pair(const struct sr_dev_inst *sdi, const char *pair);

/* The payload of the `start` event; the caller frees it (g_free). */
char *device_start_event(const struct sr_dev_inst *sdi, const struct channels *chosen);

#endif
