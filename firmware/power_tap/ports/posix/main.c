/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The power tap on a POSIX host: the firmware's core between converters of the kernel's, on a
 * Raspberry Pi, or what stands for them, twins' control sockets or a synthetic source, and TCP,
 * which stands for its USB ports. One thread; CLOCK_MONOTONIC is the sample clock.
 */
#define _GNU_SOURCE
#include "align.h"
#include "faults.h"
#include "iio.h"
#include "loss.h"
#include "session.h"
#include "source.h"
#include "synthetic.h"
#include "tap.h"
#include "virtual_board.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND 1000000000LL
#define MAX_RATE_HZ 1000000
#define BLOCKS_PER_SECOND 50 /* of what --drop-blocks drops */
#define MAX_CLIENTS 8
#define INPUT_SIZE 1024
/* While no source gives the pace, the clock does, this far behind now: a source
 * that appears gets its first windows in. */
#define CLOCK_LAG_NS (50 * NS_PER_SECOND / 1000)
#define TICK_NS (10 * NS_PER_SECOND / 1000)

struct client {
	int fd;
	struct session *session;
	uint8_t input[INPUT_SIZE];
	size_t input_used, input_length;
	const uint8_t *reply;
	size_t reply_length;
};

static struct tap tap;
static struct virtual_board board;
static struct align align;
static struct source sources[SAMPLER_RAILS];
static unsigned source_count;
static struct iio converters[SAMPLER_RAILS];
static unsigned converter_count;
static const char *switch_files[SAMPLER_RAILS];
static int listeners[TAP_INSTRUMENTS];
static struct client clients[MAX_CLIENTS];
static unsigned client_count;
static int64_t window_ns;
static bool synthetic;
static struct loss loss;
static struct faults faults;
/* Windows of CLOCK_MONOTONIC: the first sample's, and the next one's. */
static bool begun;
static int64_t first_window, next_window;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: power_tap --listen ADDRESS:PORT,ADDRESS:PORT --rate HZ [--rail N=SOCKET:RAIL | --rail N=iio:DEVICE ... | --synthetic]\n"
		"  --listen       IPv4 addresses of the instruments of rails 1, 2 and of rails 3, 4; port 0: any free\n"
		"  --rate         samples per second and rail, a divisor of 1000000000, at most %d\n"
		"  --rail         rail N (1 to %d) is the rail RAIL of the twin whose control socket is SOCKET\n"
		"                 or the converter DEVICE of the kernel's Industrial I/O: deviceN, or the chip's place such as 1-0040\n"
		"  --switch       N=FILE: rail N of a converter is off while FILE has 0, such as an LED's brightness\n"
		"  --serial       of the tap; \"virtual\" where it is not given\n"
		"  --synthetic    volts and amps that are known functions of the sample's number (docs/how-to/power-tap.md)\n"
		"  --markers      UNIX datagram socket; the two lowest bits of a byte sent there are the marker inputs\n"
		"  --memory       file that keeps the calibration\n"
		"  --drop-blocks  part (0 to 1) of all 20 ms blocks of samples to lose, as broken hardware would\n"
		"  --seed         which blocks those are; 0 where it is not given\n"
		"  --faults       file of what is wrong with the samples (docs/how-to/power-tap.md)\n",
		MAX_RATE_HZ, SAMPLER_RAILS);
}

static void refuse(const char *message)
{
	fprintf(stderr, "power_tap: %s\n", message);
	exit(2);
}

static void refuse_value(const char *option, const char *value, const char *allowed)
{
	fprintf(stderr, "power_tap: %s %s: allowed is %s\n", option, value, allowed);
	exit(2);
}

static int listen_on(const char *text, size_t length, const char *whole)
{
	static const char allowed[] = "two of IPv4-ADDRESS:PORT, with a comma";
	char host[64];
	const char *colon = memchr(text, ':', length);
	struct sockaddr_in address = { .sin_family = AF_INET };
	int one = 1, fd;
	char *end;
	unsigned long port;

	if (!colon || (size_t)(colon - text) >= sizeof host)
		refuse_value("--listen", whole, allowed);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = '\0';
	port = strtoul(colon + 1, &end, 10);
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || end == colon + 1 ||
	    end != text + length || port > 65535)
		refuse_value("--listen", whole, allowed);
	address.sin_port = htons((uint16_t)port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 8) < 0) {
		fprintf(stderr, "power_tap: --listen %s:%lu: %s\n", host, port, strerror(errno));
		exit(1);
	}
	return fd;
}

