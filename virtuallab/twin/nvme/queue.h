/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One TCP connection of a host: a queue of a controller, or on its way to become one.
 *
 * Threads. One of the queue's threads reads at a time. Once it has a whole command it
 * leaves the reading to another, a new one where all are busy, executes the command
 * (which takes as long as the drive does) and sends the reply. So a command does not
 * change its thread, and as many are under way as the host has sent. The last thread
 * to leave gives the queue back to its owner.
 *
 * Whatever a host sends: what breaks the protocol ends its connection, what asks for
 * the impossible has an error as its answer.
 */
#ifndef JOULERIG_NVME_QUEUE_H
#define JOULERIG_NVME_QUEUE_H

#include "nvme/controller.h"

struct nvme_queue;

/* What a queue does with commands. */
struct nvme_queue_owner {
	void *owner; /* the first argument of each */
	/* Executes a command: `data` as in nvme_admin. May end the queue. */
	struct nvme_reply (*execute)(void *owner, struct nvme_queue *queue, const uint8_t *command,
				     uint8_t *data, uint32_t in_bytes, uint32_t out_bytes);
	/* The connection is over and nothing of it is under way; the queue is freed behind it. */
	void (*ended)(void *owner, struct nvme_queue *queue);
};

/* Begins to serve a connected socket, which is the queue's from then on, also where this
 * fails. NULL with errno. */
struct nvme_queue *nvme_queue_begin(int socket, const struct nvme_queue_owner *owner);

/* Of the queue's Connect: its number, how many commands may be under way, whether
 * completions leave out the queue's head. */
void nvme_queue_connected(struct nvme_queue *queue, uint16_t number, unsigned entries, bool flow_is_off);
uint16_t nvme_queue_number(const struct nvme_queue *queue);

/* The owner's, of this queue. */
void nvme_queue_set_context(struct nvme_queue *queue, void *context);
void *nvme_queue_context(const struct nvme_queue *queue);

/* Answers a command that waited for an event. */
void nvme_queue_complete(struct nvme_queue *queue, uint16_t command_id, uint64_t result);

/* Ends the connection; what is under way is not answered. */
void nvme_queue_end(struct nvme_queue *queue);

#endif
