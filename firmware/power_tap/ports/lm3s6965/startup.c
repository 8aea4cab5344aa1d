/* SPDX-License-Identifier: GPL-3.0-or-later */
/* From reset to main: vectors, memory, core clock. */
#include "registers.h"

#include <string.h>

/* From the linker script; the sizes are values in the guise of addresses. */
extern uint8_t data_begin[], data_image[], data_size[], bss_begin[], bss_size[], stack_top[];

int main(void);
void reset(void);
void on_timer(void);
void on_uart0(void);
void on_uart1(void);
void on_conversion(void);

/* An unexpected exception. The tap stops, rather than go on with wrong samples. */
static void halt(void)
{
	for (;;)
		__asm__ volatile("bkpt");
}

struct vectors {
	uint8_t *stack;
	void (*exceptions[15])(void);
	void (*interrupts[INTERRUPT_TIMER0A + 1])(void);
};

__attribute__((section(".vectors"), used)) static const struct vectors vectors = {
	.stack = stack_top,
	.exceptions = { reset, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt, halt,
			on_conversion, halt },
	.interrupts = { [INTERRUPT_UART0] = on_uart0,
			[INTERRUPT_UART1] = on_uart1,
			[INTERRUPT_TIMER0A] = on_timer },
};

/* 200 MHz from the board's 8 MHz crystal, divided by 4: data sheet, 5.3. */
static void start_core_clock(void)
{
	uint32_t rcc = SYSCTL_RCC;

	rcc |= SYSCTL_RCC_BYPASS;
	rcc &= ~SYSCTL_RCC_USE_DIVISOR;
	SYSCTL_RCC = rcc;
	rcc &= ~(SYSCTL_RCC_XTAL_MASK | SYSCTL_RCC_SOURCE_MASK | SYSCTL_RCC_POWER_DOWN |
		 SYSCTL_RCC_MAIN_OSCILLATOR_OFF);
	rcc |= SYSCTL_RCC_XTAL_8_MHZ;
	SYSCTL_RCC = rcc;
	rcc &= ~SYSCTL_RCC_DIVISOR_MASK;
	rcc |= SYSCTL_RCC_DIVIDE_BY_4 | SYSCTL_RCC_USE_DIVISOR;
	SYSCTL_RCC = rcc;
	while (!(SYSCTL_RIS & SYSCTL_RIS_PLL_LOCKED))
		;
	SYSCTL_RCC = rcc & ~SYSCTL_RCC_BYPASS;
}

void reset(void)
{
	memcpy(data_begin, data_image, (size_t)data_size);
	memset(bss_begin, 0, (size_t)bss_size);
	start_core_clock();
	main();
	halt();
}
