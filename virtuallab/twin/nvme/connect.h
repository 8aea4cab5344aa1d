/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The Connect command of NVMe over Fabrics: what it asks for, and whether it can be so. Pure. */
#ifndef JOULERIG_NVME_CONNECT_H
#define JOULERIG_NVME_CONNECT_H

#include "nvme/controller.h"

#define NVME_CONNECT_BYTES 1024 /* of its data */
#define NVME_NEW_CONTROLLER 0xffff

struct nvme_connect {
	uint16_t queue;	      /* 0: the admin queue of a new controller */
	unsigned entries;     /* of the submission queue */
	bool flow_is_off;     /* no submission queue head in completions */
	uint32_t keep_alive_ms;
	uint8_t host_id[16];
	uint16_t controller;
	char host_name[NVME_NAME_BYTES];
};

/* STATUS_OK, or what is wrong with it and, in *result, where. */
uint16_t nvme_read_connect(const struct nvme_facts *facts, const uint8_t *command, const uint8_t *data,
			   uint32_t bytes, struct nvme_connect *connect, uint64_t *result);

/* For a queue of a controller that is there. */
uint16_t nvme_check_queue(const struct nvme_controller *controller, const struct nvme_connect *connect,
			  uint64_t *result);

#endif
