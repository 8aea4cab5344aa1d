/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "device.h"

#include "frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Option lists carry what may be done with an option in the top bits. */
#define KEY_OF(entry) ((entry) & ~(uint32_t)(SR_CONF_GET | SR_CONF_SET | SR_CONF_LIST))

static void __attribute__((noreturn, format(printf, 2, 3))) die(enum exit_code code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "srcap: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(code);
}

/* Key names of a list of options, for the user to choose from. */
static char *key_names(GArray *keys)
{
	GString *out = g_string_new(NULL);

	for (guint i = 0; keys && i < keys->len; i++) {
		const struct sr_key_info *info = sr_key_info_get(SR_KEY_CONFIG, KEY_OF(g_array_index(keys, uint32_t, i)));

		if (info)
			g_string_append_printf(out, "%s%s", out->len ? ", " : "", info->id);
	}
	if (!out->len)
		g_string_append(out, "none");
	return g_string_free(out, FALSE);
}

static int has_key(GArray *keys, uint32_t key)
{
	for (guint i = 0; keys && i < keys->len; i++)
		if (KEY_OF(g_array_index(keys, uint32_t, i)) == key)
			return 1;
	return 0;
}

/* "voltage", "current", ... with or without "/dc", "/ac": a quantity and its flags. */
static GVariant *parse_quantity(const char *text)
{
	char **part = g_strsplit(text, "/", -1);
	const struct sr_key_info *quantity = sr_key_info_name_get(SR_KEY_MQ, part[0] ? part[0] : "");
	GVariant *pair[2];
	uint64_t flags = 0;

	for (int i = 1; quantity && part[i]; i++) {
		const struct sr_key_info *flag = sr_key_info_name_get(SR_KEY_MQFLAGS, part[i]);

		if (!flag)
			quantity = NULL;
		else
			flags |= flag->key;
	}
	g_strfreev(part);
	if (!quantity)
		return NULL;
	pair[0] = g_variant_new_uint32(quantity->key);
	pair[1] = g_variant_new_uint64(flags);
	return g_variant_new_tuple(pair, 2);
}

/* `text` as the type that libsigrok wants for `info`, or NULL where it is none. */
static GVariant *parse_value(const struct sr_key_info *info, const char *text)
{
	uint64_t u, p, q;
	char *end;

	switch (info->datatype) {
	case SR_T_UINT64:
		return sr_parse_sizestring(text, &u) == SR_OK ? g_variant_new_uint64(u) : NULL;
	case SR_T_INT32: {
		long value = strtol(text, &end, 10);

		return *text && !*end ? g_variant_new_int32((gint32)value) : NULL;
	}
	case SR_T_FLOAT: {
		double value = g_ascii_strtod(text, &end);

		return *text && !*end ? g_variant_new_double(value) : NULL;
	}
	case SR_T_BOOL:
		if (!g_ascii_strcasecmp(text, "on") || !g_ascii_strcasecmp(text, "true") || !g_ascii_strcasecmp(text, "yes") || !strcmp(text, "1"))
			return g_variant_new_boolean(TRUE);
		if (!g_ascii_strcasecmp(text, "off") || !g_ascii_strcasecmp(text, "false") || !g_ascii_strcasecmp(text, "no") || !strcmp(text, "0"))
			return g_variant_new_boolean(FALSE);
		return NULL;
	case SR_T_STRING:
		return g_variant_new_string(text);
	case SR_T_MQ:
		return parse_quantity(text);
	case SR_T_RATIONAL_PERIOD:
		return sr_parse_period(text, &p, &q) == SR_OK ? g_variant_new("(tt)", p, q) : NULL;
	case SR_T_RATIONAL_VOLT:
		return sr_parse_voltage(text, &p, &q) == SR_OK ? g_variant_new("(tt)", p, q) : NULL;
	default:
		return NULL;
	}
}

static struct sr_dev_driver *find_driver(struct sr_context *ctx, const char *name)
{
	struct sr_dev_driver **all = sr_driver_list(ctx);

	for (int i = 0; all && all[i]; i++)
		if (!strcmp(all[i]->name, name))
			return all[i];
	die(EXIT_USAGE, "--driver: \"%s\" is not a driver of this libsigrok (allowed: those that sigrok-cli -L lists)", name);
}

