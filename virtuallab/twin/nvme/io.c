/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The NVM command set: read, write, flush, deallocate, zeroes. */
#include "nvme/controller.h"

#include "nvme/bytes.h"

#define FORCE_UNIT_ACCESS (1u << 30)
#define DEALLOCATE_ZEROES (1u << 25)
#define DEALLOCATE (1u << 2)
#define RANGE_BYTES 16

struct extent {
	uint64_t offset, bytes;
};

static bool is_within(const struct nvme_facts *facts, uint64_t block, uint64_t blocks, struct extent *extent)
{
	uint64_t all = facts->bytes / NVME_BLOCK_BYTES;

	*extent = (struct extent){ block * NVME_BLOCK_BYTES, blocks * NVME_BLOCK_BYTES };
	return block <= all && blocks <= all - block;
}

static uint16_t deallocate(const struct nvme_facts *facts, const struct nvme_drive *drive,
			   const uint8_t *command, const uint8_t *ranges, uint32_t bytes)
{
	unsigned count = command[NVME_CDW10] + 1u;
	struct extent extent;

	if (bytes < count * RANGE_BYTES)
		return STATUS_DATA_LENGTH;
	for (unsigned n = 0; n < count; n++)
		if (!is_within(facts, get64(ranges + n * RANGE_BYTES + 8), get32(ranges + n * RANGE_BYTES + 4),
			       &extent))
			return STATUS_LBA_RANGE;
	if (!(get32(command + NVME_CDW11) & DEALLOCATE))
		return STATUS_OK; /* hints alone */
	for (unsigned n = 0; n < count; n++) {
		is_within(facts, get64(ranges + n * RANGE_BYTES + 8), get32(ranges + n * RANGE_BYTES + 4), &extent);
		if (extent.bytes && drive->discard(drive->owner, extent.bytes, extent.offset) < 0)
			return STATUS_WRITE_FAULT;
	}
	return STATUS_OK;
}

static uint16_t transfer(const struct nvme_facts *facts, const struct nvme_drive *drive, bool write_cache,
			 const uint8_t *command, uint8_t *data, uint32_t bytes)
{
	uint32_t cdw12 = get32(command + NVME_CDW12);
	bool fua = (cdw12 & FORCE_UNIT_ACCESS) || !write_cache;
	struct extent extent;

	if (!is_within(facts, get64(command + NVME_CDW10), (cdw12 & 0xffff) + 1, &extent))
		return STATUS_LBA_RANGE;
	if (command[NVME_OPCODE] == IO_WRITE_ZEROES)
		return drive->zero(drive->owner, (uint32_t)extent.bytes, extent.offset,
				   cdw12 & DEALLOCATE_ZEROES, fua) < 0 ? STATUS_WRITE_FAULT : STATUS_OK;
	if (extent.bytes != bytes)
		return extent.bytes > NVME_MAX_TRANSFER ? STATUS_INVALID_FIELD : STATUS_DATA_LENGTH;
	if (command[NVME_OPCODE] == IO_READ)
		return drive->read(drive->owner, data, bytes, extent.offset) < 0 ? STATUS_READ_ERROR : STATUS_OK;
	return drive->write(drive->owner, data, bytes, extent.offset, fua) < 0 ? STATUS_WRITE_FAULT : STATUS_OK;
}

static uint16_t execute(const struct nvme_facts *facts, const struct nvme_drive *drive, bool write_cache,
			const uint8_t *command, uint8_t *data, uint32_t bytes)
{
	uint32_t namespace = get32(command + NVME_NSID);
	uint8_t opcode = command[NVME_OPCODE];

	if (namespace != NVME_NAMESPACE && !(opcode == IO_FLUSH && namespace == NVME_ALL_NAMESPACES))
		return STATUS_INVALID_NAMESPACE;
	switch (opcode) {
	case IO_FLUSH:
		return drive->flush(drive->owner) < 0 ? STATUS_WRITE_FAULT : STATUS_OK;
	case IO_READ:
	case IO_WRITE:
	case IO_WRITE_ZEROES:
		return transfer(facts, drive, write_cache, command, data, bytes);
	case IO_DATASET_MANAGEMENT:
		return deallocate(facts, drive, command, data, bytes);
	default:
		return STATUS_INVALID_OPCODE;
	}
}

uint16_t nvme_io(const struct nvme_facts *facts, const struct nvme_drive *drive, bool write_cache,
		 const uint8_t *command, uint8_t *data, uint32_t bytes)
{
	uint16_t status = execute(facts, drive, write_cache, command, data, bytes);

	return status ? (uint16_t)(status | NVME_DO_NOT_RETRY) : STATUS_OK;
}
