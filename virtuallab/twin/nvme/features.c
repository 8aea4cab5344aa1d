/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Get Features and Set Features. */
#include "nvme/controller.h"

#include "nvme/bytes.h"

#include <string.h>

enum select { SELECT_CURRENT = 0, SELECT_DEFAULT = 1, SELECT_SAVED = 2, SELECT_SUPPORTED = 3 };

#define CHANGEABLE 0x4u
#define TIMESTAMP_BYTES 8
#define TIMESTAMP_MASK 0xffffffffffffull
#define IDLE_MASK 0xffffffu /* ms, of an entry of the autonomous transitions */

void nvme_default_features(struct nvme_controller *controller)
{
	controller->arbitration = 0;
	controller->error_recovery = 0;
	controller->atomicity = 0;
	controller->events_wanted = 0;
	controller->queues = NVME_MAX_QUEUES - 1;
	controller->too_hot = NVME_WARM_KELVINS;
	controller->too_cold = 0;
	controller->power_limit = 0;
	controller->wanted_state = controller->facts->initial_state;
	controller->write_cache = true;
	controller->clock_ms = 0;
	controller->clock_is_set = false;
	controller->heat_is_reported = false;
}

static struct nvme_reply with(uint64_t result)
{
	return (struct nvme_reply){ .result = result };
}

/* The threshold that CDW11 selects; NULL: there is none. */
static uint16_t *threshold(struct nvme_controller *controller, uint32_t cdw11)
{
	uint32_t sensor = cdw11 >> 16 & 0xf;
	uint32_t kind = cdw11 >> 20 & 0x3;

	/* The composite temperature, its only sensor, or all there are. */
	if ((sensor > 1 && sensor != 0xf) || kind > 1)
		return NULL;
	return kind == 0 ? &controller->too_hot : &controller->too_cold;
}

static struct nvme_reply get_autonomous(const struct nvme_controller *controller, uint8_t *data,
					uint32_t out_bytes)
{
	struct nvme_transition table[NVME_STATES] = { { 0, 0 } };
	bool enabled = false;

	if (out_bytes < NVME_AUTONOMOUS_BYTES)
		return nvme_fail(STATUS_DATA_LENGTH);
	controller->drive->get_autonomous(controller->drive->owner, &enabled, table);
	memset(data, 0, NVME_AUTONOMOUS_BYTES);
	for (unsigned n = 0; n < controller->facts->state_count; n++)
		if (table[n].idle_ms)
			put64(data + 8 * n, table[n].to << 3 | (uint64_t)table[n].idle_ms << 8);
	return (struct nvme_reply){ .result = enabled, .bytes = NVME_AUTONOMOUS_BYTES };
}

static struct nvme_reply set_autonomous(struct nvme_controller *controller, uint32_t cdw11,
					const uint8_t *data, uint32_t in_bytes)
{
	const struct nvme_facts *facts = controller->facts;
	struct nvme_transition table[NVME_STATES] = { { 0, 0 } };

	if (in_bytes < NVME_AUTONOMOUS_BYTES)
		return nvme_fail(STATUS_DATA_LENGTH);
	for (unsigned n = 0; n < facts->state_count; n++) {
		uint64_t entry = get64(data + 8 * n);

		table[n].to = entry >> 3 & 0x1f;
		table[n].idle_ms = entry >> 8 & IDLE_MASK;
		/* Only to a state in which nothing is served, which is how it is left again. */
		if (table[n].idle_ms && (table[n].to >= facts->state_count ||
					 facts->states[table[n].to].is_operational))
			return nvme_fail(STATUS_INVALID_FIELD);
	}
	controller->drive->set_autonomous(controller->drive->owner, cdw11 & 1, table);
	return with(0);
}

static struct nvme_reply get_timestamp(const struct nvme_controller *controller, uint8_t *data,
				       uint32_t out_bytes)
{
	uint64_t now_ms = controller->drive->real_ms(controller->drive->owner);

	if (out_bytes < TIMESTAMP_BYTES)
		return nvme_fail(STATUS_DATA_LENGTH);
	put64(data, (now_ms + (uint64_t)controller->clock_ms) & TIMESTAMP_MASK);
	data[6] = controller->clock_is_set ? 1 << 1 : 0;
	return (struct nvme_reply){ .bytes = TIMESTAMP_BYTES };
}

static struct nvme_reply set_timestamp(struct nvme_controller *controller, const uint8_t *data,
				       uint32_t in_bytes)
{
	uint64_t now_ms = controller->drive->real_ms(controller->drive->owner);

	if (in_bytes < TIMESTAMP_BYTES)
		return nvme_fail(STATUS_DATA_LENGTH);
	controller->clock_ms = (int64_t)(get64(data) & TIMESTAMP_MASK) - (int64_t)now_ms;
	controller->clock_is_set = true;
	return with(0);
}