/* The instruments at DRIVER[:key=value...]. */
static GSList *scan(struct sr_context *ctx, const char *spec)
{
	char **part = g_strsplit(spec, ":", -1);
	struct sr_dev_driver *driver = find_driver(ctx, part[0] ? part[0] : "");
	GSList *options = NULL;
	int rc;

	if ((rc = sr_driver_init(ctx, driver)) != SR_OK)
		die(EXIT_SIGROK, "driver %s: %s", part[0], sr_strerror(rc));
	GArray *keys = sr_driver_scan_options_list(driver);

	for (int i = 1; part[i]; i++) {
		char *value = strchr(part[i], '=');

		if (!value)
			die(EXIT_USAGE, "--driver: \"%s\" in \"%s\" is not key=value", part[i], spec);
		*value++ = '\0';
		const struct sr_key_info *info = sr_key_info_name_get(SR_KEY_CONFIG, part[i]);

		if (!info || !has_key(keys, info->key))
			die(EXIT_USAGE, "--driver: %s has no option \"%s\" (allowed: %s)", part[0], part[i], key_names(keys));
		struct sr_config *option = g_new0(struct sr_config, 1);

		option->key = info->key;
		option->data = parse_value(info, value);
		if (!option->data)
			die(EXIT_USAGE, "--driver: \"%s\" is no value for %s", value, part[i]);
		g_variant_ref_sink(option->data);
		options = g_slist_append(options, option);
	}

	GSList *found = sr_driver_scan(driver, options);

	if (!found)
		die(EXIT_NOT_FOUND, "no instrument answers at %s", spec);
	g_strfreev(part);
	return found;
}

struct sr_dev_inst *device_open(struct sr_context *ctx, const char *spec)
{
	GSList *found = scan(ctx, spec);
	int rc;

	if (found->next)
		fprintf(stderr, "srcap: %u instruments at %s, taking the first\n", g_slist_length(found), spec);
	struct sr_dev_inst *sdi = found->data;

	g_slist_free(found);
	if ((rc = sr_dev_open(sdi)) != SR_OK)
		die(EXIT_NOT_FOUND, "cannot open %s: %s", spec, sr_strerror(rc));
	return sdi;
}

static struct sr_channel *channel_named(const struct sr_dev_inst *sdi, const char *name)
{
	for (GSList *l = sr_dev_inst_channels_get(sdi); l; l = l->next) {
		struct sr_channel *ch = l->data;

		if (!strcmp(ch->name, name))
			return ch;
	}
	return NULL;
}

static char *channel_names(const struct sr_dev_inst *sdi)
{
	GString *out = g_string_new(NULL);

	for (GSList *l = sr_dev_inst_channels_get(sdi); l; l = l->next)
		g_string_append_printf(out, "%s%s", out->len ? ", " : "", ((struct sr_channel *)l->data)->name);
	return g_string_free(out, FALSE);
}

void device_select(const struct sr_dev_inst *sdi, const char *names, struct channels *chosen)
{
	char **name = g_strsplit(names, ",", -1);

	chosen->count = 0;
	for (int i = 0; name[i]; i++) {
		struct sr_channel *ch = channel_named(sdi, name[i]);

		if (!ch)
			die(EXIT_USAGE, "--channels: the instrument has no \"%s\" (allowed: %s)", name[i], channel_names(sdi));
		for (int k = 0; k < chosen->count; k++)
			if (chosen->at[k] == ch)
				die(EXIT_USAGE, "--channels: \"%s\" is named twice", name[i]);
		if (chosen->count == MAX_CHANNELS)
			die(EXIT_USAGE, "--channels: more than %d channels", MAX_CHANNELS);
		chosen->at[chosen->count++] = ch;
	}
	g_strfreev(name);

	for (GSList *l = sr_dev_inst_channels_get(sdi); l; l = l->next) {
		struct sr_channel *ch = l->data;
		gboolean wanted = FALSE;

		for (int k = 0; k < chosen->count; k++)
			wanted |= chosen->at[k] == ch;
		sr_dev_channel_enable(ch, wanted);
	}
}

static struct sr_channel_group *group_named(const struct sr_dev_inst *sdi, const char *name)
{
	for (GSList *l = sr_dev_inst_channel_groups_get(sdi); l; l = l->next) {
		struct sr_channel_group *group = l->data;

		if (!strcmp(group->name, name))
			return group;
	}
	return NULL;
}

static char *group_names(const struct sr_dev_inst *sdi)
{
	GString *out = g_string_new(NULL);

	for (GSList *l = sr_dev_inst_channel_groups_get(sdi); l; l = l->next)
		g_string_append_printf(out, "%s%s", out->len ? ", " : "", ((struct sr_channel_group *)l->data)->name);
	if (!out->len)
		g_string_append(out, "none");
	return g_string_free(out, FALSE);
}

/* A switch that stays where it is is found by asking it; what cannot be asked is believed. */
static char *read_back(const struct sr_dev_inst *sdi, struct sr_channel_group *group, const struct sr_key_info *info, gboolean wanted)
{
	GVariant *data = NULL;
	char *problem = NULL;

	if (sr_config_get(sr_dev_inst_driver_get(sdi), sdi, group, info->key, &data) != SR_OK)
		return NULL;
	if (g_variant_is_of_type(data, G_VARIANT_TYPE_BOOLEAN) && g_variant_get_boolean(data) != wanted)
		problem = g_strdup_printf("%s=%s: the instrument says that it is %s", info->id, wanted ? "on" : "off", wanted ? "off" : "on");
	g_variant_unref(data);
	return problem;
}

