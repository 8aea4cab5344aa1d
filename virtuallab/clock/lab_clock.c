/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Preloaded into a program, answers its clocks by the page that JOULERIG_LAB_CLOCK
 * names, and makes its waits last as long on the lab's clock as it asked for. Without
 * a page the program has the machine's own clocks.
 *
 * A wait is done in slices of the wall: the lab may become faster or slower in the
 * middle of it. What waits on a condition is woken after a slice, as POSIX allows,
 * since it alone knows whether what it waits for has come meanwhile.
 *
 * Not covered, as neither QEMU nor nbdkit nor srcap waits by them: timerfd, POSIX
 * timers, io_uring's time-outs, and futexes without libc (GLib's GCond).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "lab_clock.h"
#include "page.h"

#define NS_PER_SECOND 1000000000LL
#define SLICE_NS 20000000LL
#define NEVER INT64_MAX

static const struct clock_page *page;

/* libc's own functions. */
#define REAL(name) static __typeof__(name) *real_##name
REAL(clock_gettime);
REAL(clock_nanosleep);
REAL(ppoll);
REAL(pselect);
REAL(epoll_pwait);
REAL(pthread_cond_timedwait);
REAL(pthread_cond_clockwait);
REAL(sem_timedwait);
REAL(sem_clockwait);

#define FIND(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name)

static void find_functions(void)
{
	FIND(clock_nanosleep);
	FIND(ppoll);
	FIND(pselect);
	FIND(epoll_pwait);
	FIND(pthread_cond_timedwait);
	FIND(pthread_cond_clockwait);
	FIND(sem_timedwait);
	FIND(sem_clockwait);
	FIND(clock_gettime);
}

static const struct clock_page *map_page(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	const struct clock_page *found;

	if (file < 0)
		return NULL;
	found = mmap(NULL, sizeof(*found), PROT_READ, MAP_SHARED, file, 0);
	close(file);
	if (found == MAP_FAILED)
		return NULL;
	return found->magic == CLOCK_PAGE_MAGIC ? found : NULL;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("JOULERIG_LAB_CLOCK");

	find_functions();
	if (!path || !*path)
		return;
	page = map_page(path);
	if (!page) {
		/* A program of the lab on another clock than the lab's would measure nonsense. */
		fprintf(stderr, "lab clock: %s: no page of a lab's clock\n", path);
		_exit(127);
	}
}

static int64_t to_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * NS_PER_SECOND + time->tv_nsec;
}

static struct timespec from_ns(int64_t ns)
{
	int64_t seconds = ns / NS_PER_SECOND, rest = ns % NS_PER_SECOND;

	if (rest < 0) {
		seconds--;
		rest += NS_PER_SECOND;
	}
	return (struct timespec){ .tv_sec = seconds, .tv_nsec = rest };
}

static int64_t wall_now_ns(void)
{
	struct timespec now;

	if (!real_clock_gettime)
		find_functions();
	real_clock_gettime(CLOCK_MONOTONIC, &now);
	return to_ns(&now);
}

static int is_monotonic(clockid_t clock)
{
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
	       clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME;
}

static int is_real(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

/* What to add to a time of this clock of the lab for one of its CLOCK_MONOTONIC. */
static int64_t to_monotonic_ns(clockid_t clock)
{
	return is_real(clock) ? -page->real_ns : 0;
}

static int is_of_the_lab(clockid_t clock)
{
	return page && (is_monotonic(clock) || is_real(clock));
}

static int64_t lab_now_ns(void)
{
	struct clock_lines lines;

	int64_t now_ns = clock_page_read(page, &lines, wall_now_ns);

	return clock_lab_ns(&lines, now_ns);
}

double lab_clock_slowness(void)
{
	struct clock_lines lines;

	if (!page)
		return 1;
	int64_t now_ns = clock_page_read(page, &lines, wall_now_ns);

	return clock_slowness_at(&lines, now_ns);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!is_of_the_lab(clock)) {
		if (!real_clock_gettime)
			find_functions();
		return real_clock_gettime(clock, time);
	}
	*time = from_ns(lab_now_ns() - to_monotonic_ns(clock));
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec time;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &time);
	now->tv_sec = time.tv_sec;
	now->tv_usec = time.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *place)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (place)
		*place = now.tv_sec;
	return now.tv_sec;
}

