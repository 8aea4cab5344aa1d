/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A drive that notes what its controller asks of it, for tests of the controller. */
#ifndef JOULERIG_TEST_NVME_DRIVE_H
#define JOULERIG_TEST_NVME_DRIVE_H

#include "check.h"
#include "nvme/bytes.h"
#include "nvme/controller.h"

#define DRIVE_BYTES (1u << 30)
#define BLOCKS (DRIVE_BYTES / NVME_BLOCK_BYTES)

static struct noted {
	struct nvme_health health;
	struct self_report report;
	unsigned starts, stops, stop_minutes;
	unsigned state, resets, shutdowns, flushes, reads, writes, zeroes, discards;
	bool enabled;
	struct nvme_transition table[NVME_STATES];
	uint64_t now_ms, offset, bytes;
	bool fua, may_unmap, fails;
} noted;

static void note_health(void *owner, struct nvme_health *health)
{
	(void)owner;
	*health = noted.health;
}

static void note_self_report(void *owner, struct self_report *report)
{
	(void)owner;
	*report = noted.report;
}

static void note_measure(void *owner, bool start, unsigned stop_minutes)
{
	(void)owner;
	noted.starts += start;
	noted.stops += !start;
	noted.stop_minutes = stop_minutes;
	noted.report.measurement.is_running = start;
}

static unsigned note_state(void *owner)
{
	(void)owner;
	return noted.state;
}

static void note_set_state(void *owner, unsigned state)
{
	(void)owner;
	noted.state = state;
}

static void note_get_autonomous(void *owner, bool *enabled, struct nvme_transition *table)
{
	(void)owner;
	*enabled = noted.enabled;
	memcpy(table, noted.table, sizeof noted.table);
}

static void note_set_autonomous(void *owner, bool enabled, const struct nvme_transition *table)
{
	(void)owner;
	noted.enabled = enabled;
	memcpy(noted.table, table, sizeof noted.table);
}

static void note_reset(void *owner)
{
	(void)owner;
	noted.resets++;
}

static void note_shut_down(void *owner)
{
	(void)owner;
	noted.shutdowns++;
}

static uint64_t note_real_ms(void *owner)
{
	(void)owner;
	return noted.now_ms;
}

static int note(unsigned *count, uint64_t bytes, uint64_t offset)
{
	(*count)++;
	noted.bytes = bytes;
	noted.offset = offset;
	return noted.fails ? -1 : 0;
}

static int note_read(void *owner, void *data, uint32_t bytes, uint64_t offset)
{
	(void)owner;
	memset(data, 0x5a, bytes);
	return note(&noted.reads, bytes, offset);
}

static int note_write(void *owner, const void *data, uint32_t bytes, uint64_t offset, bool fua)
{
	(void)owner;
	(void)data;
	noted.fua = fua;
	return note(&noted.writes, bytes, offset);
}

static int note_flush(void *owner)
{
	(void)owner;
	return note(&noted.flushes, 0, 0);
}

static int note_discard(void *owner, uint64_t bytes, uint64_t offset)
{
	(void)owner;
	return note(&noted.discards, bytes, offset);
}

static int note_zero(void *owner, uint32_t bytes, uint64_t offset, bool may_unmap, bool fua)
{
	(void)owner;
	noted.fua = fua;
	noted.may_unmap = may_unmap;
	return note(&noted.zeroes, bytes, offset);
}

static const struct nvme_drive drive = {
	.health = note_health, .self_report = note_self_report, .measure = note_measure, .state = note_state, .set_state = note_set_state,
	.get_autonomous = note_get_autonomous, .set_autonomous = note_set_autonomous, .reset = note_reset,
	.shut_down = note_shut_down, .real_ms = note_real_ms, .read = note_read, .write = note_write,
	.flush = note_flush, .discard = note_discard, .zero = note_zero,
};

static struct nvme_facts facts = {
	.serial = "JRTEST0001", .model = "Joulerig test twin", .firmware = "1", .name = "nqn.test:drive",
	.bytes = DRIVE_BYTES, .eui64 = 0x0123456789abcdefull, .has_write_cache = true, .state_count = 3,
	.states = { { .is_operational = true, .watts = 8.49, .idle_watts = 0.35 },
		    { .is_operational = true, .watts = 4.48, .idle_watts = 0.35, .entry_us = 10, .exit_us = 20,
		      .rate_rank = 1 },
		    { .watts = 0.04, .entry_us = 2000, .exit_us = 1200, .rate_rank = 2 } },
};

#define READY 0x00460001u /* CC: enabled, entries of 64 and 16 bytes */

static struct nvme_controller controller;
static uint8_t data[NVME_PAGE_BYTES];

/* A controller that is ready, on a drive of which nothing is noted. */
static inline void begin(void)
{
	memset(&noted, 0, sizeof noted);
	facts.reports_power = facts.has_ocp_log = facts.plp = false;
	nvme_controller_begin(&controller, &facts, &drive, 1);
	CHECK(nvme_set_property(&controller, PROPERTY_CC, false, READY) && nvme_is_ready(&controller));
}

struct command {
	uint8_t raw[NVME_COMMAND_BYTES];
};

static inline struct command command_of(unsigned opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11,
					uint32_t cdw12)
{
	struct command command = { { 0 } };

	command.raw[NVME_OPCODE] = (uint8_t)opcode;
	put16(command.raw + NVME_COMMAND_ID, 77);
	put32(command.raw + NVME_NSID, nsid);
	put32(command.raw + NVME_CDW10, cdw10);
	put32(command.raw + NVME_CDW11, cdw11);
	put32(command.raw + NVME_CDW12, cdw12);
	return command;
}

static inline uint16_t code(uint16_t status)
{
	return status & 0x7ff;
}

static inline struct nvme_reply admin(unsigned opcode, uint32_t nsid, uint32_t cdw10, uint32_t cdw11,
				      uint32_t in_bytes, uint32_t out_bytes)
{
	return nvme_admin(&controller, command_of(opcode, nsid, cdw10, cdw11, 0).raw, data, in_bytes, out_bytes);
}

#endif
