/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The twin's drive as NVMe's: its facts, and its functions (controller.h). */
#ifndef JOULERIG_NVME_BACKEND_H
#define JOULERIG_NVME_BACKEND_H

#include "drive.h"
#include "nvme/controller.h"

struct nvme_backend {
	struct drive *drive;
	double rated_erases; /* 0: no percentage used */
	struct nvme_facts facts;
	struct nvme_drive functions;
};

/* The facts that are the drive's models' own; the rest of backend->facts is the caller's. */
void nvme_backend_begin(struct nvme_backend *backend, struct drive *drive);

#endif
