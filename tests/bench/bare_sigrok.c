/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The least that a libsigrok client can do, to compare srcap and powerd with (`make bench-power`).
 * Takes four channels of a hameg-hmo instrument for some seconds, counts the samples and discards
 * them. Prints the count of each channel.
 */
#include <libsigrok/libsigrok.h>

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long long samples[4];

static void packet(const struct sr_dev_inst *sdi, const struct sr_datafeed_packet *packet, void *data)
{
	(void)sdi;
	(void)data;
	if (packet->type != SR_DF_ANALOG)
		return;
	const struct sr_datafeed_analog *analog = packet->payload;
	const struct sr_channel *channel = analog->meaning->channels->data;

	if (channel->index < 4)
		samples[channel->index] += analog->num_samples;
}

static gboolean stop(gpointer session)
{
	sr_session_stop(session);
	return G_SOURCE_REMOVE;
}

int main(int argc, char **argv)
{
	struct sr_context *ctx;
	struct sr_session *session;
	struct sr_dev_driver **drivers;
	struct sr_config conn = { .key = SR_CONF_CONN };
	GSList *found = NULL;

	if (argc != 3 || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: bare_sigrok CONN SECONDS\n");
		return 2;
	}
	if (sr_init(&ctx) != SR_OK)
		return 1;
	drivers = sr_driver_list(ctx);
	while (*drivers && strcmp((*drivers)->name, "hameg-hmo") != 0)
		drivers++;
	conn.data = g_variant_ref_sink(g_variant_new_string(argv[1]));
	GSList options = { .data = &conn, .next = NULL };

	if (!*drivers || sr_driver_init(ctx, *drivers) != SR_OK || !(found = sr_driver_scan(*drivers, &options))) {
		fprintf(stderr, "bare_sigrok: no instrument answers at %s\n", argv[1]);
		return 1;
	}
	struct sr_dev_inst *sdi = found->data;

	if (sr_dev_open(sdi) != SR_OK || sr_session_new(ctx, &session) != SR_OK || sr_session_dev_add(session, sdi) != SR_OK)
		return 1;
	for (GSList *l = sr_dev_inst_channels_get(sdi); l; l = l->next) {
		struct sr_channel *channel = l->data;

		sr_dev_channel_enable(channel, channel->type == SR_CHANNEL_ANALOG && channel->index < 4);
	}
	sr_config_set(sdi, NULL, SR_CONF_LIMIT_FRAMES, g_variant_new_uint64(100000000));
	sr_config_set(sdi, NULL, SR_CONF_LIMIT_SAMPLES, g_variant_new_uint64(1000000000));
	sr_session_datafeed_callback_add(session, packet, NULL);
	if (sr_session_start(session) != SR_OK)
		return 1;
	g_timeout_add_seconds((guint)atoi(argv[2]), stop, session);
	sr_session_run(session);
	printf("%llu %llu %llu %llu\n", samples[0], samples[1], samples[2], samples[3]);
	fflush(stdout);
	_Exit(0);
}
