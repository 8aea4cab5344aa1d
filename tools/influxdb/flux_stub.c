/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stands for libflux, which is written in Rust, where influxd 1.13 is linked: so it builds with Go
 * and a C compiler alone (build). Flux is switched off in influxd's default configuration: nothing
 * here is called. What is asked for it says that there is no Flux.
 */
#include <stddef.h>

struct buffer {
	char *data;
	size_t length;
};

struct error;
struct tree;

static char no_flux[] = "this influxd has no Flux";
static char empty_table[64];

static struct error *refuse(void)
{
	return (struct error *)no_flux;
}

void flux_get_env_stdlib(struct buffer *types)
{
	*types = (struct buffer){ empty_table, sizeof empty_table };
}

void flux_semantic_packages(struct buffer *packages)
{
	*packages = (struct buffer){ NULL, 0 };
}

const char *flux_error_str(struct error *error)
{
	return (const char *)error;
}

void flux_error_print(struct error *error)
{
	(void)error;
}

void flux_free_error(struct error *error)
{
	(void)error;
}

void flux_free_bytes(const char *bytes)
{
	(void)bytes;
}

struct tree *flux_parse(const char *file, const char *source)
{
	(void)file;
	(void)source;
	return NULL;
}

struct error *flux_parse_json(const char *json, struct tree **tree)
{
	(void)json;
	*tree = NULL;
	return refuse();
}

struct error *flux_ast_format(struct tree *tree, struct buffer *text)
{
	(void)tree;
	(void)text;
	return refuse();
}

struct error *flux_ast_get_error(struct tree *tree, const char *options)
{
	(void)tree;
	(void)options;
	return refuse();
}

struct error *flux_ast_marshal_json(struct tree *tree, struct buffer *json)
{
	(void)tree;
	(void)json;
	return refuse();
}

struct error *flux_merge_ast_pkgs(struct tree *into, struct tree *from)
{
	(void)into;
	(void)from;
	return refuse();
}

void flux_free_ast_pkg(struct tree *tree)
{
	(void)tree;
}

struct tree *flux_new_stateful_analyzer(const char *options)
{
	(void)options;
	return NULL;
}

void flux_free_stateful_analyzer(struct tree *analyzer)
{
	(void)analyzer;
}

struct error *flux_analyze_with(struct tree *analyzer, const char *source, struct tree *tree, struct tree **result)
{
	(void)analyzer;
	(void)source;
	(void)tree;
	*result = NULL;
	return refuse();
}

struct error *flux_analyze(struct tree *tree, const char *options, struct tree **result)
{
	(void)tree;
	(void)options;
	*result = NULL;
	return refuse();
}

struct error *flux_find_var_type(struct tree *tree, const char *name, struct buffer *type)
{
	(void)tree;
	(void)name;
	(void)type;
	return refuse();
}

struct error *flux_semantic_marshal_fb(struct tree *tree, struct buffer *bytes)
{
	(void)tree;
	(void)bytes;
	return refuse();
}

void flux_free_semantic_pkg(struct tree *tree)
{
	(void)tree;
}
