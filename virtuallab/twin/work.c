/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "work.h"

const char *work_cause_name(enum work_cause cause)
{
	static const char *const names[WORK_CAUSES] = { "gc", "fold", "seek", "spin_up", "wake" };

	return names[cause];
}

static struct work *item(struct work_queue *queue, unsigned position)
{
	return &queue->items[(queue->first + position) % WORK_QUEUE_SIZE];
}

void work_put(struct work_queue *queue, const struct work *work)
{
	if (work->duration_ns <= 0 && work->bytes == 0)
		return;
	/* The last places are kept for causes of which nothing is in the queue. */
	if (queue->count >= WORK_QUEUE_SIZE - WORK_CAUSES) {
		for (unsigned back = queue->count; back-- > 0;) {
			struct work *last = item(queue, back);

			if (last->cause != work->cause)
				continue;
			last->duration_ns += work->duration_ns;
			last->bytes += work->bytes;
			return;
		}
	}
	*item(queue, queue->count++) = *work;
}

bool work_take(struct work_queue *queue, int64_t time_ns, struct work *work)
{
	if (queue->count == 0 || item(queue, 0)->start_ns > time_ns)
		return false;
	*work = *item(queue, 0);
	queue->first = (queue->first + 1) % WORK_QUEUE_SIZE;
	queue->count--;
	return true;
}

int64_t work_next_ns(const struct work_queue *queue)
{
	return queue->count ? queue->items[queue->first].start_ns : INT64_MAX;
}