static struct nvme_reply get_temperature(const struct nvme_controller *controller, uint32_t cdw11)
{
	struct nvme_controller copy = *controller;
	const uint16_t *kelvins = threshold(&copy, cdw11);

	return kelvins ? with(*kelvins) : nvme_fail(STATUS_INVALID_FIELD);
}

static struct nvme_reply get_measurement(const struct nvme_controller *controller)
{
	struct self_report report;

	if (!controller->facts->reports_power)
		return nvme_fail(STATUS_INVALID_FIELD);
	controller->drive->self_report(controller->drive->owner, &report);
	return with(report.measurement.is_running);
}

static struct nvme_reply get_current(const struct nvme_controller *controller, uint8_t feature,
				     const uint8_t *command, uint8_t *data, uint32_t out_bytes)
{
	uint32_t cdw11 = get32(command + NVME_CDW11);

	switch (feature) {
	case FEATURE_ARBITRATION:
		return with(controller->arbitration);
	case FEATURE_POWER:
		return with(controller->drive->state(controller->drive->owner));
	case FEATURE_TEMPERATURE:
		return get_temperature(controller, cdw11);
	case FEATURE_ERROR_RECOVERY:
		return with(controller->error_recovery);
	case FEATURE_WRITE_CACHE:
		if (!controller->facts->has_write_cache)
			return nvme_fail(STATUS_INVALID_FIELD);
		return with(controller->write_cache);
	case FEATURE_QUEUES:
		return with(controller->queues | controller->queues << 16);
	case FEATURE_WRITE_ATOMICITY:
		return with(controller->atomicity);
	case FEATURE_EVENTS:
		return with(controller->events_wanted);
	case FEATURE_AUTONOMOUS:
		return get_autonomous(controller, data, out_bytes);
	case FEATURE_TIMESTAMP:
		return get_timestamp(controller, data, out_bytes);
	case FEATURE_KEEP_ALIVE:
		return with(controller->keep_alive_ms);
	case FEATURE_POWER_LIMIT:
		return with(controller->power_limit);
	case FEATURE_POWER_MEASUREMENT:
		return get_measurement(controller);
	default:
		return nvme_fail(STATUS_INVALID_FIELD);
	}
}

/* The values that a reset brings back; the table of transitions and the clock have none
 * that could be read without one. */
static struct nvme_reply get_default(const struct nvme_controller *controller, uint8_t feature,
				     const uint8_t *command, uint8_t *data, uint32_t out_bytes)
{
	struct nvme_controller fresh = *controller;

	if (feature == FEATURE_POWER)
		return with(0);
	if (feature == FEATURE_AUTONOMOUS || feature == FEATURE_TIMESTAMP)
		return nvme_fail(STATUS_INVALID_FIELD);
	nvme_default_features(&fresh);
	return get_current(&fresh, feature, command, data, out_bytes);
}

struct nvme_reply nvme_get_features(const struct nvme_controller *controller, const uint8_t *command,
				    uint8_t *data, uint32_t out_bytes)
{
	uint8_t feature = command[NVME_CDW10];
	struct nvme_reply reply;

	switch (command[NVME_CDW10 + 1] & 0x7) {
	case SELECT_CURRENT:
		return get_current(controller, feature, command, data, out_bytes);
	case SELECT_DEFAULT:
	case SELECT_SAVED: /* nothing is saved: what a reset brings back */
		return get_default(controller, feature, command, data, out_bytes);
	case SELECT_SUPPORTED:
		reply = get_current(controller, feature, command, data, out_bytes);
		if ((reply.status & ~NVME_DO_NOT_RETRY) == STATUS_INVALID_FIELD)
			return reply;
		return with(CHANGEABLE);
	default:
		return nvme_fail(STATUS_INVALID_FIELD);
	}
}

/* A limit's value and scale, which are those of a power state's watts. */
static double watts_of(uint32_t limit)
{
	return (limit & 0xffff) * ((limit >> 16 & 0x3) == 1 ? 1e-4 : 1e-2);
}

static bool is_within(const struct nvme_state *state, uint32_t limit)
{
	return state->is_operational && (limit == 0 || state->watts <= watts_of(limit) * (1 + 1e-9));
}

/* The state to work in under a limit: the wanted one, or the first after it that draws no
 * more than the limit, or else the first of all that does not. -1: none does not. */
static int state_within(const struct nvme_controller *controller, uint32_t limit)
{
	const struct nvme_facts *facts = controller->facts;

	for (unsigned n = 0; n < facts->state_count; n++) {
		unsigned state = (controller->wanted_state + n) % facts->state_count;

		if (is_within(&facts->states[state], limit))
			return (int)state;
	}
	return -1;
}

