/* SPDX-License-Identifier: GPL-3.0-or-later */
/* When what an instrument sent over TCP reached this machine. */
#ifndef SRCAP_TCP_H
#define SRCAP_TCP_H

#include "frame.h"

/* When the last byte that was received came in, by the kernel's own stamp; `now` where there is
 * none. */
struct stamp tcp_arrival(struct stamp now);

#endif
