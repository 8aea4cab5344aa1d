/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme/controller.h"

#include "nvme/bytes.h"

#include <string.h>

#define CC_ENABLE 0x1u
#define CC_SHUTDOWN 0xc000u
#define CSTS_READY 0x1u
#define CSTS_FATAL 0x2u
#define CSTS_SHUT_DOWN 0x8u
#define EVENT_HEALTH 1u
#define EVENT_TEMPERATURE 1u
#define WARNING_TEMPERATURE 0x2u

void nvme_controller_begin(struct nvme_controller *controller, const struct nvme_facts *facts,
			   const struct nvme_drive *drive, uint16_t id)
{
	memset(controller, 0, sizeof *controller);
	controller->facts = facts;
	controller->drive = drive;
	controller->id = id;
	nvme_default_features(controller);
}

bool nvme_is_ready(const struct nvme_controller *controller)
{
	return controller->status & CSTS_READY;
}

bool nvme_is_failed(const struct nvme_controller *controller)
{
	return controller->status & CSTS_FATAL;
}

static uint64_t capabilities(void)
{
	return (NVME_QUEUE_ENTRIES - 1) | 1u << 16	/* queues lie in one piece */
	       | 20u << 24				/* at most 10 s until ready */
	       | 1ull << 37;				/* the NVM command set; pages of 4 KiB */
}

bool nvme_get_property(const struct nvme_controller *controller, uint32_t offset, bool is_long, uint64_t *value)
{
	switch (offset) {
	case PROPERTY_CAP:
		*value = capabilities();
		return is_long;
	case PROPERTY_VS:
		*value = NVME_VERSION;
		return !is_long;
	case PROPERTY_CC:
		*value = controller->configuration;
		return !is_long;
	case PROPERTY_CSTS:
		*value = controller->status;
		return !is_long;
	default:
		return false;
	}
}

static void enable(struct nvme_controller *controller, uint32_t configuration)
{
	/* Pages of 4 KiB, round robin, the NVM command set; entries of 64 and 16 bytes. */
	bool fits = (configuration & 0x3ff0) == 0 && (configuration >> 16 & 0xf) == 6 &&
		    (configuration >> 20 & 0xf) == 4;

	controller->status = fits ? CSTS_READY : CSTS_FATAL;
}

static void reset(struct nvme_controller *controller)
{
	controller->status = 0;
	controller->event_count = 0;
	nvme_default_features(controller);
	controller->drive->reset(controller->drive->owner);
}

bool nvme_set_property(struct nvme_controller *controller, uint32_t offset, bool is_long, uint64_t value)
{
	uint32_t before = controller->configuration;
	uint32_t configuration = (uint32_t)value;

	if (offset != PROPERTY_CC || is_long)
		return false;
	controller->configuration = configuration;
	if (!(before & CC_ENABLE) && (configuration & CC_ENABLE))
		enable(controller, configuration);
	if ((configuration & CC_SHUTDOWN) && !(before & CC_SHUTDOWN)) {
		controller->drive->shut_down(controller->drive->owner);
		controller->status |= CSTS_SHUT_DOWN;
	}
	if ((before & CC_ENABLE) && !(configuration & CC_ENABLE))
		reset(controller);
	return true;
}

static struct nvme_reply keep_for_event(struct nvme_controller *controller, const uint8_t *command)
{
	if (controller->event_count == NVME_EVENTS)
		return nvme_fail(STATUS_EVENT_LIMIT);
	controller->events[controller->event_count++] = get16(command + NVME_COMMAND_ID);
	return (struct nvme_reply){ .waits = true };
}

/* The medium is erased: what a discard does to all of it. */
static struct nvme_reply format(const struct nvme_controller *controller, const uint8_t *command)
{
	uint32_t what = get32(command + NVME_CDW10);
	uint32_t namespace = get32(command + NVME_NSID);
	const struct nvme_drive *drive = controller->drive;

	if (namespace != NVME_NAMESPACE && namespace != NVME_ALL_NAMESPACES)
		return nvme_fail(STATUS_INVALID_NAMESPACE);
	/* One format, without metadata and protection; no key whose loss would erase. */
	if ((what & 0x1ff) != 0 || (what >> 9 & 7) > 1)
		return nvme_fail(STATUS_INVALID_FORMAT);
	if (drive->discard(drive->owner, controller->facts->bytes, 0) < 0)
		return nvme_fail(STATUS_WRITE_FAULT);
	return (struct nvme_reply){ .status = STATUS_OK };
}

static struct nvme_reply execute(struct nvme_controller *controller, const uint8_t *command, uint8_t *data,
				 uint32_t in_bytes, uint32_t out_bytes)
{
	switch (command[NVME_OPCODE]) {
	case ADMIN_IDENTIFY:
		return nvme_identify(controller, command, data, out_bytes);
	case ADMIN_GET_LOG:
		return nvme_get_log(controller, command, data, out_bytes);
	case ADMIN_GET_FEATURES:
		return nvme_get_features(controller, command, data, out_bytes);
	case ADMIN_SET_FEATURES:
		return nvme_set_features(controller, command, data, in_bytes);
	case ADMIN_ASYNC_EVENT:
		return keep_for_event(controller, command);
	case ADMIN_FORMAT:
		return format(controller, command);
	case ADMIN_ABORT: /* it is as good as done already */
		return (struct nvme_reply){ .result = 1 };
	case ADMIN_KEEP_ALIVE:
		return (struct nvme_reply){ .status = STATUS_OK };
	default:
		return nvme_fail(STATUS_INVALID_OPCODE);
	}
}

struct nvme_reply nvme_admin(struct nvme_controller *controller, const uint8_t *command, uint8_t *data,
			     uint32_t in_bytes, uint32_t out_bytes)
{
	struct nvme_reply reply;

	if (!nvme_is_ready(controller))
		return nvme_fail(STATUS_SEQUENCE);
	reply = execute(controller, command, data, in_bytes, out_bytes);
	if (reply.status)
		nvme_note_error(controller, 0, command, reply.status);
	return reply;
}

void nvme_note_error(struct nvme_controller *controller, uint16_t queue, const uint8_t *command,
		     uint16_t status)
{
	struct nvme_error *error = &controller->errors[controller->error_count % NVME_ERROR_ENTRIES];

	*error = (struct nvme_error){ .number = ++controller->error_count, .queue = queue,
				      .command_id = get16(command + NVME_COMMAND_ID), .status = status,
				      .block = queue ? get64(command + NVME_CDW10) : 0,
				      .namespace = get32(command + NVME_NSID) };
}

bool nvme_take_event(struct nvme_controller *controller, double celsius, uint16_t *command_id, uint64_t *result)
{
	uint16_t kelvins = nvme_kelvins(celsius);
	bool is_out = kelvins >= controller->too_hot || kelvins <= controller->too_cold;

	if (!is_out || controller->heat_is_reported || controller->event_count == 0 ||
	    !(controller->events_wanted & WARNING_TEMPERATURE))
		return false;
	controller->heat_is_reported = true;
	*command_id = controller->events[--controller->event_count];
	*result = EVENT_HEALTH | EVENT_TEMPERATURE << 8 | LOG_HEALTH << 16;
	return true;
}
