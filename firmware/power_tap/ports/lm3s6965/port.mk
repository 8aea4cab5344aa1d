# SPDX-License-Identifier: GPL-3.0-or-later
# The Cortex-M3 image: part of the firmware's Makefile. `make lm3s6965` makes
# $(BUILD)/power_tap_lm3s6965.elf.
LM3S = ports/lm3s6965
LM3S_SOURCES = $(LM3S)/startup.c $(LM3S)/main.c $(LM3S)/clock.c $(LM3S)/uart.c $(LM3S)/i2c.c $(LM3S)/rails.c
# Samples per second. The conversions of four rails take 1 ms of a 400 kHz bus.
LM3S_RATE_HZ ?= 500
# What 64 KiB of RAM hold: two seconds of samples at 500 Hz.
LM3S_DEFINES = -DTAP_RATE_HZ=$(LM3S_RATE_HZ) -DTAP_RING_SAMPLES=1024 -DTAP_WINDOW_SAMPLES=128
LM3S_CC ?= arm-none-eabi-gcc
LM3S_FLAGS = -mcpu=cortex-m3 -mthumb -Os -g -ffunction-sections -fdata-sections -ffreestanding

.PHONY: lm3s6965
lm3s6965: $(BUILD)/power_tap_lm3s6965.elf

$(BUILD)/power_tap_lm3s6965.elf: $(CORE) $(MONITORS) $(LM3S_SOURCES) $(HEADERS) $(wildcard monitors/*.h $(LM3S)/*.h) \
		$(LM3S)/lm3s6965.ld $(LM3S)/port.mk Makefile
	@mkdir -p $(BUILD)
	$(LM3S_CC) $(STRICT) $(LM3S_FLAGS) $(LM3S_DEFINES) -Icore -Imonitors -I$(LM3S) \
		-nostartfiles --specs=nano.specs -Wl,--gc-sections -Wl,--fatal-warnings -T $(LM3S)/lm3s6965.ld \
		-o $@ $(LM3S_SOURCES) $(MONITORS) $(CORE)

# With the tests, and not with `all`: who uses a virtual lab needs no toolchain.
test: lm3s6965

.PHONY: clean-lm3s6965
clean-lm3s6965:
	rm -f $(BUILD)/power_tap_lm3s6965.elf
clean: clean-lm3s6965

.PHONY: check-lm3s6965
check-lm3s6965:
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
		$(LM3S_DEFINES) -Icore -Imonitors -I$(LM3S) $(LM3S_SOURCES)
check: check-lm3s6965
