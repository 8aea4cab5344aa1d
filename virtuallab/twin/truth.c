/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "truth.h"

#include "clock.h"
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000
#define MAX_CLIENTS 32
#define MAX_LINE 65536
/* Room for the answer to the longest `history` line with all rails. */
#define OUT_SIZE (1 << 23)
#define STREAM_LINE_MAX (24 + POWER_MAX_RAILS * 2 * 24)
#define BATCH_NS 10000000
#define KEEP_HEALTH_NS (10LL * NS_PER_SECOND)
/* The clock's record: one offset a second for as long as the energy's. */
#define OFFSETS (POWER_HISTORY_SECONDS + 2)

struct client {
	int fd;
	char *in;
	size_t in_length;
	char *out;
	size_t out_start, out_end;
	bool streaming;
	int64_t windows_per_line;
	int64_t next_line;
};

/* CLOCK_REALTIME minus CLOCK_MONOTONIC changes when the clock is set or slewed;
 * a real time of ten minutes ago means the offset of ten minutes ago. */
struct clock_offset {
	int64_t monotonic_ns;
	int64_t offset_ns;
};

struct truth {
	int listener;
	int stop_event;
	char path[sizeof ((struct sockaddr_un *)0)->sun_path];
	dev_t socket_device;
	ino_t socket_inode;
	pthread_t thread;
	bool running;
	struct drive *drive;
	struct client clients[MAX_CLIENTS];
	unsigned client_count;
	struct clock_offset offsets[OFFSETS];
	unsigned offset_count;
	unsigned offset_next;
	int64_t keep_health_ns; /* the next time */
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* Both clocks at one instant: the narrowest of a few brackets. */
static struct clock_offset read_offset(void)
{
	struct clock_offset best = { 0, 0 };
	int64_t best_width = INT64_MAX;

