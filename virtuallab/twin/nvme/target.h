/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The NVMe subsystem of one drive, served by TCP: its port, the controllers that hosts
 * have made by connecting, and their queues.
 *
 * The drive is one host's at a time, as on a bus. A host that connects again takes the
 * place of its former self, whose connections a reset may have left behind. A drive that
 * loses its power takes no leave: its connections end.
 */
#ifndef JOULERIG_NVME_TARGET_H
#define JOULERIG_NVME_TARGET_H

#include "nvme/controller.h"

struct nvme_target;

/* Listens on "ADDRESS:PORT" of IPv4. What it is given must live as long. NULL, and one
 * line in error. */
struct nvme_target *nvme_target_listen(const char *address, const struct nvme_facts *facts,
				       const struct nvme_drive *drive, char *error, size_t error_size);
/* Begins to serve, by threads. 0, or an errno. */
int nvme_target_start(struct nvme_target *target);
/* Ends all connections, and waits until nothing of them is under way. */
void nvme_target_stop(struct nvme_target *target);

#endif