/* A state to rest in is under no limit: it draws less than any to work in. */
static struct nvme_reply set_power(struct nvme_controller *controller, uint32_t cdw11)
{
	const struct nvme_facts *facts = controller->facts;
	uint32_t state = cdw11 & 0x1f;

	if (state >= facts->state_count ||
	    (facts->states[state].is_operational && !is_within(&facts->states[state], controller->power_limit)))
		return nvme_fail(STATUS_INVALID_FIELD);
	if (facts->states[state].is_operational)
		controller->wanted_state = state;
	controller->drive->set_state(controller->drive->owner, state);
	return with(0);
}

static struct nvme_reply set_power_limit(struct nvme_controller *controller, uint32_t cdw11)
{
	uint32_t limit = cdw11 & 0x3ffff, scale = cdw11 >> 16 & 0x3;
	bool is_none = (limit & 0xffff) == 0;
	int state;

	if (!is_none && scale != 1 && scale != 2)
		return nvme_fail(STATUS_INVALID_FIELD);
	state = state_within(controller, is_none ? 0 : limit);
	if (state < 0)
		return nvme_fail(STATUS_INVALID_POWER_LIMIT);
	controller->power_limit = is_none ? 0 : limit;
	controller->drive->set_state(controller->drive->owner, (unsigned)state);
	return with(0);
}

static struct nvme_reply set_temperature(struct nvme_controller *controller, uint32_t cdw11)
{
	uint16_t *kelvins = threshold(controller, cdw11);

	if (!kelvins)
		return nvme_fail(STATUS_INVALID_FIELD);
	*kelvins = (uint16_t)cdw11;
	controller->heat_is_reported = false;
	return with(0);
}

static struct nvme_reply set_queues(struct nvme_controller *controller, uint32_t cdw11)
{
	uint32_t submission = cdw11 & 0xffff, completion = cdw11 >> 16;
	uint32_t wanted = submission > completion ? submission : completion;

	if (submission == 0xffff || completion == 0xffff)
		return nvme_fail(STATUS_INVALID_FIELD);
	controller->queues = wanted < NVME_MAX_QUEUES - 1 ? wanted : NVME_MAX_QUEUES - 1;
	return with(controller->queues | controller->queues << 16);
}

/* CDW11: what to do, of which kind of power, and after how many minutes it ends. */
static struct nvme_reply set_measurement(struct nvme_controller *controller, uint32_t cdw11)
{
	uint32_t action = cdw11 & 0xf, kind = cdw11 >> 4 & 0xf;

	if (!controller->facts->reports_power || action > 1 || kind != 0)
		return nvme_fail(STATUS_INVALID_FIELD);
	controller->drive->measure(controller->drive->owner, action, cdw11 >> 16);
	return with(0);
}

static struct nvme_reply set_word(uint32_t *word, uint32_t cdw11)
{
	*word = cdw11;
	return with(0);
}

struct nvme_reply nvme_set_features(struct nvme_controller *controller, const uint8_t *command,
				    const uint8_t *data, uint32_t in_bytes)
{
	uint32_t cdw11 = get32(command + NVME_CDW11);

	if (command[NVME_CDW10 + 3] & 0x80)
		return nvme_fail(STATUS_NOT_SAVEABLE);
	switch (command[NVME_CDW10]) {
	case FEATURE_ARBITRATION:
		return set_word(&controller->arbitration, cdw11);
	case FEATURE_POWER:
		return set_power(controller, cdw11);
	case FEATURE_TEMPERATURE:
		return set_temperature(controller, cdw11);
	case FEATURE_ERROR_RECOVERY:
		return set_word(&controller->error_recovery, cdw11);
	case FEATURE_WRITE_CACHE:
		if (!controller->facts->has_write_cache)
			return nvme_fail(STATUS_INVALID_FIELD);
		controller->write_cache = cdw11 & 1;
		return with(0);
	case FEATURE_QUEUES:
		return set_queues(controller, cdw11);
	case FEATURE_WRITE_ATOMICITY:
		return set_word(&controller->atomicity, cdw11);
	case FEATURE_EVENTS:
		return set_word(&controller->events_wanted, cdw11);
	case FEATURE_AUTONOMOUS:
		return set_autonomous(controller, cdw11, data, in_bytes);
	case FEATURE_TIMESTAMP:
		return set_timestamp(controller, data, in_bytes);
	case FEATURE_KEEP_ALIVE:
		return set_word(&controller->keep_alive_ms, cdw11);
	case FEATURE_POWER_LIMIT:
		return set_power_limit(controller, cdw11);
	case FEATURE_POWER_MEASUREMENT:
		return set_measurement(controller, cdw11);
	default:
		return nvme_fail(STATUS_INVALID_FIELD);
	}
}