static char *set_of_group(const struct sr_dev_inst *sdi, struct sr_channel_group *group, const char *key, const char *value)
{
	const struct sr_key_info *info = sr_key_info_name_get(SR_KEY_CONFIG, key);
	GArray *keys = sr_dev_options(sr_dev_inst_driver_get(sdi), sdi, group);
	char *problem = NULL;

	if (!info || !has_key(keys, info->key)) {
		char *allowed = key_names(keys);

		problem = g_strdup_printf("the instrument%s%s has no option \"%s\" (allowed: %s)", group ? "'s group " : "",
			group ? group->name : "", key, allowed);
		g_free(allowed);
	} else {
		GVariant *data = parse_value(info, value);
		int is_switch = info->datatype == SR_T_BOOL, wanted = data && is_switch && g_variant_get_boolean(data);
		int rc;

		/* sr_config_set takes the floating reference over. */
		if (!data)
			problem = g_strdup_printf("\"%s\" is no value for %s", value, key);
		else if ((rc = sr_config_set(sdi, group, info->key, data)) != SR_OK)
			problem = g_strdup_printf("%s=%s: %s", key, value, sr_strerror(rc));
		else if (is_switch)
			problem = read_back(sdi, group, info, wanted);
	}
	if (keys)
		g_array_free(keys, TRUE);
	return problem;
}

char *device_set(const struct sr_dev_inst *sdi, const char *key, const char *value)
{
	const char *dot = strrchr(key, '.');
	char *problem;

	if (!dot)
		return set_of_group(sdi, NULL, key, value);
	char *name = g_strndup(key, (gsize)(dot - key));
	struct sr_channel_group *group = group_named(sdi, name);

	if (group) {
		problem = set_of_group(sdi, group, dot + 1, value);
	} else {
		char *allowed = group_names(sdi);

		problem = g_strdup_printf("the instrument has no group \"%s\" of channels (allowed: %s)", name, allowed);
		g_free(allowed);
	}
	g_free(name);
	return problem;
}

void device_set_pair(const struct sr_dev_inst *sdi, const char *pair)
{
	char *key = g_strdup(pair);
	char *value = strchr(key, '=');

	if (!value)
		die(EXIT_USAGE, "--set: \"%s\" is not key=value", pair);
	*value++ = '\0';
	char *problem = device_set(sdi, key, value);

	if (problem)
		die(EXIT_USAGE, "--set: %s", problem);
	g_free(key);
}

static void append_pair(GString *out, const char *key, const char *value)
{
	char *quoted = json_quote(value);

	g_string_append_printf(out, ",\"%s\":%s", key, quoted);
	g_free(quoted);
}

static void append_identity(GString *out, const struct sr_dev_inst *sdi)
{
	const char *name = sr_dev_inst_driver_get(sdi)->name;

	g_string_append(out, "\"driver\":");
	char *quoted = json_quote(name);

	g_string_append(out, quoted);
	g_free(quoted);
	append_pair(out, "vendor", sr_dev_inst_vendor_get(sdi));
	append_pair(out, "model", sr_dev_inst_model_get(sdi));
	append_pair(out, "version", sr_dev_inst_version_get(sdi));
	append_pair(out, "serial", sr_dev_inst_sernum_get(sdi));
}

static void append_channel(GString *out, const struct sr_channel *ch, int first)
{
	char *name = json_quote(ch->name);

	g_string_append_printf(out, "%s{\"name\":%s,\"type\":\"%s\",\"index\":%d}", first ? "" : ",", name,
		ch->type == SR_CHANNEL_LOGIC ? "logic" : "analog", ch->index);
	g_free(name);
}

char *device_scan(struct sr_context *ctx, const char *spec)
{
	GString *out = g_string_new("[");

	for (GSList *l = scan(ctx, spec); l; l = l->next) {
		struct sr_dev_inst *sdi = l->data;
		const char *connection = sr_dev_inst_connid_get(sdi);

		g_string_append(out, out->len > 1 ? ",{" : "{");
		append_identity(out, sdi);
		append_pair(out, "connection", connection ? connection : "");
		g_string_append(out, ",\"channels\":[");
		for (GSList *c = sr_dev_inst_channels_get(sdi); c; c = c->next)
			append_channel(out, c->data, c == sr_dev_inst_channels_get(sdi));
		g_string_append(out, "]}");
	}
	g_string_append_c(out, ']');
	return g_string_free(out, FALSE);
}

char *device_start_event(const struct sr_dev_inst *sdi, const struct channels *chosen)
{
	const struct sr_dev_driver *driver = sr_dev_inst_driver_get(sdi);
	GString *out = g_string_new("{\"event\":\"start\",");
	GVariant *rate = NULL;
	uint64_t hz = 0;

	append_identity(out, sdi);
	if (sr_config_get(driver, sdi, NULL, SR_CONF_SAMPLERATE, &rate) == SR_OK) {
		hz = g_variant_get_uint64(rate);
		g_variant_unref(rate);
	}
	g_string_append_printf(out, ",\"samplerate_hz\":%" G_GUINT64_FORMAT ",\"channels\":[", hz);
	for (int i = 0; i < chosen->count; i++)
		append_channel(out, chosen->at[i], i == 0);
	g_string_append(out, "]}");
	return g_string_free(out, FALSE);
}
