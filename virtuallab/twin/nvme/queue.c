/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "nvme/queue.h"

#include "nvme/bytes.h"
#include "nvme/pdu.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define PATIENCE_SECONDS 10 /* with a host that takes nothing */
/* As many of a queue's commands are in the drive's hands at once; others wait in the
 * socket. Linux' SATA queues have 32, QEMU's NVMe ones 64. */
#define MOST_THREADS 64
/* A host may send the next command before the thread that has answered one is done with it. */
#define COMMANDS (NVME_QUEUE_ENTRIES + MOST_THREADS)

enum direction { NO_DATA = 0, TO_CONTROLLER = 1, TO_HOST = 2, BOTH_WAYS = 3 };

struct command {
	uint8_t raw[NVME_COMMAND_BYTES];
	uint8_t *data;	      /* that came with it */
	uint32_t in_bytes;    /* that are to come, of which: */
	uint32_t got_bytes;
	uint32_t out_bytes;   /* for the host */
	uint16_t refusal;     /* a status: it is not executed */
	uint16_t head;	      /* of the queue, when it was taken */
	bool in_use, waits;   /* for data that it was asked for */
};

struct nvme_queue {
	int socket;
	struct nvme_queue_owner owner;
	_Atomic(void *) context;
	/* Of its Connect. */
	_Atomic uint16_t number;
	atomic_bool flow_is_off;
	atomic_uint entries;

	/* The reader's. */
	pthread_mutex_t read_lock;
	bool greeted;
	unsigned align;
	uint16_t head;
	uint8_t buffer[BUFFER_BYTES];
	size_t start, end;
	uint8_t raw[PDU_IC_BYTES]; /* the header of the PDU that is read */

	pthread_mutex_t write_lock;
	pthread_mutex_t commands_lock; /* of in_use */
	struct command commands[COMMANDS];

	atomic_bool is_over;
	atomic_uint threads, idle_threads;
};

static void *serve(void *argument);

/* Another thread for the queue. Where there can be none those that are there have to do. */
static int start_thread(struct nvme_queue *queue)
{
	pthread_t thread;
	pthread_attr_t detached;
	int failure;

	queue->threads++;
	queue->idle_threads++;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	failure = pthread_create(&thread, &detached, serve, queue);
	pthread_attr_destroy(&detached);
	if (failure) {
		queue->threads--;
		queue->idle_threads--;
	}
	return failure;
}

static void free_queue(struct nvme_queue *queue)
{
	for (unsigned n = 0; n < COMMANDS; n++)
		free(queue->commands[n].data);
	pthread_mutex_destroy(&queue->read_lock);
	pthread_mutex_destroy(&queue->write_lock);
	pthread_mutex_destroy(&queue->commands_lock);
	close(queue->socket);
	free(queue);
}

struct nvme_queue *nvme_queue_begin(int socket, const struct nvme_queue_owner *owner)
{
	struct nvme_queue *queue = calloc(1, sizeof *queue);
	int failure;

	if (!queue) {
		close(socket);
		return NULL;
	}
	queue->socket = socket;
	queue->owner = *owner;
	queue->align = 4;
	queue->entries = NVME_QUEUE_ENTRIES;
	pthread_mutex_init(&queue->read_lock, NULL);
	pthread_mutex_init(&queue->write_lock, NULL);
	pthread_mutex_init(&queue->commands_lock, NULL);
	setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_sec = PATIENCE_SECONDS },
		   sizeof(struct timeval));
	failure = start_thread(queue);
	if (failure) {
		free_queue(queue);
		errno = failure;
		return NULL;
	}
	return queue;
}

void nvme_queue_connected(struct nvme_queue *queue, uint16_t number, unsigned entries, bool flow_is_off)
{
	queue->number = number;
	queue->entries = entries;
	queue->flow_is_off = flow_is_off;
}

uint16_t nvme_queue_number(const struct nvme_queue *queue)
{
	return queue->number;
}

void nvme_queue_set_context(struct nvme_queue *queue, void *context)
{
	queue->context = context;
}

void *nvme_queue_context(const struct nvme_queue *queue)
{
	return queue->context;
}