/* The next slice of a wait until `end_ns` (lab, monotonic): how long it lasts on the
 * wall; 0 where the wait is over. */
static int64_t slice_ns(int64_t end_ns)
{
	struct clock_lines lines;
	int64_t now_ns, rest_ns;

	if (end_ns == NEVER)
		return SLICE_NS;
	now_ns = clock_page_read(page, &lines, wall_now_ns);
	if (clock_lab_ns(&lines, now_ns) >= end_ns)
		return 0;
	rest_ns = clock_wall_ns(&lines, end_ns) - now_ns;
	return rest_ns < SLICE_NS ? rest_ns : SLICE_NS;
}

/* When a wait of `length` from now ends. */
static int64_t end_of(const struct timespec *length)
{
	int64_t length_ns, now_ns;

	if (!length)
		return NEVER;
	length_ns = length->tv_sec >= NEVER / NS_PER_SECOND - 1 ? NEVER : to_ns(length);
	now_ns = lab_now_ns();
	return length_ns > NEVER - now_ns ? NEVER : now_ns + length_ns;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked, struct timespec *left)
{
	int64_t end_ns, next_ns;

	if (!is_of_the_lab(clock))
		return real_clock_nanosleep(clock, flags, asked, left);
	if (asked->tv_nsec < 0 || asked->tv_nsec >= NS_PER_SECOND || asked->tv_sec < 0)
		return EINVAL;
	end_ns = flags & TIMER_ABSTIME ? to_ns(asked) + to_monotonic_ns(clock) : end_of(asked);
	while ((next_ns = slice_ns(end_ns)) > 0) {
		struct timespec slice = from_ns(next_ns);
		int error = real_clock_nanosleep(CLOCK_MONOTONIC, 0, &slice, NULL);

		if (error) {
			int64_t rest_ns = end_ns - lab_now_ns();

			if (left && !(flags & TIMER_ABSTIME))
				*left = from_ns(rest_ns > 0 ? rest_ns : 0);
			return error;
		}
	}
	return 0;
}

int nanosleep(const struct timespec *asked, struct timespec *left)
{
	int error = clock_nanosleep(CLOCK_MONOTONIC, 0, asked, left);

	if (error)
		errno = error;
	return error ? -1 : 0;
}

int usleep(useconds_t microseconds)
{
	struct timespec length = from_ns((int64_t)microseconds * 1000);

	return nanosleep(&length, NULL);
}

unsigned sleep(unsigned seconds)
{
	struct timespec length = { .tv_sec = seconds }, left = { 0 };

	return nanosleep(&length, &left) ? (unsigned)(left.tv_sec + (left.tv_nsec > 0)) : 0;
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *length, const sigset_t *mask)
{
	int64_t end_ns, next_ns;

	if (!page || !length || (!length->tv_sec && !length->tv_nsec))
		return real_ppoll(files, count, length, mask);
	end_ns = end_of(length);
	do {
		next_ns = slice_ns(end_ns);
		struct timespec slice = from_ns(next_ns);
		int ready = real_ppoll(files, count, &slice, mask);

		if (ready)
			return ready;
	} while (next_ns > 0);
	return 0;
}

static struct timespec *from_milliseconds(int milliseconds, struct timespec *length)
{
	*length = from_ns((int64_t)milliseconds * 1000000);
	return milliseconds < 0 ? NULL : length;
}

int poll(struct pollfd *files, nfds_t count, int milliseconds)
{
	struct timespec length;

	if (!real_ppoll)
		find_functions();
	return ppoll(files, count, from_milliseconds(milliseconds, &length), NULL);
}