static void parse_listen(const char *value)
{
	const char *comma = strchr(value, ',');

	if (!comma)
		refuse_value("--listen", value, "two of IPv4-ADDRESS:PORT, with a comma");
	listeners[0] = listen_on(value, (size_t)(comma - value), value);
	listeners[1] = listen_on(comma + 1, strlen(comma + 1), value);
}

static uint32_t parse_rate(const char *value)
{
	char *end;
	unsigned long rate = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end != '\0' || rate < 1 || rate > MAX_RATE_HZ ||
	    NS_PER_SECOND % (long long)rate != 0)
		refuse_value("--rate", value, "a divisor of 1000000000 from 1 to 1000000");
	return (uint32_t)rate;
}

static double parse_fraction(const char *option, const char *value)
{
	char *end;
	double fraction = strtod(value, &end);

	if (((*value < '0' || *value > '9') && *value != '.') || *end != '\0' ||
	    !(fraction >= 0 && fraction <= 1))
		refuse_value(option, value, "a number from 0 to 1");
	return fraction;
}

static uint64_t parse_seed(const char *option, const char *value)
{
	char *end;
	unsigned long long seed;

	errno = 0;
	seed = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end != '\0' || errno)
		refuse_value(option, value, "a whole number from 0 to 18446744073709551615");
	return seed;
}

/* A rail's number before "=", from 0; SAMPLER_RAILS where it is none. */
static unsigned parse_number(const char *value)
{
	char *end;
	unsigned long rail = strtoul(value, &end, 10);

	return *value < '0' || *value > '9' || *end != '=' || rail < 1 || rail > SAMPLER_RAILS ?
		       SAMPLER_RAILS :
		       (unsigned)rail - 1;
}

static bool is_taken(unsigned rail)
{
	for (unsigned n = 0; n < source_count; n++)
		if (sources[n].rails[rail].used)
			return true;
	for (unsigned n = 0; n < converter_count; n++)
		if (converters[n].rail == rail)
			return true;
	return false;
}

static bool is_converters(unsigned rail)
{
	for (unsigned n = 0; n < converter_count; n++)
		if (converters[n].rail == rail)
			return true;
	return false;
}

static void parse_switch(const char *value)
{
	unsigned rail = parse_number(value);
	const char *equals = strchr(value, '='), *file = equals ? equals + 1 : "";

	if (rail == SAMPLER_RAILS || switch_files[rail] || *file != '/')
		refuse_value("--switch", value, "N=/FILE with N from 1 to 4, each N once");
	switch_files[rail] = file;
}

static void parse_converter(const char *value)
{
	static const char allowed[] =
		"N=iio:DEVICE or N=iio:DEVICE:VOLTS,AMPS with N from 1 to 4, each N once";
	unsigned rail = parse_number(value);

	if (rail == SAMPLER_RAILS || is_taken(rail) ||
	    !iio_parse(&converters[converter_count], rail, strchr(value, '=') + strlen("=iio:")))
		refuse_value("--rail", value, allowed);
	converter_count++;
}

/* N=SOCKET:RAIL; a socket path may have colons, a rail's name has none. */
static void parse_rail(char *value)
{
	static const char allowed[] = "N=SOCKET:RAIL with N from 1 to 4, each N once";
	char *whole = strdup(value);
	char *equals = strchr(value, '=');
	char *colon = strrchr(value, ':');
	unsigned rail = parse_number(value);
	unsigned n = 0;

	if (rail == SAMPLER_RAILS || !colon || colon < equals || colon == equals + 1 ||
	    strlen(colon + 1) == 0 || strlen(colon + 1) >= SOURCE_RAIL_NAME_SIZE || is_taken(rail))
		refuse_value("--rail", whole, allowed);
	*colon = '\0';
	if (strlen(equals + 1) >= sizeof ((struct sockaddr_un *)0)->sun_path)
		refuse_value("--rail", whole, "a socket path of at most 107 characters");
	while (n < source_count && strcmp(sources[n].path, equals + 1) != 0)
		n++;
	if (n == source_count)
		source_init(&sources[source_count++], equals + 1);
	sources[n].rails[rail].used = true;
	strcpy(sources[n].rails[rail].name, colon + 1);
	free(whole);
}