void nvme_queue_end(struct nvme_queue *queue)
{
	queue->is_over = true;
	shutdown(queue->socket, SHUT_RDWR);
}

/* All of the parts, or the queue ends. */
static void send_all(struct nvme_queue *queue, struct iovec *parts, size_t count)
{
	pthread_mutex_lock(&queue->write_lock);
	while (count && !queue->is_over) {
		struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };
		ssize_t sent = sendmsg(queue->socket, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			nvme_queue_end(queue);
		while (sent > 0 && count && (size_t)sent >= parts->iov_len) {
			sent -= (ssize_t)parts->iov_len;
			parts++;
			count--;
		}
		if (sent > 0) {
			parts->iov_base = (uint8_t *)parts->iov_base + sent;
			parts->iov_len -= (size_t)sent;
		}
	}
	pthread_mutex_unlock(&queue->write_lock);
}

static void send_one(struct nvme_queue *queue, void *raw, unsigned bytes)
{
	send_all(queue, &(struct iovec){ .iov_base = raw, .iov_len = bytes }, 1);
}

static void put_completion(uint8_t *at, const struct nvme_queue *queue, uint16_t command_id, uint16_t head,
			   const struct nvme_reply *reply)
{
	memset(at, 0, NVME_COMPLETION_BYTES);
	put64(at, reply->result);
	put16(at + 8, queue->flow_is_off ? 0 : head);
	put16(at + 10, queue->number);
	put16(at + 12, command_id);
	put16(at + 14, (uint16_t)(reply->status << 1));
}

static void send_reply(struct nvme_queue *queue, uint16_t command_id, uint16_t head,
		       const struct nvme_reply *reply, uint8_t *data)
{
	uint8_t data_header[PDU_ROOM], response[PDU_ROOM], completion[NVME_COMPLETION_BYTES];
	struct iovec parts[3];
	size_t count = 0;
	/* The data alone say that the command has succeeded, where there is no more to say. */
	bool alone = reply->bytes && queue->flow_is_off && reply->result == 0;

	if (reply->bytes && reply->status == STATUS_OK) {
		parts[count++] = (struct iovec){ data_header, pdu_put_data(data_header, command_id, reply->bytes,
									   alone, queue->align) };
		parts[count++] = (struct iovec){ data, reply->bytes };
	}
	if (count == 0 || !alone) {
		put_completion(completion, queue, command_id, head, reply);
		parts[count++] = (struct iovec){ response, pdu_put_response(response, completion) };
	}
	send_all(queue, parts, count);
}

void nvme_queue_complete(struct nvme_queue *queue, uint16_t command_id, uint64_t result)
{
	send_reply(queue, command_id, 0, &(struct nvme_reply){ .result = result }, NULL);
}

/* What follows belongs to the reader, and fails when the connection is over. */

