/* SPDX-License-Identifier: GPL-3.0-or-later */
/* srcap: one instrument's samples, through libsigrok, as frames on stdout. See README.md and
 * frames.md. */
#define _GNU_SOURCE
#include "capture.h"
#include "device.h"
#include "frame.h"
#include "log.h"
#include "rails.h"
#include "ring.h"
#include "watchdog.h"

#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: srcap --driver DRIVER[:key=value...] --channels CH1,CH2,... [--set [GROUP.]key=value ...] [--silence-seconds S] [--open-seconds S] [--fixed-settings] [--ring FD]\n"
	"             [--rail VOLTS,AMPS,GAIN,OFFSET,GAIN,OFFSET[,FULL,FULL] ... --point N [--raw]]\n"
	"       srcap --scan --driver DRIVER[:key=value...] [--silence-seconds S] [--open-seconds S]\n"
	"\n"
	"Writes the instrument's samples on stdout, or into shared memory, as frames (frames.md) until asked to stop. Takes commands on stdin, one a line:\n"
	"  set KEY VALUE   change an option of the instrument (refused with --fixed-settings)\n"
	"  raw on|off      samples of the rails too, or their sums alone\n"
	"  stop            end with code 0\n"
	"With --scan it writes what answers there on stdout, as JSON, and ends.\n"
	"Exit codes: 0 stopped, 2 bad arguments, 3 no such instrument, 4 the instrument fell silent, 5 libsigrok failed.\n";

/* A driver that always has a request under way would take that one's answer for a setting's. */
static int fixed_settings;

struct command {
	const struct sr_dev_inst *sdi;
	char *key;
	char *value;
};

struct control {
	const struct sr_dev_inst *sdi;
	_Atomic(struct sr_session *) session; /* NULL until there is something to stop */
};

static void stop(struct control *control)
{
	struct sr_session *session = atomic_load(&control->session);

	if (!session)
		_exit(EXIT_STOPPED);
	watchdog_stop_requested();
	sr_session_stop(session);
}

static gboolean run_set(gpointer data)
{
	struct command *c = data;
	char *problem;

	if (fixed_settings)
		problem = g_strdup_printf("%s takes no settings while it captures; use --set", sr_dev_inst_driver_get(c->sdi)->name);
	else
		problem = device_set(c->sdi, c->key, c->value);
	char *key = json_quote(c->key);
	char *value = json_quote(c->value);
	char *error = json_quote(problem);
	char *json = g_strdup_printf("{\"event\":\"set\",\"key\":%s,\"value\":%s,\"ok\":%s,\"error\":%s}", key, value, problem ? "false" : "true", error);

	frame_event(json);
	g_free(json);
	g_free(error);
	g_free(value);
	g_free(key);
	g_free(problem);
	g_free(c->key);
	g_free(c->value);
	g_free(c);
	return G_SOURCE_REMOVE;
}

static gboolean run_raw(gpointer data)
{
	int on = GPOINTER_TO_INT(data);

	rails_set_raw(on);
	frame_event(on ? "{\"event\":\"raw\",\"on\":true}" : "{\"event\":\"raw\",\"on\":false}");
	return G_SOURCE_REMOVE;
}

static void *read_commands(void *data)
{
	struct control *control = data;
	char line[1024];

	/* The end of stdin is no command: a person who runs srcap with no stdin wants samples. */
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\r\n")] = '\0';
		char **word = g_strsplit(line, " ", 3);

		if (!strcmp(line, "stop")) {
			stop(control);
		} else if (word[0] && !strcmp(word[0], "set") && word[1] && word[2]) {
			struct command *c = g_new0(struct command, 1);

			c->sdi = control->sdi;
			c->key = g_strdup(word[1]);
			c->value = g_strdup(word[2]);
			/* Drivers are not thread safe: run it between their own events. */
			g_idle_add(run_set, c);
		} else if (!strcmp(line, "raw on") || !strcmp(line, "raw off")) {
			/* Between two packets, and soon, however many of them there are. */
			g_idle_add_full(G_PRIORITY_HIGH, run_raw, GINT_TO_POINTER(!strcmp(line, "raw on")), NULL);
		} else {
			fprintf(stderr, "srcap: stdin: \"%s\" is no command (allowed: set KEY VALUE, raw on, raw off, stop)\n", line);
		}
		g_strfreev(word);
	}
	return NULL;
}

static void *wait_for_signal(void *data)
{
	struct control *control = data;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	while (sigwait(&set, &number) == 0)
		stop(control);
	return NULL;
}

static void __attribute__((noreturn)) bad_usage(const char *problem)
{
	fprintf(stderr, "srcap: %s (see srcap --help)\n", problem);
	exit(EXIT_USAGE);
}

static double seconds_above_0(const char *option, const char *text)
{
	char *end;
	double seconds = g_ascii_strtod(text, &end);

	if (!*text || *end || !(seconds > 0 && seconds < 1e6)) {
		char *problem = g_strdup_printf("%s: not a number above 0", option);

		bad_usage(problem);
	}
	return seconds;
}