int pselect(int count, fd_set *restrict reads, fd_set *restrict writes, fd_set *restrict others,
	    const struct timespec *restrict length, const sigset_t *restrict mask)
{
	fd_set *const given[] = { reads, writes, others };
	fd_set asked[3];
	int64_t end_ns, next_ns;

	if (!page || !length || (!length->tv_sec && !length->tv_nsec))
		return real_pselect(count, reads, writes, others, length, mask);
	for (int one = 0; one < 3; one++)
		if (given[one])
			asked[one] = *given[one];
	end_ns = end_of(length);
	for (;;) {
		next_ns = slice_ns(end_ns);
		struct timespec slice = from_ns(next_ns);
		int ready = real_pselect(count, reads, writes, others, &slice, mask);

		if (ready || next_ns == 0)
			return ready;
		for (int one = 0; one < 3; one++)
			if (given[one])
				*given[one] = asked[one];
	}
}

/* Linux' select says what is left of the time. */
int select(int count, fd_set *restrict reads, fd_set *restrict writes, fd_set *restrict others,
	   struct timeval *restrict length)
{
	struct timespec asked;
	int64_t end_ns = 0;
	int ready;

	if (!real_pselect)
		find_functions();
	if (!length)
		return pselect(count, reads, writes, others, NULL, NULL);
	asked = (struct timespec){ length->tv_sec, length->tv_usec * 1000 };
	if (page)
		end_ns = end_of(&asked);
	ready = pselect(count, reads, writes, others, &asked, NULL);
	if (page) {
		int64_t left_ns = end_ns - lab_now_ns();
		struct timespec left = from_ns(left_ns > 0 ? left_ns : 0);

		*length = (struct timeval){ left.tv_sec, left.tv_nsec / 1000 };
	}
	return ready;
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int milliseconds, const sigset_t *mask)
{
	int64_t end_ns, next_ns;
	struct timespec length;

	if (!page || milliseconds <= 0)
		return real_epoll_pwait(epoll, events, most, milliseconds, mask);
	end_ns = end_of(from_milliseconds(milliseconds, &length));
	do {
		next_ns = slice_ns(end_ns);
		/* Whole milliseconds are what it takes: up, as a wait may be longer. */
		int ready = real_epoll_pwait(epoll, events, most, (int)((next_ns + 999999) / 1000000), mask);

		if (ready)
			return ready;
	} while (next_ns > 0);
	return 0;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds)
{
	if (!real_epoll_pwait)
		find_functions();
	return epoll_pwait(epoll, events, most, milliseconds, NULL);
}

/*
 * The clock of a deadline is an attribute of its condition, which glibc does not tell.
 * The two clocks are decades apart: what is nearer to CLOCK_REALTIME is of it.
 */
static int64_t deadline_ns(const struct timespec *deadline)
{
	int64_t ns = deadline->tv_sec >= NEVER / NS_PER_SECOND ? NEVER : to_ns(deadline);

	return ns > page->real_ns / 2 ? ns - page->real_ns : ns;
}

static int wait_slice(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t end_ns)
{
	int64_t next_ns = slice_ns(end_ns);
	struct timespec until = from_ns(wall_now_ns() + next_ns);
	int error = real_pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &until);

	/* Before its end, a wait that is woken without a signal: the caller looks again. */
	return error == ETIMEDOUT && lab_now_ns() < end_ns ? 0 : error;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
			   const struct timespec *restrict deadline)
{
	if (!page)
		return real_pthread_cond_timedwait(condition, mutex, deadline);
	return wait_slice(condition, mutex, deadline_ns(deadline));
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
			   clockid_t clock, const struct timespec *restrict deadline)
{
	if (!page)
		return real_pthread_cond_clockwait(condition, mutex, clock, deadline);
	return wait_slice(condition, mutex, to_ns(deadline) + to_monotonic_ns(clock));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
	int64_t end_ns, next_ns;

	if (!is_of_the_lab(clock))
		return real_sem_clockwait(semaphore, clock, deadline);
	end_ns = to_ns(deadline) + to_monotonic_ns(clock);
	for (;;) {
		next_ns = slice_ns(end_ns);
		struct timespec until = from_ns(wall_now_ns() + next_ns);

		if (!real_sem_clockwait(semaphore, CLOCK_MONOTONIC, &until))
			return 0;
		if (errno != ETIMEDOUT || next_ns == 0)
			return -1;
	}
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
	if (!page)
		return real_sem_timedwait(semaphore, deadline);
	return sem_clockwait(semaphore, CLOCK_REALTIME, deadline);
}