static void accept_client(unsigned instrument)
{
	int one = 1;
	int fd = accept4(listeners[instrument], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct session *session;

	if (fd < 0)
		return;
	session = client_count < MAX_CLIENTS ? malloc(sizeof *session) : NULL;
	if (!session) {
		close(fd);
		return;
	}
	/* A reply is one segment and goes at once. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	session_open(session, &tap, instrument);
	clients[client_count++] = (struct client){ .fd = fd, .session = session };
}

static void close_client(unsigned n)
{
	close(clients[n].fd);
	free(clients[n].session);
	clients[n] = clients[--client_count];
}

static bool send_reply(struct client *client)
{
	ssize_t sent = send(client->fd, client->reply, client->reply_length, MSG_NOSIGNAL);

	if (sent < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
	client->reply += sent;
	client->reply_length -= (size_t)sent;
	return true;
}

/* Feeds input and sends replies until the client has to be waited for, or the
 * samples. False when it is gone. */
static bool work_on_client(struct client *client, int64_t now)
{
	struct scpi *scpi = &client->session->scpi;

	for (;;) {
		if (client->reply_length) {
			if (!send_reply(client))
				return false;
			if (client->reply_length)
				return true;
		}
		client->reply = scpi_run(scpi, now, &client->reply_length);
		if (client->reply)
			continue;
		client->reply_length = 0;
		if (scpi_is_waiting(scpi))
			return true;
		if (client->input_used == client->input_length)
			return true;
		scpi_put(scpi, client->input[client->input_used++]);
	}
}

static bool read_client(struct client *client)
{
	ssize_t got;

	if (client->input_used < client->input_length)
		return true;
	got = recv(client->fd, client->input, INPUT_SIZE, 0);
	if (got == 0)
		return false;
	if (got < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
	client->input_used = 0;
	client->input_length = (size_t)got;
	return true;
}

/* What the board's converters see of a window goes into the tap, or is lost. */
static void put_window(int64_t window, struct sample *sample)
{
	static int64_t block = -1;
	static bool dropped;
	uint32_t block_samples = tap.rate_hz / BLOCKS_PER_SECOND;
	unsigned times = 1;

	if (!begun)
		first_window = window;
	begun = true;
	next_window = window + 1;
	virtual_board_apply(&board, window, synthetic ? tap.rate_hz / 50 : 0, sample);
	if ((window - first_window) / (block_samples ? block_samples : 1) != block) {
		block = (window - first_window) / (block_samples ? block_samples : 1);
		dropped = loss_drops(&loss, (uint64_t)block);
	}
	if (faults.used)
		times = faults_apply(&faults, sample);
	if (dropped)
		tap_missed(&tap, 1);
	else
		while (times-- > 0)
			tap_sample(&tap, sample);
	board.next_sample = tap_samples(&tap);
	board.next_window = next_window;
}

static void take_synthetic(void)
{
	int64_t end = now_ns() / window_ns;
	struct sample sample;

	if (!begun)
		next_window = first_window = end;
	begun = true;
	while (next_window < end) {
		synthetic_sample((uint64_t)(next_window - first_window), &sample);
		put_window(next_window, &sample);
	}
}

static void take_from_sources(void)
{
	char error[512];
	struct sample sample;
	bool took;

	/* Taking samples makes room for what the sources still hold. */
	do {
		int64_t now = now_ns();

		took = false;
		for (unsigned n = 0; n < source_count; n++) {
			source_poll(&sources[n], &align, now);
			if (!source_work(&sources[n], &align, window_ns, now, error, sizeof error))
				refuse(error);
		}
		for (unsigned n = 0; n < converter_count; n++)
			if (!iio_work(&converters[n], &align, window_ns, error, sizeof error)) {
				/* Not 0 V and 0 A, as of a twin that is gone: this drive may draw. */
				fprintf(stderr, "power_tap: %s\n", error);
				exit(1);
			}
		while (align_take(&align, (now - CLOCK_LAG_NS) / window_ns, &sample)) {
			put_window(align.next_window - 1, &sample);
			took = true;
		}
	} while (took);
}

static void say_where(void)
{
	struct sockaddr_in address[TAP_INSTRUMENTS];
	char host[TAP_INSTRUMENTS][INET_ADDRSTRLEN];

	for (unsigned n = 0; n < TAP_INSTRUMENTS; n++) {
		socklen_t size = sizeof address[n];

		if (getsockname(listeners[n], (struct sockaddr *)&address[n], &size) < 0 ||
		    !inet_ntop(AF_INET, &address[n].sin_addr, host[n], sizeof host[n]))
			refuse("--listen: the address could not be read back");
	}
	printf("power_tap: listening on %s:%u,%s:%u\n", host[0], ntohs(address[0].sin_port), host[1],
	       ntohs(address[1].sin_port));
	fflush(stdout);
}

/* How long nothing has to be done, unless a descriptor says so. A synthetic
 * sample is there when its window ends, so a client is answered at that moment. */
static int64_t longest_wait_ns(bool tick, int64_t now)
{
	int64_t wait_ns = tick ? TICK_NS : NS_PER_SECOND;

	for (unsigned n = 0; synthetic && n < client_count; n++) {
		const struct session *session = clients[n].session;
		int64_t due;

		if (!scpi_is_waiting(&session->scpi))
			continue;
		due = (next_window + session->samples_wanted) * window_ns - now;
		if (due < wait_ns)
			wait_ns = due > 0 ? due : 0;
	}
	return wait_ns;
}

/* Sources and converters have a rail each at least. */
enum { SIGNALS, MARKERS, LISTENERS, SOURCES = LISTENERS + TAP_INSTRUMENTS };

static void serve(int signals)
{
	for (;;) {
		struct pollfd polled[SOURCES + SAMPLER_RAILS + MAX_CLIENTS];
		unsigned first_converter = SOURCES + source_count;
		unsigned first_client = first_converter + converter_count;
		unsigned polled_clients = client_count;
		bool tick = source_count + converter_count == 0;
		struct timespec timeout = { 0 };
		int64_t now = now_ns(), wait_ns;

		polled[SIGNALS] = (struct pollfd){ .fd = signals, .events = POLLIN };
		polled[MARKERS] = (struct pollfd){ .events = POLLIN };
		polled[MARKERS].fd = board.change_count < MARKER_QUEUE ? board.markers_fd : -1;
		for (unsigned n = 0; n < TAP_INSTRUMENTS; n++)
			polled[LISTENERS + n] = (struct pollfd){ .fd = listeners[n], .events = POLLIN };
		for (unsigned n = 0; n < source_count; n++) {
			bool read = source_wants_read(&sources[n], &align);

			/* Without an event to wait for, its descriptor must not
			 * report a hang-up over and over. */
			polled[SOURCES + n] =
				(struct pollfd){ .fd = read ? sources[n].fd : -1, .events = POLLIN };
			tick = tick || sources[n].state == SOURCE_ABSENT || !read;
		}
		for (unsigned n = 0; n < converter_count; n++) {
			bool read = iio_wants_read(&converters[n], &align);

			polled[first_converter + n] =
				(struct pollfd){ .fd = read ? converters[n].fd : -1, .events = POLLIN };
			tick = tick || !read;
		}
		for (unsigned n = 0; n < polled_clients; n++) {
			struct client *client = &clients[n];
			short events = 0;

			if (client->input_used == client->input_length)
				events |= POLLIN;
			if (client->reply_length)
				events |= POLLOUT;
			tick = tick || scpi_is_waiting(&client->session->scpi);
			polled[first_client + n] = (struct pollfd){ .fd = client->fd, .events = events };
		}
		wait_ns = longest_wait_ns(tick, now);
		timeout.tv_sec = wait_ns / NS_PER_SECOND;
		timeout.tv_nsec = wait_ns % NS_PER_SECOND;
		if (ppoll(polled, first_client + polled_clients, &timeout, NULL) < 0 && errno != EINTR)
			break;
		if (polled[SIGNALS].revents)
			break;

		if (polled[MARKERS].revents)
			virtual_board_read_markers(&board, now_ns() / window_ns);
		if (synthetic)
			take_synthetic();
		else
			take_from_sources();
		now = now_ns();
		for (unsigned n = polled_clients; n-- > 0;) {
			struct client *client = &clients[n];
			short events = polled[first_client + n].revents;
			bool alive = !(events & (POLLERR | POLLHUP | POLLNVAL));

			if (alive && events & POLLIN)
				alive = read_client(client);
			if (alive)
				alive = work_on_client(client, now);
			if (!alive)
				close_client(n);
		}
		for (unsigned n = 0; n < TAP_INSTRUMENTS; n++)
			if (polled[LISTENERS + n].revents)
				accept_client(n);
	}
	while (client_count)
		close_client(0);
}

static const char *const options[] = { "--listen", "--rate",   "--rail",	  "--switch", "--serial", "--synthetic",
				       "--markers", "--memory", "--drop-blocks", "--seed",   "--faults", "--help" };

static void refuse_option(const char *name)
{
	fprintf(stderr, "power_tap: %s: allowed are", name);
	for (unsigned n = 0; n < sizeof options / sizeof *options; n++)
		fprintf(stderr, "%s %s", n ? "," : "", options[n]);
	fprintf(stderr, "\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *listen_value = NULL, *rate_value = NULL, *markers_path = NULL, *memory_path = NULL,
		   *faults_path = NULL, *serial = "virtual";
	uint32_t rate_hz;
	char error[512];
	sigset_t ending;
	int signals;

	for (int n = 1; n < argc; n++) {
		const char *name = argv[n];
		char *value;
		unsigned known = 0;

		while (known < sizeof options / sizeof *options && strcmp(name, options[known]) != 0)
			known++;
		if (known == sizeof options / sizeof *options)
			refuse_option(name);
		if (strcmp(name, "--help") == 0) {
			usage(stdout);
			return 0;
		}
		if (strcmp(name, "--synthetic") == 0) {
			synthetic = true;
			continue;
		}
		value = argv[++n];
		if (!value) {
			fprintf(stderr, "power_tap: %s: a value must follow\n", name);
			return 2;
		}
		if (strcmp(name, "--listen") == 0)
			listen_value = value;
		else if (strcmp(name, "--rate") == 0)
			rate_value = value;
		else if (strcmp(name, "--markers") == 0)
			markers_path = value;
		else if (strcmp(name, "--memory") == 0)
			memory_path = value;
		else if (strcmp(name, "--drop-blocks") == 0)
			loss.fraction = parse_fraction(name, value);
		else if (strcmp(name, "--seed") == 0)
			loss.seed = parse_seed(name, value);
		else if (strcmp(name, "--faults") == 0)
			faults_path = value;
		else if (strcmp(name, "--switch") == 0)
			parse_switch(value);
		else if (strcmp(name, "--serial") == 0)
			serial = value;
		else if (strchr(value, '=') && strncmp(strchr(value, '='), "=iio:", 5) == 0)
			parse_converter(value);
		else
			parse_rail(value);
	}
	if (!listen_value || !rate_value)
		refuse(listen_value ? "--rate is missing" : "--listen is missing");
	if (synthetic && (source_count || converter_count))
		refuse("--synthetic: allowed without --rail only");
	rate_hz = parse_rate(rate_value);
	for (unsigned r = 0; r < SAMPLER_RAILS; r++)
		if (switch_files[r] && !is_converters(r))
			refuse("--switch: allowed for rails of converters only (--rail N=iio:DEVICE)");
	if (*serial == '\0' || strcspn(serial, ",; ") != strlen(serial))
		refuse_value("--serial", serial, "a word without comma, semicolon or blank");
	if (loss.fraction > 0 && rate_hz < BLOCKS_PER_SECOND)
		refuse_value("--rate", rate_value, "50 or more with --drop-blocks");
	faults_init(&faults, rate_hz);
	if (faults_path && !faults_load(&faults, faults_path, error, sizeof error))
		refuse(error);
	parse_listen(listen_value);
	window_ns = NS_PER_SECOND / rate_hz;
	virtual_board_init(&board, window_ns, memory_path);
	for (unsigned n = 0; n < source_count; n++)
		for (unsigned r = 0; r < SAMPLER_RAILS; r++)
			if (sources[n].rails[r].used)
				virtual_board_attach(&board, r, sources[n].path, sources[n].rails[r].name);
	for (unsigned n = 0; n < converter_count; n++)
		virtual_board_measure(&board, converters[n].rail, switch_files[converters[n].rail]);
	if (markers_path && !virtual_board_listen(&board, markers_path, error, sizeof error))
		refuse(error);

	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigprocmask(SIG_BLOCK, &ending, NULL);
	signals = signalfd(-1, &ending, SFD_CLOEXEC);
	if (signals < 0)
		refuse("no descriptor for signals");

	tap_init(&tap, rate_hz, serial, &board.board);
	align_init(&align);
	for (unsigned n = 0; n < converter_count; n++)
		if (!iio_open(&converters[n], rate_hz, &align, error, sizeof error))
			refuse(error);
	say_where();
	serve(signals);
	if (markers_path)
		unlink(markers_path);
	return 0;
}
