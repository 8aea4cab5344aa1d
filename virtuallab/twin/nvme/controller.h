/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An NVMe controller, without a transport: its properties, its admin and I/O commands.
 * It has no clock, no thread and no socket. What it commands is a struct nvme_drive,
 * which tests replace.
 *
 * The caller holds one lock around all calls on a controller but nvme_io, which any
 * thread may call, and which reads of it only what changes at once (write_cache).
 */
#ifndef JOULERIG_NVME_CONTROLLER_H
#define JOULERIG_NVME_CONTROLLER_H

#include "health.h"
#include "nvme/spec.h"
#include "self_report.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVME_NAME_BYTES 256 /* of a qualified name, with its end */

/* What the host reads of a power state. */
struct nvme_state {
	bool is_operational;
	double watts;	   /* the most; of one that is not operational what it draws */
	double idle_watts; /* of an operational one; 0: not reported */
	uint32_t entry_us, exit_us;
	unsigned rate_rank; /* 0: the fastest */
};

/* What never changes. */
struct nvme_facts {
	const char *serial;
	const char *model;
	const char *firmware;
	const char *name; /* qualified, of the subsystem */
	uint64_t bytes;
	uint64_t eui64; /* 0: none */
	bool has_write_cache;
	bool plp;
	bool reports_power; /* self_report.h */
	bool has_ocp_log;
	struct nvme_state states[NVME_STATES];
	unsigned state_count; /* at least 1 */
	unsigned initial_state;
};

/* The health log. */
struct nvme_health {
	double celsius;
	double percentage_used;
	uint64_t read_bytes, written_bytes;
	uint64_t reads, writes;
	double busy_seconds;
	uint64_t power_cycles, unsafe_shutdowns, media_errors;
	double power_on_seconds;
	double warm_seconds, hot_seconds;
	struct throttle_counts throttled;
	bool is_throttled;
	uint64_t nand_bytes_written;
	double erases; /* of the flash, on average; 0: not known */
};

/* The controller may go by itself to state `to` after idle_ms without work in the state
 * that an entry is of; 0: it does not. */
struct nvme_transition {
	unsigned to;
	uint32_t idle_ms;
};

/* The functions that return int give 0, or -1 where the medium has failed. */
struct nvme_drive {
	void *owner; /* the first argument of each */
	/* Whether it has power and is ready; its power cycle, by which a host's connections
	 * of an earlier one are recognised. */
	bool (*is_ready)(void *owner, uint64_t *cycle);
	void (*health)(void *owner, struct nvme_health *health);
	void (*self_report)(void *owner, struct self_report *report);
	/* Start its measurement, which ends by itself after so many minutes (0: never); stop it. */
	void (*measure)(void *owner, bool start, unsigned stop_minutes);
	unsigned (*state)(void *owner); /* in which it is now */
	void (*set_state)(void *owner, unsigned state);
	/* Its entries are one a power state. */
	void (*get_autonomous)(void *owner, bool *enabled, struct nvme_transition *table);
	void (*set_autonomous)(void *owner, bool enabled, const struct nvme_transition *table);
	/* As after power on; nothing of what a host has set is left. */
	void (*reset)(void *owner);
	/* The host has announced that power may go. */
	void (*shut_down)(void *owner);
	uint64_t (*real_ms)(void *owner);
	int (*read)(void *owner, void *data, uint32_t bytes, uint64_t offset);
	int (*write)(void *owner, const void *data, uint32_t bytes, uint64_t offset, bool fua);
	int (*flush)(void *owner);
	int (*discard)(void *owner, uint64_t bytes, uint64_t offset);
	int (*zero)(void *owner, uint32_t bytes, uint64_t offset, bool may_unmap, bool fua);
};

struct nvme_error {
	uint64_t number; /* 0: no such entry */
	uint16_t queue, command_id, status;
	uint64_t block;
	uint32_t namespace;
};

