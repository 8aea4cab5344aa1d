/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libsigrok's complaints on stderr, but not all that it says when an instrument dies: some
 * drivers complain without end. */
#ifndef SRCAP_LOG_H
#define SRCAP_LOG_H

/* From now on libsigrok's errors go through here. */
void log_init(void);

#endif
