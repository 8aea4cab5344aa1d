/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libsigrok's packets as frames. */
#ifndef SRCAP_CAPTURE_H
#define SRCAP_CAPTURE_H

#include "device.h"

/* Where each channel stands; `data` of capture_packet. */
struct capture {
	struct channels channels;
	uint64_t next[MAX_CHANNELS];
	uint64_t next_logic;
	float *scratch;
	size_t scratch_floats;
	/* Of each channel what its last samples show that is not the direct current of now; and samples
	 * that are no numbers, in their place. */
	enum sr_mqflag shows[MAX_CHANNELS];
	float *none;
	size_t none_floats;
};

/* Datafeed callback. */
void capture_packet(const struct sr_dev_inst *sdi, const struct sr_datafeed_packet *packet, void *data);

#endif
