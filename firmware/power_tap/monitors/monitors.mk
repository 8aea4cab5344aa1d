# SPDX-License-Identifier: GPL-3.0-or-later
# The monitor chips' unit tests: part of the firmware's Makefile.
MONITORS = monitors/adm127x.c monitors/ina22x.c

$(BUILD)/test_tap_monitors: monitors/tests/test_monitors.c $(MONITORS) $(wildcard monitors/*.h) ../../tests/support/check.h Makefile
	@mkdir -p $(BUILD)
	$(CC) $(STRICT) $(SANITIZE) -Imonitors -I../../tests/support -o $@ $< $(MONITORS) -lm

.PHONY: test-monitors clean-monitors
test-monitors: $(BUILD)/test_tap_monitors
	@$<
test: test-monitors

clean-monitors:
	rm -f $(BUILD)/test_tap_monitors
clean: clean-monitors

.PHONY: check-monitors
check-monitors:
	@cppcheck --quiet --std=c11 --enable=warning,performance,portability --error-exitcode=1 -Imonitors $(MONITORS)
	@for file in $(MONITORS); do $(CC) $(STRICT) -O1 -fanalyzer -Imonitors -c -o /dev/null $$file || exit 1; done
check: check-monitors
