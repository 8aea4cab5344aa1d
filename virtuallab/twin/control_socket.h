/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The control socket of a virtual drive (docs/reference/protocols/twin.md), and
 * the thread that serves it. The thread also does what the drive does without
 * being asked: it ends a hold-up, makes old writes durable, keeps the models and
 * the health file up to date.
 *
 * The three functions are called by nbdkit's main thread, in this order. The
 * socket's thread takes the drive's locks (drive.h); the caller holds none.
 */
#ifndef JOULERIG_CONTROL_SOCKET_H
#define JOULERIG_CONTROL_SOCKET_H

#include "drive.h"

#include <stddef.h>

struct control_socket;

/* Listens on the unix socket `path`. A socket left by a twin that is gone is
 * replaced; one that a process listens on is refused. NULL on failure, with one
 * line in error. */
struct control_socket *control_socket_listen(const char *path, char *error, size_t error_size);

/* Starts the thread that serves `drive`, which must be complete. 0, or an errno. */
int control_socket_start(struct control_socket *control, struct drive *drive);

/* Ends the thread, disconnects all clients, removes the socket, frees. NULL: nothing. */
void control_socket_stop(struct control_socket *control);

#endif