	for (int attempt = 0; attempt < 5 && best_width > 1000; attempt++) {
		int64_t before = clock_ns(CLOCK_MONOTONIC);
		int64_t real = clock_ns(CLOCK_REALTIME);
		int64_t after = clock_ns(CLOCK_MONOTONIC);

		if (after - before < best_width) {
			best_width = after - before;
			best.monotonic_ns = before + best_width / 2;
			best.offset_ns = real - best.monotonic_ns;
		}
	}
	return best;
}

static void note_offset(struct truth *truth)
{
	struct clock_offset now = read_offset();

	if (truth->offset_count) {
		const struct clock_offset *last =
			&truth->offsets[(truth->offset_next + OFFSETS - 1) % OFFSETS];

		if (now.monotonic_ns - last->monotonic_ns < NS_PER_SECOND)
			return;
	}
	truth->offsets[truth->offset_next] = now;
	truth->offset_next = (truth->offset_next + 1) % OFFSETS;
	if (truth->offset_count < OFFSETS)
		truth->offset_count++;
}

static int64_t real_to_monotonic(const struct truth *truth, int64_t real_ns)
{
	int64_t offset_ns = read_offset().offset_ns;

	/* From the newest back: the first whose instant is not after the time
	 * asked for. Times after the newest note use the offset of this moment
	 * only when they really are newer. */
	for (unsigned back = 1; back <= truth->offset_count; back++) {
		const struct clock_offset *noted =
			&truth->offsets[(truth->offset_next + OFFSETS - back) % OFFSETS];

		if (back == 1 && real_ns - offset_ns >= noted->monotonic_ns)
			return real_ns - offset_ns;
		offset_ns = noted->offset_ns;
		if (real_ns - offset_ns >= noted->monotonic_ns)
			break;
	}
	return real_ns - offset_ns;
}

static void client_printf(struct client *client, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void client_printf(struct client *client, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(client->out + client->out_end, OUT_SIZE - client->out_end, format,
			   arguments);
	va_end(arguments);
	if (length > 0)
		client->out_end += (size_t)length;
	if (client->out_end >= OUT_SIZE)
		client->out_end = OUT_SIZE - 1;
}

static void print_cut(struct client *client, const struct cut_report *report)
{
	client_printf(client,
		      "{\"cut_ns\":%" PRId64 ",\"dirty_bytes\":%" PRIu64 ",\"lost_bytes\":%" PRIu64
		      ",\"lost_sectors\":%" PRIu64 ",\"held_up\":%s,\"seed\":%" PRIu64
		      ",\"mode\":\"%s\",\"failure\":\"%s\"}",
		      report->cut_ns, report->cache.dirty_bytes, report->cache.lost_bytes,
		      report->cache.lost_sectors, report->held_up ? "true" : "false", report->seed,
		      cache_loss_name(report->loss), report->failure ? strerror(report->failure) : "");
}

static void answer_state(struct truth *truth, struct client *client)
{
	struct drive *drive = truth->drive;
	uint64_t counters[COUNTERS];
	struct {
		double volts, amps, joules, causes[POWER_CAUSES];
	} rails[POWER_MAX_RAILS];
	struct clock_offset clock;
	struct cut_state cut;
	struct health health;
	double celsius;
	unsigned rail_count = power_rail_count(drive->power);
	int64_t settled_ns, busy_ns, device_bound_ns;
	struct pace pace;
	struct flash_wear wear;
	bool has_flash;

	device_catch_up(drive);
	device_health(drive, &health, &celsius);
	cut_state(drive->cut, &cut);
	pthread_mutex_lock(&drive->lock);
	device_settle(drive, clock_monotonic_ns());
	has_flash = timing_wear(drive->timing, power_settled_ns(drive->power), &wear);
	settled_ns = power_settled_ns(drive->power);
	counters_now(drive->counters, counters);
	pace = drive->pace;
	busy_ns = pace_busy_ns(&pace, settled_ns);
	device_bound_ns = pace_device_bound_ns(&pace, settled_ns);
	for (unsigned r = 0; r < rail_count; r++) {
		power_now(drive->power, r, &rails[r].volts, &rails[r].amps);
		rails[r].joules = power_joules(drive->power, r);
		for (enum power_cause c = 0; c < POWER_CAUSES; c++)
			rails[r].causes[c] = power_cause_joules(drive->power, r, c);
	}
	pthread_mutex_unlock(&drive->lock);
	clock = read_offset();

	client_printf(client,
		      "{\"realtime_ns\":%" PRId64 ",\"monotonic_ns\":%" PRId64
		      ",\"serial\":\"%s\",\"window_ns\":%" PRId64
		      ",\"powered\":%s,\"ready\":%s,\"power_cycles\":%" PRIu64
		      ",\"unsafe_shutdowns\":%" PRIu64 ",\"rails\":[",
		      settled_ns + clock.offset_ns, settled_ns, drive->serial,
		      power_window_ns(drive->power), cut.powered ? "true" : "false",
		      cut.ready ? "true" : "false",
		      health.power_cycles, health.unsafe_shutdowns);
	for (unsigned r = 0; r < rail_count; r++) {
		client_printf(client,
			      "%s{\"name\":\"%s\",\"on\":%s,\"volts\":%.9g,\"amps\":%.9g,\"joules\":%.12f"
			      ",\"cause_joules\":{",
			      r ? "," : "", power_rail_name(drive->power, r),
			      cut.rail_on[r] ? "true" : "false", rails[r].volts, rails[r].amps,
			      rails[r].joules);
		for (enum power_cause c = 0; c < POWER_CAUSES; c++)
			client_printf(client, "%s\"%s\":%.12f", c ? "," : "", power_cause_name(c),
				      rails[r].causes[c]);
		client_printf(client, "}}");
	}
	client_printf(client, "],\"counters\":{");
	for (enum counter c = 0; c < COUNTERS; c++)
		client_printf(client, "%s\"%s\":%" PRIu64, c ? "," : "", counter_name(c), counters[c]);
	client_printf(client,
		      "},\"time\":{\"busy_ns\":%" PRId64 ",\"device_bound_ns\":%" PRId64
		      ",\"operations\":%" PRIu64 ",\"late_operations\":%" PRIu64
		      ",\"late_ns_total\":%" PRId64 ",\"late_ns_max\":%" PRId64,
		      busy_ns, device_bound_ns, pace.operations, pace.late_operations,
		      pace.late_ns_total, pace.late_ns_max);
	client_printf(client,
		      "},\"cache\":{\"capacity_bytes\":%" PRIu64 ",\"dirty_bytes\":%" PRIu64
		      "},\"last_cut\":",
		      cut.capacity_bytes, cut.dirty_bytes);
	if (cut.cuts)
		print_cut(client, &cut.last);
	else
		client_printf(client, "null");
	client_printf(client,
		      ",\"health\":{\"host_bytes_written\":%" PRIu64 ",\"nand_bytes_written\":%" PRIu64
		      ",\"power_cycles\":%" PRIu64 ",\"unsafe_shutdowns\":%" PRIu64
		      ",\"power_on_seconds\":%.3f,\"temperature_celsius\":%.3f",
		      health.host_bytes_written, health.nand_bytes_written, health.power_cycles,
		      health.unsafe_shutdowns, health.power_on_seconds, celsius);
	if (has_flash)
		client_printf(client, ",\"erase_count_mean\":%.6g,\"erase_count_max\":%" PRIu32
				      ",\"slc_bytes\":%" PRIu64 ",\"mapped_bytes\":%" PRIu64,
			      (double)health.nand_bytes_written / (double)wear.capacity_bytes,
			      wear.ftl.erases_max, wear.slc_bytes, wear.ftl.valid_pages * FTL_PAGE_BYTES);
	client_printf(client, "}}\n");
}

static void answer_latency(struct truth *truth, struct client *client)
{
	struct pace pace;

	pthread_mutex_lock(&truth->drive->lock);
	pace = truth->drive->pace;
	pthread_mutex_unlock(&truth->drive->lock);
	for (enum pace_kind kind = 0; kind < PACE_KINDS; kind++) {
		client_printf(client,
			      "%s\"%s\":{\"model_ns_total\":%" PRId64 ",\"served_ns_total\":%" PRId64,
			      kind ? "," : "{", pace_kind_name(kind), pace.model_ns_total[kind],
			      pace.served_ns_total[kind]);
		client_printf(client, ",\"edges_ns\":[");
		for (unsigned bin = 0; bin < PACE_BINS; bin++)
			client_printf(client, "%s%" PRId64, bin ? "," : "", pace_edge_ns(bin));
		client_printf(client, "],\"model_counts\":[");
		for (unsigned bin = 0; bin < PACE_BINS; bin++)
			client_printf(client, "%s%" PRIu64, bin ? "," : "", pace.model_counts[kind][bin]);
		client_printf(client, "],\"served_counts\":[");
		for (unsigned bin = 0; bin < PACE_BINS; bin++)
			client_printf(client, "%s%" PRIu64, bin ? "," : "", pace.served_counts[kind][bin]);
		client_printf(client, "]}");
	}
	client_printf(client, "}\n");
}

static bool parse_ns(const char **text, int64_t *value)
{
	char *end;
	long long parsed;

	*text += strspn(*text, " ");
	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	parsed = strtoll(*text, &end, 10);
	if (errno || (*end != ' ' && *end != '\0'))
		return false;
	*text = end;
	*value = parsed;
	return true;
}

/* A time or a count has at most 20 characters, a joule figure 29: the answer must fit. */
#define MAX_TIMES 4096
_Static_assert(MAX_TIMES * (21 + POWER_MAX_RAILS * (1 + POWER_CAUSES) * 30 + COUNTERS * 21) + 4096 <
		       OUT_SIZE, "answer fits");

static void answer_history(struct truth *truth, struct client *client, const char *arguments)
{
	static int64_t times[MAX_TIMES];
	static double joules[MAX_TIMES][POWER_MAX_RAILS];
	static double causes[MAX_TIMES][POWER_MAX_RAILS][POWER_CAUSES];
	static uint64_t counters[MAX_TIMES][COUNTERS];
	struct drive *drive = truth->drive;
	struct power *power = drive->power;
	unsigned count = 0;
	int64_t oldest_ns, newest_ns, offset_ns;
	bool held = true;

	while (arguments[strspn(arguments, " ")] != '\0') {
		if (count == MAX_TIMES) {
			client_printf(client, "{\"error\":\"history: more than %d times\"}\n", MAX_TIMES);
			return;
		}
		if (!parse_ns(&arguments, &times[count])) {
			client_printf(client, "{\"error\":\"history: times are nanoseconds, decimal\"}\n");
			return;
		}
		count++;
	}
	if (count == 0) {
		client_printf(client, "{\"error\":\"history: no time given\"}\n");
		return;
	}
	for (unsigned n = 0; n < count && held; n++) {
		int64_t time_ns = real_to_monotonic(truth, times[n]);

		/* A look-up at a time, so that operations wait for one at most. */
		pthread_mutex_lock(&drive->lock);
		if (n == 0)
			device_settle(drive, clock_monotonic_ns());
		held = power_history(power, time_ns, joules[n]) &&
		       power_cause_history(power, time_ns, causes[n]) &&
		       counters_at(drive->counters, time_ns, counters[n]);
		pthread_mutex_unlock(&drive->lock);
	}
	if (!held) {
		pthread_mutex_lock(&drive->lock);
		power_history_range(power, &oldest_ns, &newest_ns);
		if (oldest_ns < counters_oldest_ns(drive->counters))
			oldest_ns = counters_oldest_ns(drive->counters);
		pthread_mutex_unlock(&drive->lock);
		offset_ns = read_offset().offset_ns;
		client_printf(client,
			      "{\"error\":\"history: held are %" PRId64 " to %" PRId64 "\"}\n",
			      oldest_ns + offset_ns, newest_ns + offset_ns);
		return;
	}
	client_printf(client, "{\"times_ns\":[");
	for (unsigned n = 0; n < count; n++)
		client_printf(client, "%s%" PRId64, n ? "," : "", times[n]);
	client_printf(client, "],\"rails\":[");
	for (unsigned r = 0; r < power_rail_count(power); r++) {
		client_printf(client, "%s{\"name\":\"%s\",\"joules\":[", r ? "," : "",
			      power_rail_name(power, r));
		for (unsigned n = 0; n < count; n++)
			client_printf(client, "%s%.12f", n ? "," : "", joules[n][r]);
		client_printf(client, "],\"cause_joules\":{");
		for (enum power_cause c = 0; c < POWER_CAUSES; c++) {
			client_printf(client, "%s\"%s\":[", c ? "," : "", power_cause_name(c));
			for (unsigned n = 0; n < count; n++)
				client_printf(client, "%s%.12f", n ? "," : "", causes[n][r][c]);
			client_printf(client, "]");
		}
		client_printf(client, "}}");
	}
	client_printf(client, "],\"counters\":{");
	for (enum counter c = 0; c < COUNTERS; c++) {
		client_printf(client, "%s\"%s\":[", c ? "," : "", counter_name(c));
		for (unsigned n = 0; n < count; n++)
			client_printf(client, "%s%" PRIu64, n ? "," : "", counters[n][c]);
		client_printf(client, "]");
	}
	client_printf(client, "}}\n");
}

static void begin_stream(struct truth *truth, struct client *client, const char *arguments)
{
	struct power *power = truth->drive->power;
	int64_t window_ns, own_ns = power_window_ns(power);
	int64_t longest_ns = power_mean_max_windows(power) * own_ns;
	int64_t now, first, end;

	if (!parse_ns(&arguments, &window_ns) || arguments[strspn(arguments, " ")] != '\0' ||
	    window_ns <= 0 || window_ns % own_ns != 0 || window_ns > longest_ns) {
		client_printf(client,
			      "{\"error\":\"stream: the window is a multiple of %" PRId64
			      " ns, at most %" PRId64 " ns\"}\n",
			      own_ns, longest_ns);
		return;
	}
	pthread_mutex_lock(&truth->drive->lock);
	now = clock_monotonic_ns();
	device_settle(truth->drive, now);
	power_windows(power, &first, &end);
	pthread_mutex_unlock(&truth->drive->lock);
	client->streaming = true;
	client->windows_per_line = window_ns / own_ns;
	/* The window that is running now, or the next if the twin began in it. */
	client->next_line = now / window_ns;
	if (client->next_line * client->windows_per_line < first)
		client->next_line++;
}

static void answer_power_off(struct truth *truth, struct client *client, const char *arguments)
{
	struct cut_report report;
	enum cache_loss loss;
	uint64_t seed;
	char *end;
	bool given = *arguments != '\0', was_on;

	errno = 0;
	seed = strtoull(arguments, &end, 10);
	if (given && (*arguments < '0' || *arguments > '9' || errno || *end != ' ' ||
		      !cache_loss_named(end + 1, &loss))) {
		client_printf(client, "{\"error\":\"power off: allowed are nothing, or SEED and one of none, all, "
				      "random, torn, reordered\"}\n");
		return;
	}
	was_on = cut_power_off(truth->drive->cut, given ? &seed : NULL, given ? &loss : NULL, &report);
	if (!was_on) {
		client_printf(client, "{\"error\":\"power off: the drive has no power\"}\n");
		return;
	}
	print_cut(client, &report);
	client_printf(client, "\n");
}

static void answer_power_on(struct truth *truth, struct client *client)
{
	if (cut_power_on(truth->drive->cut))
		client_printf(client, "{\"on_ns\":%" PRId64 "}\n", clock_monotonic_ns());
	else
		client_printf(client, "{\"error\":\"power on: all rails are on\"}\n");
}

static void answer_rail(struct truth *truth, struct client *client, const char *arguments)
{
	const struct power *power = truth->drive->power;
	const char *space = strchr(arguments, ' ');
	size_t length = space ? (size_t)(space - arguments) : strlen(arguments);
	bool on = space && strcmp(space, " on") == 0;
	struct cut_state cut;

	for (unsigned r = 0; r < power_rail_count(power); r++) {
		const char *name = power_rail_name(power, r);

		if (strlen(name) != length || strncmp(arguments, name, length) != 0)
			continue;
		if (!on && space && strcmp(space, " off") != 0)
			break;
		if (space)
			cut_rail(truth->drive->cut, r, on);
		cut_state(truth->drive->cut, &cut);
		client_printf(client, "{\"rail\":\"%s\",\"on\":%s,\"switched_ns\":%" PRId64 "}\n", name,
			      cut.rail_on[r] ? "true" : "false", cut.switched_ns[r]);
		return;
	}
	client_printf(client, "{\"error\":\"rail: allowed are NAME, NAME off, NAME on, with NAME");
	for (unsigned r = 0; r < power_rail_count(power); r++)
		client_printf(client, "%s %s", r ? "," : "", power_rail_name(power, r));
	client_printf(client, "\"}\n");
}

static void answer(struct truth *truth, struct client *client, const char *line)
{
	if (strcmp(line, "state") == 0)
		answer_state(truth, client);
	else if (strcmp(line, "latency") == 0)
		answer_latency(truth, client);
	else if (strncmp(line, "history ", 8) == 0)
		answer_history(truth, client, line + 8);
	else if (strncmp(line, "stream ", 7) == 0)
		begin_stream(truth, client, line + 7);
	else if (strcmp(line, "power off") == 0)
		answer_power_off(truth, client, "");
	else if (strncmp(line, "power off ", 10) == 0)
		answer_power_off(truth, client, line + 10);
	else if (strcmp(line, "power on") == 0)
		answer_power_on(truth, client);
	else if (strncmp(line, "rail ", 5) == 0)
		answer_rail(truth, client, line + 5);
	else
		client_printf(client, "{\"error\":\"allowed are: state, latency, history T1 T2 ..., stream W, "
				      "power off [SEED MODE], power on, rail NAME [off|on]\"}\n");
}

/* Appends what is due to a stream as long as it fits. False when a window that
 * the reader has not had is no longer held: then it must be cut off, for a gap
 * would look like a stream without one. */
static bool fill_stream(struct truth *truth, struct client *client)
{
	struct power *power = truth->drive->power;
	unsigned rail_count = power_rail_count(power);
	int64_t first, end;
	bool held = true;

	pthread_mutex_lock(&truth->drive->lock);
	power_windows(power, &first, &end);
	while ((client->next_line + 1) * client->windows_per_line <= end &&
	       client->out_end + STREAM_LINE_MAX < OUT_SIZE) {
		if (client->next_line * client->windows_per_line < first) {
			held = false;
			break;
		}
		client_printf(client, "%" PRId64, client->next_line);
		for (unsigned r = 0; r < rail_count; r++) {
			double volts, amps;

			power_mean(power, client->next_line * client->windows_per_line,
				   client->windows_per_line, r, &volts, &amps);
			client_printf(client, " %.9g %.9g", volts, amps);
		}
		client_printf(client, "\n");
		client->next_line++;
	}
	pthread_mutex_unlock(&truth->drive->lock);
	return held;
}

static bool flush_out(struct client *client)
{
	while (client->out_start < client->out_end) {
		ssize_t sent = send(client->fd, client->out + client->out_start,
				    client->out_end - client->out_start, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		client->out_start += (size_t)sent;
	}
	client->out_start = client->out_end = 0;
	return true;
}

static void close_client(struct truth *truth, unsigned index)
{
	struct client *client = &truth->clients[index];

	close(client->fd);
	free(client->in);
	free(client->out);
	*client = truth->clients[--truth->client_count];
}

static void accept_client(struct truth *truth)
{
	struct client client = { .fd = accept4(truth->listener, NULL, NULL,
					       SOCK_NONBLOCK | SOCK_CLOEXEC) };

	if (client.fd < 0)
		return;
	client.in = malloc(MAX_LINE);
	client.out = malloc(OUT_SIZE);
	if (!client.in || !client.out || truth->client_count == MAX_CLIENTS) {
		free(client.in);
		free(client.out);
		close(client.fd);
		return;
	}
	truth->clients[truth->client_count++] = client;
}

/* Answers the complete lines in the buffer, one at a time: the next only when
 * the answer before it has left, so that answers are bounded. */
static bool serve_lines(struct truth *truth, struct client *client)
{
	char *newline;

	while (!client->streaming && client->out_end == 0 &&
	       (newline = memchr(client->in, '\n', client->in_length))) {
		size_t used = (size_t)(newline - client->in) + 1;

		*newline = '\0';
		if (newline > client->in && newline[-1] == '\r')
			newline[-1] = '\0';
		answer(truth, client, client->in);
		client->in_length -= used;
		memmove(client->in, client->in + used, client->in_length);
		if (!flush_out(client))
			return false;
	}
	if (client->streaming)
		client->in_length = 0;
	return true;
}

static bool read_client(struct truth *truth, struct client *client)
{
	ssize_t got = recv(client->fd, client->in + client->in_length,
			   MAX_LINE - client->in_length, 0);

	if (got == 0)
		return false;
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
	client->in_length += (size_t)got;
	if (!serve_lines(truth, client))
		return false;
	/* A line that is longer than any request. */
	return client->in_length < MAX_LINE || client->out_end > 0;
}

/* For a twin that is killed. */
static void keep_health(struct truth *truth)
{
	int64_t now_ns = clock_monotonic_ns();
	struct health health;
	double celsius;

	if (now_ns < truth->keep_health_ns)
		return;
	truth->keep_health_ns = now_ns + KEEP_HEALTH_NS;
	device_health(truth->drive, &health, &celsius);
	health_save(&health, truth->drive->health_path, true);
}

static void *serve(void *argument)
{
	struct truth *truth = argument;
	int64_t next_batch_ns = 0;
	bool works = false; /* the drive has work of its own to do */

	for (;;) {
		struct pollfd polled[2 + MAX_CLIENTS] = {
			{ .fd = truth->stop_event, .events = POLLIN },
			{ .fd = truth->listener, .events = POLLIN },
		};
		unsigned polled_clients = truth->client_count;
		int64_t now = clock_monotonic_ns();
		int64_t due_ns = cut_tick(truth->drive->cut);
		int64_t wait_ns = works && due_ns > now + BATCH_NS ? BATCH_NS : due_ns - now;
		struct timespec timeout;

		for (unsigned n = 0; n < polled_clients; n++) {
			const struct client *client = &truth->clients[n];

			polled[2 + n].fd = client->fd;
			polled[2 + n].events = (short)((client->out_end > 0 ? POLLOUT : 0) |
						       (client->in_length < MAX_LINE ? POLLIN : 0));
			if (client->streaming && next_batch_ns - now < wait_ns)
				wait_ns = next_batch_ns - now;
		}
		if (wait_ns < 0)
			wait_ns = 0;
		timeout.tv_sec = wait_ns / NS_PER_SECOND;
		timeout.tv_nsec = wait_ns % NS_PER_SECOND;
		if (ppoll(polled, 2 + polled_clients, &timeout, NULL) < 0 && errno != EINTR)
			break;
		if (polled[0].revents)
			break;

		/* Also without readers: the longer nobody settles, the longer the
		 * next one would hold the lock that operations wait for. */
		device_catch_up(truth->drive);
		pthread_mutex_lock(&truth->drive->lock);
		works = timing_next_ns(truth->drive->timing) != INT64_MAX ||
			timing_work_ns(truth->drive->timing) != INT64_MAX;
		pthread_mutex_unlock(&truth->drive->lock);
		keep_health(truth);
		note_offset(truth);

		for (unsigned n = polled_clients; n-- > 0;) {
			struct client *client = &truth->clients[n];
			bool alive = true;

			if (polled[2 + n].revents & POLLIN)
				alive = read_client(truth, client);
			else if (polled[2 + n].revents & (POLLERR | POLLHUP | POLLNVAL))
				alive = false;
			if (alive && polled[2 + n].revents & POLLOUT)
				alive = flush_out(client) && serve_lines(truth, client);
			if (!alive)
				close_client(truth, n);
		}
		if (polled[1].revents)
			accept_client(truth);

		now = clock_monotonic_ns();
		if (now < next_batch_ns)
			continue;
		next_batch_ns = now + BATCH_NS;
		for (unsigned n = truth->client_count; n-- > 0;) {
			struct client *client = &truth->clients[n];

			if (!client->streaming)
				continue;
			if (client->out_start > 0) {
				memmove(client->out, client->out + client->out_start,
					client->out_end - client->out_start);
				client->out_end -= client->out_start;
				client->out_start = 0;
			}
			if (!fill_stream(truth, client) || !flush_out(client))
				close_client(truth, n);
		}
	}
	while (truth->client_count)
		close_client(truth, 0);
	return NULL;
}

static bool path_in_use(const struct sockaddr_un *address)
{
	int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool used = probe >= 0 &&
		    connect(probe, (const struct sockaddr *)address, sizeof *address) == 0;

	if (probe >= 0)
		close(probe);
	return used;
}

struct truth *truth_listen(const char *path, char *error, size_t error_size)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct truth *truth;
	struct stat existing;

	if (strlen(path) >= sizeof address.sun_path) {
		snprintf(error, error_size, "control=%s: %zu characters: allowed are at most %zu", path,
			 strlen(path), sizeof address.sun_path - 1);
		return NULL;
	}
	strcpy(address.sun_path, path);
	if (lstat(path, &existing) == 0) {
		if (!S_ISSOCK(existing.st_mode)) {
			snprintf(error, error_size, "control=%s: exists and is not a socket", path);
			return NULL;
		}
		if (path_in_use(&address)) {
			snprintf(error, error_size, "control=%s: another twin listens there", path);
			return NULL;
		}
		unlink(path);
	}
	truth = calloc(1, sizeof *truth);
	if (!truth) {
		snprintf(error, error_size, "control=%s: %s", path, strerror(errno));
		return NULL;
	}
	strcpy(truth->path, path);
	truth->stop_event = eventfd(0, EFD_CLOEXEC);
	truth->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (truth->stop_event < 0 || truth->listener < 0 ||
	    bind(truth->listener, (const struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(truth->listener, MAX_CLIENTS) < 0 || lstat(path, &existing) < 0) {
		snprintf(error, error_size, "control=%s: %s", path, strerror(errno));
		if (truth->listener >= 0)
			close(truth->listener);
		if (truth->stop_event >= 0)
			close(truth->stop_event);
		free(truth);
		return NULL;
	}
	truth->socket_device = existing.st_dev;
	truth->socket_inode = existing.st_ino;
	return truth;
}

int truth_start(struct truth *truth, struct drive *drive)
{
	int failure;

	truth->drive = drive;
	note_offset(truth);
	failure = pthread_create(&truth->thread, NULL, serve, truth);
	truth->running = failure == 0;
	return failure;
}

void truth_stop(struct truth *truth)
{
	uint64_t one = 1;
	struct stat existing;

	if (!truth)
		return;
	if (truth->running && write(truth->stop_event, &one, sizeof one) == sizeof one)
		pthread_join(truth->thread, NULL);
	close(truth->listener);
	close(truth->stop_event);
	/* Not one that a successor has put in its place. */
	if (lstat(truth->path, &existing) == 0 && existing.st_dev == truth->socket_device &&
	    existing.st_ino == truth->socket_inode)
		unlink(truth->path);
	free(truth);
}
