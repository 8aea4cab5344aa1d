/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "nvme/target.h"

#include "clock.h"
#include "nvme/bytes.h"
#include "nvme/connect.h"
#include "nvme/queue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_MS 50
#define NS_PER_MS 1000000
#define MOST_CONNECTIONS 64
#define MOST_HOSTS 8
#define PROPERTY_ATTRIBUTES 40
#define PROPERTY_OFFSET 44
#define PROPERTY_VALUE 48
#define MAX_CONTROLLER_ID 0xffef

/* A controller and its queues: the association of a host. */
struct association {
	bool in_use;
	unsigned users; /* queues that have not ended */
	uint64_t cycle; /* the drive's, when it began */
	pthread_mutex_t lock; /* of the controller */
	struct nvme_controller controller;
	_Atomic int64_t heard_ns;
	struct nvme_queue *queues[NVME_MAX_QUEUES + 1]; /* under the target's lock */
};

struct nvme_target {
	const struct nvme_facts *facts;
	const struct nvme_drive *drive;
	int listener, stop_event;
	pthread_t thread;
	bool running;

	/* Taken before that of a controller. */
	pthread_mutex_t lock;
	pthread_cond_t queue_ended;
	struct association hosts[MOST_HOSTS];
	struct nvme_queue *connections[MOST_CONNECTIONS];
	unsigned connection_count;
	uint16_t next_id;
};

static bool parse_address(const char *text, struct sockaddr_in *address)
{
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN];
	char *end;
	unsigned long port;

	if (!colon || (size_t)(colon - text) >= sizeof host || colon[1] < '0' || colon[1] > '9')
		return false;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	port = strtoul(colon + 1, &end, 10);
	memset(address, 0, sizeof *address);
	address->sin_family = AF_INET;
	address->sin_port = htons((uint16_t)port);
	return *end == '\0' && port > 0 && port <= UINT16_MAX && inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

