/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The log pages: errors, health, firmware. */
#include "nvme/controller.h"

#include "nvme/bytes.h"

#include <math.h>
#include <string.h>

#define ENTRY_BYTES 64
#define HEALTH_BYTES 512
#define DATA_UNIT_BYTES 512000 /* a thousand blocks of 512 bytes */
#define SPARE_PERCENT 100
#define SPARE_THRESHOLD_PERCENT 10
#define KEEP_EVENT 0x80 /* of CDW10's second byte: the log is read without an acknowledgement */
#define TRANSPORT_TCP 3

static void put_errors(uint8_t *at, const struct nvme_controller *controller)
{
	uint64_t newest = controller->error_count;

	for (unsigned n = 0; n < NVME_ERROR_ENTRIES && n < newest; n++) {
		const struct nvme_error *error = &controller->errors[(newest - 1 - n) % NVME_ERROR_ENTRIES];
		uint8_t *entry = at + n * ENTRY_BYTES;

		put64(entry, error->number);
		put16(entry + 8, error->queue);
		put16(entry + 10, error->command_id);
		put16(entry + 12, (uint16_t)(error->status << 1));
		put16(entry + 14, 0xffff); /* no field to blame */
		put64(entry + 16, error->block);
		put32(entry + 24, error->namespace);
		entry[29] = TRANSPORT_TCP;
	}
}

static uint64_t units_of(uint64_t bytes)
{
	return (bytes + DATA_UNIT_BYTES - 1) / DATA_UNIT_BYTES;
}

static void put_health(uint8_t *at, const struct nvme_controller *controller)
{
	struct nvme_health health;
	uint16_t kelvins;

	controller->drive->health(controller->drive->owner, &health);
	kelvins = nvme_kelvins(health.celsius);
	at[0] = kelvins >= controller->too_hot || kelvins <= controller->too_cold ? 0x2 : 0;
	put16(at + 1, kelvins);
	at[3] = SPARE_PERCENT;
	at[4] = SPARE_THRESHOLD_PERCENT;
	at[5] = (uint8_t)fmin(ceil(health.percentage_used), 255);
	put64(at + 32, units_of(health.read_bytes));
	put64(at + 48, units_of(health.written_bytes));
	put64(at + 64, health.reads);
	put64(at + 80, health.writes);
	put64(at + 96, (uint64_t)(health.busy_seconds / 60));
	put64(at + 112, health.power_cycles);
	put64(at + 128, (uint64_t)(health.power_on_seconds / 3600));
	put64(at + 144, health.unsafe_shutdowns);
	put64(at + 160, health.media_errors);
	put64(at + 176, controller->error_count);
	put16(at + 200, kelvins); /* the only sensor */
}

struct nvme_reply nvme_get_log(struct nvme_controller *controller, const uint8_t *command, uint8_t *data,
			       uint32_t out_bytes)
{
	uint8_t page[NVME_ERROR_ENTRIES * ENTRY_BYTES] = { 0 };
	uint64_t wanted = ((uint64_t)get16(command + NVME_CDW11) << 16 | get16(command + NVME_CDW10 + 2)) * 4 + 4;
	uint64_t offset = (uint64_t)get32(command + NVME_CDW13) << 32 | get32(command + NVME_CDW12);
	uint32_t namespace = get32(command + NVME_NSID);
	size_t size = HEALTH_BYTES;

	if (wanted > out_bytes)
		return nvme_fail(STATUS_DATA_LENGTH);
	switch (command[NVME_CDW10]) {
	case LOG_ERRORS:
		put_errors(page, controller);
		size = sizeof page;
		break;
	case LOG_HEALTH:
		if (namespace != 0 && namespace != NVME_ALL_NAMESPACES)
			return nvme_fail(STATUS_INVALID_NAMESPACE);
		put_health(page, controller);
		if (!(command[NVME_CDW10 + 1] & KEEP_EVENT))
			controller->heat_is_reported = false;
		break;
	case LOG_FIRMWARE:
		page[0] = 1;
		put_text(page + 8, controller->facts->firmware, 8);
		break;
	default:
		return nvme_fail(STATUS_INVALID_LOG);
	}
	if (offset > size || offset % 4)
		return nvme_fail(STATUS_INVALID_FIELD);
	memset(data, 0, (size_t)wanted);
	memcpy(data, page + offset, wanted < size - offset ? (size_t)wanted : size - (size_t)offset);
	return (struct nvme_reply){ .bytes = (uint32_t)wanted };
}
