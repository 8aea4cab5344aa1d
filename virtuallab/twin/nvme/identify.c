/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What Identify gives: the controller, its namespace, the lists of namespaces. */
#define _GNU_SOURCE
#include "nvme/controller.h"

#include "nvme/bytes.h"

#include <math.h>
#include <string.h>

enum what {
	IDENTIFY_NAMESPACE = 0x00,
	IDENTIFY_CONTROLLER = 0x01,
	IDENTIFY_NAMESPACES = 0x02,
	IDENTIFY_DESCRIPTORS = 0x03,
	IDENTIFY_SET_NAMESPACE = 0x05, /* of an I/O command set */
	IDENTIFY_SET_CONTROLLER = 0x06,
};

#define DESCRIPTOR_EUI64 1

static void put_state(uint8_t *at, const struct nvme_state *state)
{
	/* In hundredths of a watt, or, where that is too coarse, in tenths of a milliwatt. */
	bool is_fine = state->watts < 1;

	put16(at, (uint16_t)lround(state->watts * (is_fine ? 1e4 : 1e2)));
	at[3] = (uint8_t)((is_fine ? 1 : 0) | (state->is_operational ? 0 : 2));
	put32(at + 4, state->entry_us);
	put32(at + 8, state->exit_us);
	at[12] = at[13] = at[14] = at[15] = (uint8_t)state->rate_rank;
	if (state->idle_watts > 0 && state->idle_watts < 6.5) {
		put16(at + 16, (uint16_t)lround(state->idle_watts * 1e4));
		at[18] = 1 << 6;
	}
}

static void put_controller(uint8_t *at, const struct nvme_controller *controller)
{
	const struct nvme_facts *facts = controller->facts;

	put_text(at + 4, facts->serial, 20);
	put_text(at + 24, facts->model, 40);
	put_text(at + 64, facts->firmware, 8);
	at[77] = NVME_MDTS;
	put16(at + 78, controller->id);
	put32(at + 80, NVME_VERSION);
	put32(at + 96, 1u << 20 | (facts->reports_power ? 1u << 21 : 0)); /* limits, measures its power, */
	if (facts->reports_power)
		put16(at + 394, 0xffff); /* for as many minutes as the host wants */
	at[111] = 1;	      /* an I/O controller */
	put16(at + 256, 0x2); /* Format */
	at[258] = 3;	      /* commands to abort at once, less one */
	at[259] = NVME_EVENTS - 1;
	at[260] = 0x3; /* one firmware slot, read only */
	at[261] = 0x4; /* logs in pieces */
	at[262] = NVME_ERROR_ENTRIES - 1;
	at[263] = (uint8_t)(facts->state_count - 1);
	at[265] = 1; /* autonomous transitions */
	put16(at + 266, NVME_WARM_KELVINS);
	put16(at + 268, NVME_HOT_KELVINS);
	put64(at + 280, facts->bytes);
	put16(at + 320, 1); /* keep alive in steps of 100 ms */
	at[512] = 0x66;
	at[513] = 0x44;
	put16(at + 514, NVME_QUEUE_ENTRIES);
	put32(at + 516, 1); /* namespaces */
	put16(at + 520, 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6); /* deallocate, zeroes, select, timestamp */
	at[525] = facts->has_write_cache ? 0x7 : 0x6; /* a flush may be of all namespaces */
	put32(at + 536, 1 | 1 << 20);
	memcpy(at + 768, facts->name, strnlen(facts->name, NVME_NAME_BYTES - 1));
	put32(at + 1792, (NVME_COMMAND_BYTES + NVME_IN_CAPSULE_BYTES) / 16);
	put32(at + 1796, NVME_COMPLETION_BYTES / 16);
	at[1803] = 1; /* data descriptors in a capsule */
	for (unsigned n = 0; n < facts->state_count; n++)
		put_state(at + 2048 + 32 * n, &facts->states[n]);
}

static void put_namespace(uint8_t *at, const struct nvme_facts *facts)
{
	uint64_t blocks = facts->bytes / NVME_BLOCK_BYTES;

	put64(at, blocks);
	put64(at + 8, blocks);
	put64(at + 16, blocks);
	at[33] = 0x9; /* what is deallocated reads as zeroes, also by Write Zeroes */
	if (facts->eui64)
		for (unsigned n = 0; n < 8; n++)
			at[120 + n] = (uint8_t)(facts->eui64 >> (8 * (7 - n)));
	at[128 + 2] = NVME_BLOCK_SHIFT;
}

static void put_descriptors(uint8_t *at, const struct nvme_facts *facts)
{
	if (!facts->eui64)
		return;
	at[0] = DESCRIPTOR_EUI64;
	at[1] = 8;
	for (unsigned n = 0; n < 8; n++)
		at[4 + n] = (uint8_t)(facts->eui64 >> (8 * (7 - n)));
}

struct nvme_reply nvme_identify(const struct nvme_controller *controller, const uint8_t *command,
				uint8_t *data, uint32_t out_bytes)
{
	const struct nvme_facts *facts = controller->facts;
	uint32_t namespace = get32(command + NVME_NSID);
	uint8_t what = command[NVME_CDW10];
	uint8_t set = command[NVME_CDW11 + 3];

	if (out_bytes < NVME_PAGE_BYTES)
		return nvme_fail(STATUS_DATA_LENGTH);
	memset(data, 0, NVME_PAGE_BYTES);
	if ((what == IDENTIFY_NAMESPACE || what == IDENTIFY_DESCRIPTORS || what == IDENTIFY_SET_NAMESPACE) &&
	    namespace != NVME_NAMESPACE &&
	    !(what == IDENTIFY_NAMESPACE && namespace == NVME_ALL_NAMESPACES))
		return nvme_fail(STATUS_INVALID_NAMESPACE);
	switch (what) {
	case IDENTIFY_NAMESPACE:
		put_namespace(data, facts);
		break;
	case IDENTIFY_CONTROLLER:
		put_controller(data, controller);
		break;
	case IDENTIFY_NAMESPACES:
		if (namespace >= NVME_ALL_NAMESPACES - 1)
			return nvme_fail(STATUS_INVALID_NAMESPACE);
		if (namespace < NVME_NAMESPACE)
			put32(data, NVME_NAMESPACE);
		break;
	case IDENTIFY_DESCRIPTORS:
		put_descriptors(data, facts);
		break;
	case IDENTIFY_SET_NAMESPACE:
	case IDENTIFY_SET_CONTROLLER: /* nothing beyond what is above */
		if (set != 0)
			return nvme_fail(STATUS_INVALID_FIELD);
		break;
	default:
		return nvme_fail(STATUS_INVALID_FIELD);
	}
	return (struct nvme_reply){ .bytes = NVME_PAGE_BYTES };
}
