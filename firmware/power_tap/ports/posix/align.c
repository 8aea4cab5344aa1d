/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "align.h"

#include <string.h>

void align_init(struct align *align)
{
	memset(align, 0, sizeof *align);
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
	if ((align->begun && window < align->next_window) || to->count == ALIGN_QUEUE)
		return;
	to->queue[slot].window = window;
	to->queue[slot].volts = volts;
	to->queue[slot].amps = amps;
	to->count++;
}

static void remove_head(struct align_rail *rail)
{
	rail->head = (rail->head + 1) % ALIGN_QUEUE;
	rail->count--;
}

static void begin(struct align *align, int64_t clock_window, bool paced)
{
	align->begun = true;
	align->next_window = clock_window;
	if (!paced)
		return;
	align->next_window = 0;
	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		const struct align_rail *rail = &align->rails[r];

		if (rail->count && rail->queue[rail->head].window > align->next_window)
			align->next_window = rail->queue[rail->head].window;
	}
	for (unsigned r = 0; r < SAMPLER_RAILS; r++) {
		struct align_rail *rail = &align->rails[r];

		while (rail->count && rail->queue[rail->head].window < align->next_window)
			remove_head(rail);
	}
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
	if (!align->begun) {
		begin(align, clock_window, paced);
		return align_take(align, clock_window, sample);
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
		remove_head(rail);
	}
	align->next_window++;
	return true;
}
