/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control socket of a virtual drive: docs/reference/protocols/twin.md, "Twin". */
#ifndef JOULERIG_TRUTH_H
#define JOULERIG_TRUTH_H

#include "drive.h"

#include <stddef.h>

struct truth;

/* Listens on the unix socket `path`. A socket left by a twin that is gone is
 * replaced; one that somebody listens on is refused. NULL on failure, with one
 * line in error. */
struct truth *truth_listen(const char *path, char *error, size_t error_size);

/* Starts the thread that serves `drive`, whose power model must exist. */
int truth_start(struct truth *truth, struct drive *drive);

/* Ends the thread, closes all clients, removes the socket. */
void truth_stop(struct truth *truth);

#endif