struct nvme_controller {
	const struct nvme_facts *facts;
	const struct nvme_drive *drive;
	uint16_t id;
	uint8_t host_id[16];
	char host_name[NVME_NAME_BYTES];

	uint32_t configuration, status; /* CC, CSTS */
	uint32_t keep_alive_ms;
	uint32_t arbitration, error_recovery, atomicity, events_wanted;
	uint32_t queues; /* as granted, less one, of each kind */
	uint16_t too_hot, too_cold; /* kelvins */
	uint32_t power_limit;	    /* as the host gave it; 0: none */
	unsigned wanted_state;	    /* to work in, as far as the limit allows */
	atomic_bool write_cache; /* enabled */
	int64_t clock_ms; /* the timestamp less the real time */
	bool clock_is_set;

	uint16_t events[NVME_EVENTS]; /* commands that wait for one */
	unsigned event_count;
	bool heat_is_reported; /* not again before the host has read the log */

	struct nvme_error errors[NVME_ERROR_ENTRIES]; /* a ring; the newest is error_count - 1 */
	uint64_t error_count;
};

struct nvme_reply {
	uint16_t status;
	uint64_t result;
	uint32_t bytes; /* of data for the host */
	bool waits;	/* the command is kept, and is answered by nvme_take_event */
};

void nvme_controller_begin(struct nvme_controller *controller, const struct nvme_facts *facts,
			   const struct nvme_drive *drive, uint16_t id);
bool nvme_is_ready(const struct nvme_controller *controller);
bool nvme_is_failed(const struct nvme_controller *controller);

/* Properties; false where there is none of that size there. */
bool nvme_get_property(const struct nvme_controller *controller, uint32_t offset, bool is_long,
		       uint64_t *value);
bool nvme_set_property(struct nvme_controller *controller, uint32_t offset, bool is_long, uint64_t value);

/* An admin command that is none of Fabrics. `data`: what came with it, in_bytes; room for
 * what goes back, out_bytes as its SGL says, of which the reply's `bytes` are used. */
struct nvme_reply nvme_admin(struct nvme_controller *controller, const uint8_t *command, uint8_t *data,
			     uint32_t in_bytes, uint32_t out_bytes);

/* An I/O command; data as above. */
uint16_t nvme_io(const struct nvme_facts *facts, const struct nvme_drive *drive, bool write_cache,
		 const uint8_t *command, uint8_t *data, uint32_t bytes);

void nvme_note_error(struct nvme_controller *controller, uint16_t queue, const uint8_t *command,
		     uint16_t status);

/* Whether there is something to report at this temperature, and a command that waits for
 * it: that command's id and its result. */
bool nvme_take_event(struct nvme_controller *controller, double celsius, uint16_t *command_id,
		     uint64_t *result);

/* The parts of an admin command's work, a file each. */
struct nvme_reply nvme_identify(const struct nvme_controller *controller, const uint8_t *command,
				uint8_t *data, uint32_t out_bytes);
struct nvme_reply nvme_get_log(struct nvme_controller *controller, const uint8_t *command, uint8_t *data,
			       uint32_t out_bytes);
void nvme_default_features(struct nvme_controller *controller);
struct nvme_reply nvme_get_features(const struct nvme_controller *controller, const uint8_t *command,
				    uint8_t *data, uint32_t out_bytes);
struct nvme_reply nvme_set_features(struct nvme_controller *controller, const uint8_t *command,
				    const uint8_t *data, uint32_t in_bytes);

static inline struct nvme_reply nvme_fail(uint16_t status)
{
	return (struct nvme_reply){ .status = (uint16_t)(status | NVME_DO_NOT_RETRY) };
}

/* Kelvins, as NVMe has temperatures. */
static inline uint16_t nvme_kelvins(double celsius)
{
	return (uint16_t)(celsius + 273.5);
}

/* Above these the controller warns. */
#define NVME_WARM_KELVINS (HEALTH_WARM_CELSIUS + 273u)
#define NVME_HOT_KELVINS (HEALTH_HOT_CELSIUS + 273u)

#endif
