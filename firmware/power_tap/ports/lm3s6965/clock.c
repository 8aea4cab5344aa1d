/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sample clock: timer 0's interrupt counts ticks and does nothing else, so
 * it is never late enough to lose one; the conversions follow in the PendSV
 * exception, the least urgent of all. SysTick runs freely alongside and shows
 * whether several of the timer's periods have passed between
 * two of its interrupts nevertheless (a debugger, an emulator that was not given the
 * processor): these are counted as ticks. So the number of a sample stays the
 * time, over gaps of up to SysTick's round of 335 ms.
 */
#include "port.h"
#include "registers.h"

#define NS_PER_SECOND 1000000000LL
#define PERIOD (CORE_CLOCK_HZ / TAP_RATE_HZ)

_Static_assert(CORE_CLOCK_HZ % TAP_RATE_HZ == 0, "the rate has to divide the core's clock");
_Static_assert(PERIOD < SYSTICK_MASK / 4, "SysTick has to go round less often than the sample clock");

/* A tick's number has 64 bits, of which the interrupt writes the halves. */
static volatile uint32_t ticks_low, ticks_high;
static uint32_t last_value; /* SysTick's, which counts down */
static uint32_t behind;	    /* clocks by which the last tick's interrupt was late */

void on_timer(void);

void on_timer(void)
{
	uint32_t value = SYSTICK_VALUE;
	uint32_t passed = 1;

	TIMER0_INTERRUPT_CLEAR = TIMER0_INTERRUPT_TIMEOUT;
	behind += (last_value - value) & SYSTICK_MASK;
	last_value = value;
	/* Late is measured from the least late interrupt: what its delay was
	 * cannot be known and does not matter. */
	if (behind < PERIOD) {
		behind = 0;
	} else {
		passed = behind / PERIOD;
		behind %= PERIOD;
	}
	if (ticks_low + passed < ticks_low)
		ticks_high++;
	ticks_low += passed;
	SCB_INTERRUPT_CONTROL = SCB_INTERRUPT_CONTROL_PEND_PENDSV;
}

void clock_start(void)
{
	SYSCTL_RCGC1 |= SYSCTL_RCGC1_TIMER0;
	SCB_PENDSV_PRIORITY = PRIORITY_CONVERSION;
	SYSTICK_RELOAD = SYSTICK_MASK;
	SYSTICK_VALUE = 0;
	SYSTICK_CONTROL = SYSTICK_CONTROL_ENABLE | SYSTICK_CONTROL_CORE_CLOCK;
	TIMER0_CONTROL = 0;
	TIMER0_CONFIGURATION = 0;
	TIMER0_MODE = TIMER0_MODE_PERIODIC;
	TIMER0_LOAD = PERIOD - 1;
	TIMER0_INTERRUPT_MASK = TIMER0_INTERRUPT_TIMEOUT;
	NVIC_PRIORITY(INTERRUPT_TIMER0A) = PRIORITY_CLOCK;
	last_value = SYSTICK_VALUE;
	TIMER0_CONTROL = TIMER0_CONTROL_ENABLE;
	NVIC_ENABLE = 1u << INTERRUPT_TIMER0A;
}

uint32_t clock_ticks(void)
{
	return ticks_low;
}

int64_t clock_now_ns(void)
{
	uint32_t high, low;

	do {
		high = ticks_high;
		low = ticks_low;
	} while (high != ticks_high);
	return (int64_t)((uint64_t)high << 32 | low) * (NS_PER_SECOND / TAP_RATE_HZ);
}

void clock_hold_conversions(void)
{
	__asm__ volatile("msr basepri, %0" : : "r"(PRIORITY_CONVERSION) : "memory");
}

void clock_release_conversions(void)
{
	__asm__ volatile("msr basepri, %0" : : "r"(0) : "memory");
}