struct nvme_target *nvme_target_listen(const char *address, const struct nvme_facts *facts,
				       const struct nvme_drive *drive, char *error, size_t error_size)
{
	struct nvme_target *target = calloc(1, sizeof *target);
	struct sockaddr_in name;

	if (!parse_address(address, &name)) {
		snprintf(error, error_size, "nvme=%s: allowed is ADDRESS:PORT, like 127.0.0.1:4420", address);
		free(target);
		return NULL;
	}
	if (!target) {
		snprintf(error, error_size, "no memory for the NVMe target");
		return NULL;
	}
	target->facts = facts;
	target->drive = drive;
	target->next_id = 1;
	target->stop_event = -1;
	pthread_mutex_init(&target->lock, NULL);
	pthread_cond_init(&target->queue_ended, NULL);
	for (unsigned n = 0; n < MOST_HOSTS; n++)
		pthread_mutex_init(&target->hosts[n].lock, NULL);
	target->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The connections of a twin before this one may linger. */
	if (target->listener >= 0)
		setsockopt(target->listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (target->listener < 0 || bind(target->listener, (struct sockaddr *)&name, sizeof name) < 0 ||
	    listen(target->listener, MOST_CONNECTIONS) < 0) {
		snprintf(error, error_size, "nvme=%s: %s", address, strerror(errno));
		nvme_target_stop(target);
		return NULL;
	}
	return target;
}

/* With the target's lock held. */
static void end_association(struct association *host)
{
	for (unsigned n = 0; n <= NVME_MAX_QUEUES; n++)
		if (host->queues[n])
			nvme_queue_end(host->queues[n]);
}

/* With the target's lock held. NULL: none is free. */
static struct association *begin_association(struct nvme_target *target, const struct nvme_connect *connect,
					     uint64_t cycle)
{
	struct association *host = NULL;

	for (unsigned n = 0; n < MOST_HOSTS && !host; n++)
		if (!target->hosts[n].in_use)
			host = &target->hosts[n];
	if (!host)
		return NULL;
	host->in_use = true;
	host->users = 0;
	host->cycle = cycle;
	host->heard_ns = clock_monotonic_ns();
	nvme_controller_begin(&host->controller, target->facts, target->drive, target->next_id);
	host->controller.keep_alive_ms = connect->keep_alive_ms;
	memcpy(host->controller.host_id, connect->host_id, sizeof connect->host_id);
	memcpy(host->controller.host_name, connect->host_name, sizeof connect->host_name);
	target->next_id = target->next_id == MAX_CONTROLLER_ID ? 1 : (uint16_t)(target->next_id + 1);
	return host;
}

/* Whether another host has the drive. This one's own former controllers end. */
static bool is_taken(struct nvme_target *target, const struct nvme_connect *connect)
{
	for (unsigned n = 0; n < MOST_HOSTS; n++) {
		struct association *host = &target->hosts[n];

		if (!host->in_use || !host->queues[0])
			continue;
		if (strcmp(host->controller.host_name, connect->host_name) != 0)
			return true;
		end_association(host);
	}
	return false;
}

static struct association *find_host(struct nvme_target *target, uint16_t id)
{
	for (unsigned n = 0; n < MOST_HOSTS; n++)
		if (target->hosts[n].in_use && target->hosts[n].queues[0] &&
		    target->hosts[n].controller.id == id)
			return &target->hosts[n];
	return NULL;
}

/* With the target's lock held. */
static uint16_t join(struct nvme_target *target, struct nvme_queue *queue, const struct nvme_connect *connect,
		     uint64_t *result)
{
	struct association *host;
	uint64_t cycle;
	uint16_t status;

	if (!target->drive->is_ready(target->drive->owner, &cycle))
		return STATUS_CONNECT_BUSY;
	if (connect->queue == 0) {
		if (is_taken(target, connect))
			return STATUS_CONNECT_BUSY;
		host = begin_association(target, connect, cycle);
		if (!host)
			return STATUS_CONNECT_BUSY;
	} else {
		host = find_host(target, connect->controller);
		if (!host)
			return nvme_check_queue(NULL, connect, result);
		pthread_mutex_lock(&host->lock);
		status = nvme_check_queue(&host->controller, connect, result);
		pthread_mutex_unlock(&host->lock);
		if (status)
			return status;
		if (host->queues[connect->queue])
			return STATUS_SEQUENCE | NVME_DO_NOT_RETRY;
	}
	host->queues[connect->queue] = queue;
	host->users++;
	*result = host->controller.id;
	nvme_queue_set_context(queue, host);
	nvme_queue_connected(queue, connect->queue, connect->entries, connect->flow_is_off);
	return STATUS_OK;
}

static struct nvme_reply connect_queue(struct nvme_target *target, struct nvme_queue *queue,
				       const uint8_t *command, const uint8_t *data, uint32_t bytes)
{
	struct nvme_connect connect;
	struct nvme_reply reply = { .status = STATUS_OK };

	if (nvme_queue_context(queue))
		return nvme_fail(STATUS_SEQUENCE);
	reply.status = nvme_read_connect(target->facts, command, data, bytes, &connect, &reply.result);
	if (reply.status)
		return reply;
	pthread_mutex_lock(&target->lock);
	reply.status = join(target, queue, &connect, &reply.result);
	pthread_mutex_unlock(&target->lock);
	return reply;
}

static struct nvme_reply access_property(struct association *host, const uint8_t *command, bool set)
{
	struct nvme_controller *controller = &host->controller;
	bool is_long = command[PROPERTY_ATTRIBUTES] & 7;
	uint32_t offset = get32(command + PROPERTY_OFFSET);
	struct nvme_reply reply = { .status = STATUS_OK };
	bool done;

	pthread_mutex_lock(&host->lock);
	if (set)
		done = nvme_set_property(controller, offset, is_long, get64(command + PROPERTY_VALUE));
	else
		done = nvme_get_property(controller, offset, is_long, &reply.result);
	pthread_mutex_unlock(&host->lock);
	return done ? reply : nvme_fail(STATUS_INVALID_FIELD);
}

static struct nvme_reply execute_fabrics(struct nvme_target *target, struct nvme_queue *queue,
					 const uint8_t *command, const uint8_t *data, uint32_t bytes)
{
	struct association *host = nvme_queue_context(queue);

	switch (command[NVME_NSID]) {
	case FABRICS_CONNECT:
		return connect_queue(target, queue, command, data, bytes);
	case FABRICS_PROPERTY_GET:
	case FABRICS_PROPERTY_SET:
		if (!host || nvme_queue_number(queue) != 0)
			return nvme_fail(STATUS_SEQUENCE);
		return access_property(host, command, command[NVME_NSID] == FABRICS_PROPERTY_SET);
	default:
		return nvme_fail(STATUS_INVALID_OPCODE);
	}
}

static struct nvme_reply execute_admin(struct association *host, const uint8_t *command, uint8_t *data,
				       uint32_t in_bytes, uint32_t out_bytes)
{
	struct nvme_reply reply;

	pthread_mutex_lock(&host->lock);
	reply = nvme_admin(&host->controller, command, data, in_bytes, out_bytes);
	pthread_mutex_unlock(&host->lock);
	return reply;
}

static struct nvme_reply execute_io(struct nvme_target *target, struct association *host, uint16_t number,
				    const uint8_t *command, uint8_t *data, uint32_t in_bytes, uint32_t out_bytes)
{
	struct nvme_reply reply = { .bytes = out_bytes };

	reply.status = nvme_io(target->facts, target->drive, host->controller.write_cache, command, data,
			       in_bytes ? in_bytes : out_bytes);
	if (reply.status) {
		pthread_mutex_lock(&host->lock);
		nvme_note_error(&host->controller, number, command, reply.status);
		pthread_mutex_unlock(&host->lock);
	}
	return reply;
}

/* In another power cycle than the one that it connected in, a host has no controller. */
static bool has_power(const struct nvme_target *target, const struct association *host)
{
	uint64_t cycle;

	return target->drive->is_ready(target->drive->owner, &cycle) && cycle == host->cycle;
}

static struct nvme_reply execute(void *owner, struct nvme_queue *queue, const uint8_t *command, uint8_t *data,
				 uint32_t in_bytes, uint32_t out_bytes)
{
	struct nvme_target *target = owner;
	struct association *host = nvme_queue_context(queue);
	uint16_t number = nvme_queue_number(queue);
	struct nvme_reply reply;

	if (host && !has_power(target, host)) {
		nvme_queue_end(queue);
		return nvme_fail(STATUS_INTERNAL);
	}
	if (host && number == 0)
		host->heard_ns = clock_monotonic_ns();
	if (command[NVME_OPCODE] == ADMIN_FABRICS)
		return execute_fabrics(target, queue, command, data, in_bytes);
	if (!host)
		return nvme_fail(STATUS_SEQUENCE);
	if (number == 0)
		return execute_admin(host, command, data, in_bytes, out_bytes);
	reply = execute_io(target, host, number, command, data, in_bytes, out_bytes);
	if (reply.status && !has_power(target, host))
		nvme_queue_end(queue);
	return reply;
}

static void ended(void *owner, struct nvme_queue *queue)
{
	struct nvme_target *target = owner;
	struct association *host = nvme_queue_context(queue);
	uint16_t number = nvme_queue_number(queue);

	pthread_mutex_lock(&target->lock);
	if (host) {
		host->queues[number] = NULL;
		if (number == 0)
			end_association(host);
		if (--host->users == 0)
			host->in_use = false;
	}
	for (unsigned n = 0; n < target->connection_count; n++)
		if (target->connections[n] == queue)
			target->connections[n] = target->connections[--target->connection_count];
	pthread_cond_broadcast(&target->queue_ended);
	pthread_mutex_unlock(&target->lock);
}

static void accept_host(struct nvme_target *target)
{
	const struct nvme_queue_owner owner = { .owner = target, .execute = execute, .ended = ended };
	int connection = accept4(target->listener, NULL, NULL, SOCK_CLOEXEC);
	struct nvme_queue *queue;
	uint64_t cycle;

	if (connection < 0)
		return;
	pthread_mutex_lock(&target->lock);
	if (target->connection_count == MOST_CONNECTIONS ||
	    !target->drive->is_ready(target->drive->owner, &cycle)) {
		close(connection);
	} else {
		queue = nvme_queue_begin(connection, &owner);
		if (queue)
			target->connections[target->connection_count++] = queue;
	}
	pthread_mutex_unlock(&target->lock);
}

static bool is_silent(const struct association *host, int64_t now_ns)
{
	int64_t keep_alive_ns = (int64_t)host->controller.keep_alive_ms * NS_PER_MS;

	return keep_alive_ns && now_ns - host->heard_ns > keep_alive_ns;
}

static void report_event(const struct nvme_target *target, struct association *host)
{
	struct nvme_health health;
	uint16_t command_id;
	uint64_t result;
	bool is_due;

	pthread_mutex_lock(&host->lock);
	is_due = host->controller.event_count > 0;
	pthread_mutex_unlock(&host->lock);
	if (!is_due)
		return;
	target->drive->health(target->drive->owner, &health);
	pthread_mutex_lock(&host->lock);
	is_due = nvme_take_event(&host->controller, health.celsius, &command_id, &result);
	pthread_mutex_unlock(&host->lock);
	if (is_due)
		nvme_queue_complete(host->queues[0], command_id, result);
}

static void look_after_hosts(struct nvme_target *target)
{
	pthread_mutex_lock(&target->lock);
	for (unsigned n = 0; n < MOST_HOSTS; n++) {
		struct association *host = &target->hosts[n];

		if (!host->in_use || !host->queues[0])
			continue;
		if (!has_power(target, host) || is_silent(host, clock_monotonic_ns()))
			end_association(host);
		else
			report_event(target, host);
	}
	pthread_mutex_unlock(&target->lock);
}

static void *serve(void *argument)
{
	struct nvme_target *target = argument;
	struct pollfd files[2] = { { .fd = target->listener, .events = POLLIN },
				   { .fd = target->stop_event, .events = POLLIN } };

	while (!files[1].revents) {
		if (poll(files, 2, TICK_MS) > 0 && files[0].revents)
			accept_host(target);
		look_after_hosts(target);
	}
	return NULL;
}

int nvme_target_start(struct nvme_target *target)
{
	int failure;

	target->stop_event = eventfd(0, EFD_CLOEXEC);
	if (target->stop_event < 0)
		return errno;
	failure = pthread_create(&target->thread, NULL, serve, target);
	target->running = failure == 0;
	return failure;
}

void nvme_target_stop(struct nvme_target *target)
{
	if (!target)
		return;
	if (target->running) {
		eventfd_write(target->stop_event, 1);
		pthread_join(target->thread, NULL);
	}
	pthread_mutex_lock(&target->lock);
	for (unsigned n = 0; n < target->connection_count; n++)
		nvme_queue_end(target->connections[n]);
	while (target->connection_count)
		pthread_cond_wait(&target->queue_ended, &target->lock);
	pthread_mutex_unlock(&target->lock);
	if (target->listener >= 0)
		close(target->listener);
	if (target->stop_event >= 0)
		close(target->stop_event);
	for (unsigned n = 0; n < MOST_HOSTS; n++)
		pthread_mutex_destroy(&target->hosts[n].lock);
	pthread_mutex_destroy(&target->lock);
	pthread_cond_destroy(&target->queue_ended);
	free(target);
}