static bool read_exactly(struct nvme_queue *queue, void *to, size_t bytes)
{
	uint8_t *at = to;

	while (bytes) {
		size_t there = queue->end - queue->start;
		ssize_t got;

		if (there) {
			size_t taken = there < bytes ? there : bytes;

			memcpy(at, queue->buffer + queue->start, taken);
			queue->start += taken;
			at += taken;
			bytes -= taken;
			continue;
		}
		/* Much at once goes to where it belongs without a stop. */
		queue->start = queue->end = 0;
		if (bytes >= sizeof queue->buffer)
			got = recv(queue->socket, at, bytes, 0);
		else
			got = recv(queue->socket, queue->buffer, sizeof queue->buffer, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		if (bytes >= sizeof queue->buffer) {
			at += got;
			bytes -= (size_t)got;
		} else {
			queue->end = (size_t)got;
		}
	}
	return true;
}

static bool skip(struct nvme_queue *queue, uint32_t bytes)
{
	uint8_t nothing[256];

	while (bytes) {
		uint32_t next = bytes < sizeof nothing ? bytes : (uint32_t)sizeof nothing;

		if (!read_exactly(queue, nothing, next))
			return false;
		bytes -= next;
	}
	return true;
}

/* Says why, and ends. False, for the caller to return. */
static bool terminate(struct nvme_queue *queue, enum pdu_fatal why, uint32_t at, unsigned header_bytes)
{
	uint8_t raw[PDU_ROOM];

	send_one(queue, raw, pdu_put_terminate(raw, why, at, queue->raw, header_bytes));
	nvme_queue_end(queue);
	return false;
}

static bool greet(struct nvme_queue *queue)
{
	uint8_t response[PDU_IC_BYTES];
	uint32_t at;
	enum pdu_fatal why = pdu_greet(queue->raw, response, &queue->align, &at);

	if (why)
		return terminate(queue, why, at, PDU_HEADER_BYTES);
	queue->greeted = true;
	send_one(queue, response, sizeof response);
	return true;
}

/* The number of a free one; COMMANDS: there is none. */
static unsigned new_command(struct nvme_queue *queue)
{
	unsigned found = 0;

	pthread_mutex_lock(&queue->commands_lock);
	while (found < COMMANDS && queue->commands[found].in_use)
		found++;
	if (found < COMMANDS)
		queue->commands[found] = (struct command){ .in_use = true };
	pthread_mutex_unlock(&queue->commands_lock);
	return found;
}

static void forget_command(struct nvme_queue *queue, struct command *command)
{
	free(command->data);
	pthread_mutex_lock(&queue->commands_lock);
	command->data = NULL;
	command->in_use = command->waits = false;
	pthread_mutex_unlock(&queue->commands_lock);
}

static enum direction direction_of(const uint8_t *raw)
{
	uint8_t code = raw[NVME_OPCODE] == ADMIN_FABRICS ? raw[NVME_NSID] : raw[NVME_OPCODE];

	return (enum direction)(code & 3);
}

/* What the command's SGL says of its data: sizes, or a refusal. */
static void read_sgl(struct command *command, uint32_t capsule_bytes)
{
	const uint8_t *sgl = command->raw + NVME_SGL;
	uint32_t bytes = get32(sgl + 8);
	enum direction direction = direction_of(command->raw);

	command->in_bytes = capsule_bytes;
	if (direction == NO_DATA || bytes == 0) {
		command->refusal = capsule_bytes ? STATUS_DATA_LENGTH : STATUS_OK;
	} else if (direction == BOTH_WAYS) {
		command->refusal = STATUS_INVALID_OPCODE;
	} else if (direction == TO_CONTROLLER && sgl[15] == NVME_SGL_IN_CAPSULE) {
		if (get64(sgl) != 0 || bytes != capsule_bytes)
			command->refusal = STATUS_DATA_LENGTH;
	} else if (sgl[15] != NVME_SGL_TRANSPORT) {
		command->refusal = STATUS_SGL_TYPE;
	} else if (bytes > NVME_MAX_TRANSFER) {
		command->refusal = STATUS_INVALID_FIELD;
	} else if (capsule_bytes) {
		command->refusal = STATUS_DATA_LENGTH;
	} else if (direction == TO_HOST) {
		command->out_bytes = bytes;
	} else {
		command->in_bytes = bytes;
	}
	if (command->refusal)
		command->refusal |= NVME_DO_NOT_RETRY;
}

static bool ask_for_data(struct nvme_queue *queue, struct command *command)
{
	struct pdu_data wanted = { .command_id = get16(command->raw + NVME_COMMAND_ID),
				   .tag = (uint16_t)(command - queue->commands), .bytes = command->in_bytes };
	uint8_t raw[PDU_ROOM];

	command->waits = true;
	send_one(queue, raw, pdu_put_ready(raw, &wanted));
	return true;
}

/* A capsule. *taken: the command, where all of it is there. */
static bool read_capsule(struct nvme_queue *queue, uint32_t capsule_bytes, struct command **taken)
{
	unsigned number = new_command(queue);
	struct command *command = &queue->commands[number];

	if (number == COMMANDS) /* more than the queue has entries */
		return terminate(queue, FATAL_SEQUENCE, 0, PDU_COMMAND_BYTES);
	memcpy(command->raw, queue->raw + PDU_HEADER_BYTES, NVME_COMMAND_BYTES);
	queue->head = (uint16_t)((queue->head + 1u) % queue->entries);
	command->head = queue->head;
	read_sgl(command, capsule_bytes);
	if (command->in_bytes) {
		command->data = malloc(command->in_bytes);
		if (!command->data)
			return terminate(queue, FATAL_LIMIT, 0, PDU_COMMAND_BYTES);
	}
	if (command->in_bytes > capsule_bytes)
		return ask_for_data(queue, command);
	if (!read_exactly(queue, command->data, capsule_bytes))
		return false;
	*taken = command;
	return true;
}

static bool read_data(struct nvme_queue *queue, uint32_t bytes, bool is_last, struct command **taken)
{
	struct pdu_data data = pdu_read_data(queue->raw);
	struct command *command = data.tag < COMMANDS ? &queue->commands[data.tag] : NULL;

	if (!command || !command->waits)
		return terminate(queue, FATAL_HEADER, 10, PDU_DATA_BYTES);
	if (data.command_id != get16(command->raw + NVME_COMMAND_ID))
		return terminate(queue, FATAL_HEADER, 8, PDU_DATA_BYTES);
	if (data.bytes != bytes)
		return terminate(queue, FATAL_HEADER, 16, PDU_DATA_BYTES);
	/* In order, and no more than what was asked for. */
	if (data.offset != command->got_bytes || bytes > command->in_bytes - command->got_bytes)
		return terminate(queue, FATAL_OUT_OF_RANGE, 12, PDU_DATA_BYTES);
	if (is_last != (command->got_bytes + bytes == command->in_bytes))
		return terminate(queue, FATAL_HEADER, 1, PDU_DATA_BYTES);
	if (!read_exactly(queue, command->data + command->got_bytes, bytes))
		return false;
	command->got_bytes += bytes;
	if (command->got_bytes == command->in_bytes) {
		command->waits = false;
		*taken = command;
	}
	return true;
}

static bool read_pdu(struct nvme_queue *queue, struct command **taken)
{
	struct pdu_header header;
	enum pdu_fatal why;
	uint32_t at;

	if (!read_exactly(queue, queue->raw, PDU_HEADER_BYTES))
		return false;
	why = pdu_read_header(queue->raw, queue->greeted, &header, &at);
	if (why)
		return terminate(queue, why, at, PDU_HEADER_BYTES);
	if (!read_exactly(queue, queue->raw + PDU_HEADER_BYTES, header.header_bytes - PDU_HEADER_BYTES))
		return false;
	switch (header.type) {
	case PDU_IC_REQUEST:
		return greet(queue);
	case PDU_COMMAND:
		return read_capsule(queue, header.data_bytes, taken);
	case PDU_HOST_DATA:
		return read_data(queue, header.data_bytes, header.flags & PDU_LAST, taken);
	default: /* the host ends it */
		skip(queue, header.data_bytes);
		return false;
	}
}

/* The next command; NULL when the connection is over. */
static struct command *take_command(struct nvme_queue *queue)
{
	struct command *command = NULL;

	pthread_mutex_lock(&queue->read_lock);
	while (!command && !queue->is_over)
		if (!read_pdu(queue, &command))
			nvme_queue_end(queue);
	if (--queue->idle_threads == 0 && command && queue->threads < MOST_THREADS)
		start_thread(queue);
	pthread_mutex_unlock(&queue->read_lock);
	return command;
}

static void execute(struct nvme_queue *queue, struct command *command)
{
	struct nvme_reply reply = { .status = command->refusal };
	uint16_t command_id = get16(command->raw + NVME_COMMAND_ID);
	uint8_t *data = command->data;

	if (!command->refusal) {
		if (command->out_bytes)
			data = command->data = malloc(command->out_bytes);
		if (command->out_bytes && !data)
			reply = nvme_fail(STATUS_INTERNAL);
		else
			reply = queue->owner.execute(queue->owner.owner, queue, command->raw, data,
						     command->in_bytes, command->out_bytes);
	}
	if (!reply.waits && !queue->is_over)
		send_reply(queue, command_id, command->head, &reply, data);
	forget_command(queue, command);
}

static void *serve(void *argument)
{
	struct nvme_queue *queue = argument;
	struct command *command;

	while ((command = take_command(queue))) {
		execute(queue, command);
		queue->idle_threads++;
	}
	if (--queue->threads == 0) {
		queue->owner.ended(queue->owner.owner, queue);
		free_queue(queue);
	}
	return NULL;
}
