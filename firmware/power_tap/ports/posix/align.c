/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "align.h"

#include <string.h>

void align_init(struct align *align, int64_t first_window)
{
	memset(align, 0, sizeof *align);
	align->next_window = first_window;
}

void align_attach(struct align *align, unsigned rail)
{
	align->rails[rail].attached = true;
}

void align_detach(struct align *align, unsigned rail)
{
	align->rails[rail].attached = false;
}

uint32_t align_room(const struct align *align, unsigned rail)
{
	return ALIGN_QUEUE - align->rails[rail].count;
}

void align_put(struct align *align, unsigned rail, int64_t window, float volts, float amps)
{
	struct align_rail *to = &align->rails[rail];
	uint32_t slot = (to->head + to->count) % ALIGN_QUEUE;

	/* That window has been sampled without this rail. */
	if (window < align->next_window || to->count == ALIGN_QUEUE)
		return;
	to->queue[slot].window = window;
	to->queue[slot].volts = volts;
	to->queue[slot].amps = amps;
	to->count++;
}

bool align_take(struct align *align, int64_t clock_window, struct sample *sample)
{
	bool paced = false;

	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		if (align->rails[r].count)
			paced = true;
		else if (align->rails[r].attached)
			return false;
	}
	if (!paced && align->next_window >= clock_window)
		return false;
	memset(sample, 0, sizeof *sample);
	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		struct align_rail *rail = &align->rails[r];

		/* A queue that begins later belongs to a source that was not
		 * there yet. */
		if (rail->count == 0 || rail->queue[rail->head].window != align->next_window)
			continue;
		sample->volts[r] = rail->queue[rail->head].volts;
		sample->amps[r] = rail->queue[rail->head].amps;
		rail->head = (rail->head + 1) % ALIGN_QUEUE;
		rail->count--;
	}
	align->next_window++;
	return true;
}
