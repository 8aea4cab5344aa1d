/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "nvme/connect.h"

#include "nvme/bytes.h"

#include <string.h>

#define FORMAT 40
#define QUEUE 42
#define ENTRIES 44
#define ATTRIBUTES 46
#define KEEP_ALIVE 48
#define FLOW_IS_OFF 0x4
#define DATA_CONTROLLER 16
#define DATA_SUBSYSTEM 256
#define DATA_HOST 512
#define IN_DATA (1u << 16)

static uint16_t invalid(uint64_t *result, uint32_t at)
{
	*result = at;
	return STATUS_CONNECT_INVALID | NVME_DO_NOT_RETRY;
}

static bool is_whole(const uint8_t *name)
{
	return memchr(name, 0, NVME_NAME_BYTES) != NULL && name[0] != 0;
}

uint16_t nvme_read_connect(const struct nvme_facts *facts, const uint8_t *command, const uint8_t *data,
			   uint32_t bytes, struct nvme_connect *connect, uint64_t *result)
{
	*result = 0;
	if (get16(command + FORMAT) != 0)
		return STATUS_CONNECT_FORMAT | NVME_DO_NOT_RETRY;
	if (bytes < NVME_CONNECT_BYTES)
		return STATUS_DATA_LENGTH | NVME_DO_NOT_RETRY;
	connect->queue = get16(command + QUEUE);
	connect->entries = get16(command + ENTRIES) + 1u;
	connect->flow_is_off = command[ATTRIBUTES] & FLOW_IS_OFF;
	connect->keep_alive_ms = get32(command + KEEP_ALIVE);
	connect->controller = get16(data + DATA_CONTROLLER);
	if (connect->entries < 2 || connect->entries > NVME_QUEUE_ENTRIES)
		return invalid(result, ENTRIES);
	if (!is_whole(data + DATA_SUBSYSTEM) || strcmp((const char *)data + DATA_SUBSYSTEM, facts->name) != 0)
		return invalid(result, IN_DATA | DATA_SUBSYSTEM);
	if (!is_whole(data + DATA_HOST))
		return invalid(result, IN_DATA | DATA_HOST);
	if (connect->queue == 0 && connect->controller != NVME_NEW_CONTROLLER)
		return invalid(result, IN_DATA | DATA_CONTROLLER);
	memcpy(connect->host_id, data, sizeof connect->host_id);
	memcpy(connect->host_name, data + DATA_HOST, sizeof connect->host_name);
	return STATUS_OK;
}

uint16_t nvme_check_queue(const struct nvme_controller *controller, const struct nvme_connect *connect,
			  uint64_t *result)
{
	if (!controller)
		return invalid(result, IN_DATA | DATA_CONTROLLER);
	if (memcmp(controller->host_id, connect->host_id, sizeof connect->host_id) != 0)
		return invalid(result, IN_DATA);
	if (strcmp(controller->host_name, connect->host_name) != 0)
		return invalid(result, IN_DATA | DATA_HOST);
	if (connect->queue > controller->queues + 1)
		return invalid(result, QUEUE);
	return nvme_is_ready(controller) ? STATUS_OK : STATUS_SEQUENCE | NVME_DO_NOT_RETRY;
}
