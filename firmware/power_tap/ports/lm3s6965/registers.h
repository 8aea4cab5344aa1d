/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The registers that this port uses: LM3S6965 data sheet, ARMv7-M reference manual. */
#ifndef JOULERIG_REGISTERS_H
#define JOULERIG_REGISTERS_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))

/* System control: data sheet, chapter 5. */
#define SYSCTL_RIS REGISTER(0x400fe050)
#define SYSCTL_RIS_PLL_LOCKED (1u << 6)
#define SYSCTL_RCC REGISTER(0x400fe060)
#define SYSCTL_RCC_MAIN_OSCILLATOR_OFF (1u << 0)
#define SYSCTL_RCC_SOURCE_MASK (3u << 4) /* 0: main oscillator */
#define SYSCTL_RCC_XTAL_MASK (15u << 6)
#define SYSCTL_RCC_XTAL_8_MHZ (14u << 6)
#define SYSCTL_RCC_BYPASS (1u << 11)
#define SYSCTL_RCC_POWER_DOWN (1u << 13)
#define SYSCTL_RCC_USE_DIVISOR (1u << 22)
#define SYSCTL_RCC_DIVISOR_MASK (15u << 23)
#define SYSCTL_RCC_DIVIDE_BY_4 (3u << 23)
#define SYSCTL_RCGC1 REGISTER(0x400fe104)
#define SYSCTL_RCGC1_UART0 (1u << 0)
#define SYSCTL_RCGC1_UART1 (1u << 1)
#define SYSCTL_RCGC1_I2C0 (1u << 12)
#define SYSCTL_RCGC1_TIMER0 (1u << 16)
#define SYSCTL_RCGC2 REGISTER(0x400fe108)
#define SYSCTL_RCGC2_GPIO(port) (1u << (port))

/* GPIO: chapter 8. Bits 9:2 of the data register's address are its mask. */
#define GPIO_A 0u
#define GPIO_B 1u
#define GPIO_D 3u
#define GPIO_E 4u
#define GPIO_BASE(port) (0x40004000u + 0x1000u * (port) + ((port) < 4u ? 0u : 0x1c000u))
#define GPIO_DATA(port, mask) REGISTER(GPIO_BASE(port) + ((mask) << 2))
#define GPIO_DIRECTION(port) REGISTER(GPIO_BASE(port) + 0x400)
#define GPIO_ALTERNATE(port) REGISTER(GPIO_BASE(port) + 0x420)
#define GPIO_OPEN_DRAIN(port) REGISTER(GPIO_BASE(port) + 0x50c)
#define GPIO_PULL_UP(port) REGISTER(GPIO_BASE(port) + 0x510)
#define GPIO_DIGITAL(port) REGISTER(GPIO_BASE(port) + 0x51c)

/* General-purpose timer 0: chapter 9. */
#define TIMER0_CONFIGURATION REGISTER(0x40030000) /* 0: one 32-bit timer */
#define TIMER0_MODE REGISTER(0x40030004)
#define TIMER0_MODE_PERIODIC 2
#define TIMER0_CONTROL REGISTER(0x4003000c)
#define TIMER0_CONTROL_ENABLE 1
#define TIMER0_INTERRUPT_MASK REGISTER(0x40030018)
#define TIMER0_INTERRUPT_CLEAR REGISTER(0x40030024)
#define TIMER0_INTERRUPT_TIMEOUT 1
#define TIMER0_LOAD REGISTER(0x40030028)

/* UARTs: chapter 11. */
#define UART_BASE(n) (0x4000c000u + 0x1000u * (n))
#define UART_DATA(n) REGISTER(UART_BASE(n) + 0x000)
#define UART_DATA_ERRORS 0xf00
#define UART_FLAGS(n) REGISTER(UART_BASE(n) + 0x018)
#define UART_FLAGS_RECEIVE_EMPTY (1u << 4)
#define UART_FLAGS_TRANSMIT_FULL (1u << 5)
#define UART_BAUD_INTEGER(n) REGISTER(UART_BASE(n) + 0x024)
#define UART_BAUD_FRACTION(n) REGISTER(UART_BASE(n) + 0x028)
#define UART_LINE(n) REGISTER(UART_BASE(n) + 0x02c)
#define UART_LINE_FIFO (1u << 4)
#define UART_LINE_8_BITS (3u << 5)
#define UART_CONTROL(n) REGISTER(UART_BASE(n) + 0x030)
#define UART_CONTROL_ENABLE 0x301 /* the UART, its transmitter, its receiver */
#define UART_INTERRUPT_MASK(n) REGISTER(UART_BASE(n) + 0x038)
#define UART_INTERRUPT_CLEAR(n) REGISTER(UART_BASE(n) + 0x044)
#define UART_INTERRUPT_RECEIVE ((1u << 4) | (1u << 6)) /* FIFO level, time-out */

/* I2C master 0: chapter 13. */
#define I2C0_ADDRESS REGISTER(0x40020000)
#define I2C0_ADDRESS_READ 1
#define I2C0_CONTROL REGISTER(0x40020004)
#define I2C0_CONTROL_RUN (1u << 0)
#define I2C0_CONTROL_START (1u << 1)
#define I2C0_CONTROL_STOP (1u << 2)
#define I2C0_CONTROL_ACK (1u << 3)
#define I2C0_STATUS_BUSY (1u << 0)
#define I2C0_STATUS_ERROR (1u << 1)
#define I2C0_STATUS_ARBITRATION_LOST (1u << 4)
#define I2C0_DATA REGISTER(0x40020008)
#define I2C0_TIMER_PERIOD REGISTER(0x4002000c)
#define I2C0_CONFIGURATION REGISTER(0x40020020)
#define I2C0_CONFIGURATION_MASTER (1u << 4)

/* ARMv7-M: SysTick, NVIC, system control block. */
#define SYSTICK_CONTROL REGISTER(0xe000e010)
#define SYSTICK_CONTROL_ENABLE (1u << 0)
#define SYSTICK_CONTROL_CORE_CLOCK (1u << 2)
#define SYSTICK_RELOAD REGISTER(0xe000e014)
#define SYSTICK_VALUE REGISTER(0xe000e018)
#define SYSTICK_MASK 0xffffffu
#define NVIC_ENABLE REGISTER(0xe000e100)
#define NVIC_PRIORITY(interrupt) (*(volatile uint8_t *)(0xe000e400u + (interrupt)))
#define SCB_INTERRUPT_CONTROL REGISTER(0xe000ed04)
#define SCB_INTERRUPT_CONTROL_PEND_PENDSV (1u << 28)
#define SCB_PENDSV_PRIORITY (*(volatile uint8_t *)0xe000ed22)

#define INTERRUPT_UART0 5
#define INTERRUPT_UART1 6
#define INTERRUPT_TIMER0A 19

/* The upper three bits count; the lower the number, the more urgent. */
#define PRIORITY_CLOCK 0x20
#define PRIORITY_UART 0x40
#define PRIORITY_CONVERSION 0xe0

#define CORE_CLOCK_HZ 50000000u

#endif
