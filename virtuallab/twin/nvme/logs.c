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
#define POWER_BYTES (64 + 8 * SELF_REPORT_BINS)
#define BIN_MILLIWATTS 250
#define MS_PER_MINUTE 60000
#define OCP_LOG_VERSION 3
#define NO_CAPACITORS 0xffffu

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

/* Watts as NVMe has them: a number and its unit, 0.1 mW or 10 mW. */
static uint32_t power_of(double watts)
{
	if (watts * 1e4 < 65535.5)
		return 1u << 16 | (uint32_t)lround(watts * 1e4);
	return 2u << 16 | (uint32_t)fmin(round(watts * 100), 65535);
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
	put32(at + 192, (uint32_t)(health.warm_seconds / 60));
	put32(at + 196, (uint32_t)(health.hot_seconds / 60));
	put16(at + 200, kelvins); /* the only sensor */
	for (unsigned n = 0; n < THROTTLE_LEVELS; n++) {
		put32(at + 216 + 4 * n, (uint32_t)health.throttled.entered[n]);
		put32(at + 224 + 4 * n, (uint32_t)health.throttled.seconds[n]);
	}
	if (controller->facts->reports_power) {
		struct self_report report;

		controller->drive->self_report(controller->drive->owner, &report);
		put64(at + 232, self_report_watt_hours(&report));
		put32(at + 240, report.watts > 0 ? power_of(report.watts) : 0);
	}
}

/* Real times as the drive's timestamp has them. */
static void put_time(uint8_t *at, const struct nvme_controller *controller, uint64_t real_ms)
{
	if (real_ms == 0)
		return;
	put64(at, (real_ms + (uint64_t)controller->clock_ms) & 0xffffffffffffull);
	at[6] = controller->clock_is_set ? 1 << 1 : 0;
}

static void put_power(uint8_t *at, const struct nvme_controller *controller)
{
	const struct nvme_drive *drive = controller->drive;
	const struct self_report_measurement *found;
	struct self_report report;
	uint64_t now_ms = drive->real_ms(drive->owner);

	drive->self_report(drive->owner, &report);
	found = &report.measurement;
	at[1] = found->generation;
	put16(at + 2, (uint16_t)(found->is_running | found->has_gaps << 1 | 1 << 3 | (found->overflow > 0) << 4));
	put32(at + 4, POWER_BYTES);
	put32(at + 8, found->count);
	put16(at + 12, SELF_REPORT_BINS);
	if (found->is_running && found->stop_ms > now_ms)
		put16(at + 14, (uint16_t)((found->stop_ms - now_ms + MS_PER_MINUTE - 1) / MS_PER_MINUTE));
	put_time(at + 16, controller, found->stopped_ms);
	put16(at + 24, 8);
	put16(at + 26, BIN_MILLIWATTS);
	put16(at + 28, SELF_REPORT_BINS);
	put32(at + 32, found->overflow);
	if (found->count > 0) {
		put32(at + 40, power_of(found->watts_sum / found->count));
		put32(at + 44, power_of(found->most_watts));
		put_time(at + 48, controller, found->most_ms);
	}
	at[56] = (uint8_t)report.settings.error_percent;
	for (unsigned n = 0; n < SELF_REPORT_BINS; n++) {
		put32(at + 64 + 8 * n, found->bins[n]);
		put32(at + 68 + 8 * n, power_of(n * SELF_REPORT_BIN_WATTS));
	}
}

/* What of OCP's extended health log the twin has; the rest is 0. */
static void put_ocp_health(uint8_t *at, const struct nvme_controller *controller)
{
	static const uint8_t guid[16] = { 0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4,
					  0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5, 0xaf };
	struct nvme_health health;
	uint64_t throttled = 0;

	controller->drive->health(controller->drive->owner, &health);
	for (unsigned n = 0; n < THROTTLE_LEVELS; n++)
		throttled += health.throttled.entered[n];
	put64(at, health.nand_bytes_written);
	at[96] = (uint8_t)(throttled < 255 ? throttled : 255);
	at[97] = health.is_throttled;
	put16(at + 128, controller->facts->plp ? 100 : NO_CAPACITORS);
	if (controller->facts->plp)
		put64(at + 160, health.unsafe_shutdowns);
	put64(at + 224, (uint64_t)health.erases);
	put16(at + 494, OCP_LOG_VERSION);
	memcpy(at + 496, guid, sizeof guid);
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
	case LOG_POWER_MEASUREMENT:
		if (!controller->facts->reports_power)
			return nvme_fail(STATUS_INVALID_LOG);
		put_power(page, controller);
		size = POWER_BYTES;
		break;
	case LOG_OCP_HEALTH:
		if (!controller->facts->has_ocp_log)
			return nvme_fail(STATUS_INVALID_LOG);
		put_ocp_health(page, controller);
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