static void __attribute__((noreturn)) sigrok_failed(const char *doing, int rc)
{
	fprintf(stderr, "srcap: %s: %s\n", doing, sr_strerror(rc));
	exit(EXIT_SIGROK);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "driver", required_argument, NULL, 'd' },
		{ "channels", required_argument, NULL, 'c' },
		{ "set", required_argument, NULL, 's' },
		{ "silence-seconds", required_argument, NULL, 'q' },
		{ "open-seconds", required_argument, NULL, 'o' },
		{ "fixed-settings", no_argument, &fixed_settings, 1 },
		{ "scan", no_argument, NULL, 'f' },
		{ "ring", required_argument, NULL, 'r' },
		{ "rail", required_argument, NULL, 'v' },
		{ "point", required_argument, NULL, 'p' },
		{ "raw", no_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	static struct capture capture;
	const char *driver = NULL, *channels = NULL;
	GPtrArray *settings = g_ptr_array_new(), *rails = g_ptr_array_new();
	double silence = 5, open_seconds = 0;
	int option, rc, only_scan = 0;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end;

		switch (option) {
		case 'd':
			driver = optarg;
			break;
		case 'c':
			channels = optarg;
			break;
		case 's':
			g_ptr_array_add(settings, optarg);
			break;
		case 'q':
			silence = seconds_above_0("--silence-seconds", optarg);
			break;
		case 'o':
			open_seconds = seconds_above_0("--open-seconds", optarg);
			break;
		case 0: /* a flag, which getopt has set */
			break;
		case 'f':
			only_scan = 1;
			break;
		case 'r': {
			long fd = strtol(optarg, &end, 10);
			const char *problem = !*optarg || *end || fd < 0 || fd > INT_MAX ? "not a file descriptor" : ring_open((int)fd);

			if (problem) {
				fprintf(stderr, "srcap: --ring %s: %s\n", optarg, problem);
				exit(EXIT_USAGE);
			}
			break;
		}
		case 'v':
			g_ptr_array_add(rails, optarg);
			break;
		case 'p': {
			guint64 samples;

			if (!g_ascii_string_to_unsigned(optarg, 10, 1, UINT64_MAX, &samples, NULL))
				bad_usage("--point: not a number of samples");
			rails_set_point(samples);
			break;
		}
		case 'w':
			rails_set_raw(1);
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			bad_usage("unknown argument");
		}
	}
	if (optind < argc)
		bad_usage("unknown argument");
	if (!driver || !*driver)
		bad_usage("--driver is missing");
	if (!only_scan && (!channels || !*channels))
		bad_usage("--channels is missing");

	/* libsigrok writes to closed sockets without MSG_NOSIGNAL. */
	signal(SIGPIPE, SIG_IGN);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	frame_init();
	/*
	 * Where this is allowed: an instrument that is asked late sends late. Round robin, so that
	 * the watchdog gets its turn alongside a driver that spins. Not with SCHED_RESET_ON_FORK,
	 * which takes it from the threads, too.
	 */
	struct sched_param least = { .sched_priority = sched_get_priority_min(SCHED_RR) };

	sched_setscheduler(0, SCHED_RR, &least);
	/* Before any thread there is: libsigrok's libraries start some, and all must inherit the mask. */
	static struct control control;
	pthread_t commands, signals;

	pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (pthread_create(&signals, NULL, wait_for_signal, &control) != 0)
		sigrok_failed("starting a thread", SR_ERR);
	watchdog_start(open_seconds > silence ? open_seconds : silence);

	struct sr_context *ctx;
	struct sr_session *session;

	log_init();
	if ((rc = sr_init(&ctx)) != SR_OK)
		sigrok_failed("libsigrok", rc);
	if (only_scan) {
		puts(device_scan(ctx, driver));
		fflush(NULL);
		_exit(0);
	}
	struct sr_dev_inst *sdi = device_open(ctx, driver);

	device_select(sdi, channels, &capture.channels);
	for (guint i = 0; i < rails->len; i++) {
		const char *problem = rails_add(rails->pdata[i], &capture.channels);

		if (problem) {
			fprintf(stderr, "srcap: --rail %s: %s\n", (char *)rails->pdata[i], problem);
			exit(EXIT_USAGE);
		}
	}
	for (guint i = 0; i < settings->len; i++)
		device_set_pair(sdi, settings->pdata[i]);

	if ((rc = sr_session_new(ctx, &session)) != SR_OK)
		sigrok_failed("new session", rc);
	if ((rc = sr_session_dev_add(session, sdi)) != SR_OK)
		sigrok_failed("adding the instrument to the session", rc);
	sr_session_datafeed_callback_add(session, capture_packet, &capture);

	char *start = device_start_event(sdi, &capture.channels);

	frame_event(start);
	g_free(start);

	if ((rc = sr_session_start(session)) != SR_OK)
		sigrok_failed("starting the acquisition", rc);
	watchdog_acquiring(silence);
	control.sdi = sdi;
	atomic_store(&control.session, session);
	if (pthread_create(&commands, NULL, read_commands, &control) != 0)
		sigrok_failed("starting a thread", SR_ERR);
	sr_session_run(session);

	int stopped = watchdog_is_stopping();

	frame_event(stopped ? "{\"event\":\"end\",\"requested\":true}" : "{\"event\":\"end\",\"requested\":false}");
	if (!stopped)
		fprintf(stderr, "srcap: the driver ended the acquisition by itself\n");
	/* Leave without closing the instrument: some drivers wait for an answer there, and the
	 * system closes the rest. */
	fflush(NULL);
	_exit(stopped ? EXIT_STOPPED : EXIT_SIGROK);
}
