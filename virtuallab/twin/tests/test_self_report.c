/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "self_report.h"
#include "check.h"

#include <math.h>
#include <string.h>

#define NOW_MS 1700000000000ull

static struct self_report with_settings(const char *const *texts, unsigned count)
{
	struct self_report report = { .settings = SELF_REPORT_DEFAULTS };
	char error[256];

	for (unsigned n = 0; n < count; n++)
		CHECK(self_report_set(&report.settings, texts[n], error, sizeof error));
	return report;
}

static bool is_close(double found, double expected)
{
	return fabs(found - expected) < 1e-9;
}

static void an_honest_drive_reports_what_it_takes(void)
{
	struct self_report report = with_settings((const char *const[]){ "energy,1,3" }, 1);

	CHECK(report.settings.is_on && report.settings.error_percent == 3);
	CHECK(self_report_watt_hours(&report) == 0);
	self_report_second(&report, 5.5, 2, NOW_MS);
	CHECK(is_close(report.watts, 5.5) && self_report_watt_hours(&report) == 1); /* begun ones count */
	report.lifetime_joules = 3600;
	CHECK(self_report_watt_hours(&report) == 1);
	self_report_second(&report, 1, 1, NOW_MS + 1000);
	CHECK(is_close(report.watts, 1) && self_report_watt_hours(&report) == 2);
}

static void a_measurement_has_its_mean_its_most_and_its_histogram(void)
{
	struct self_report report = with_settings((const char *const[]){ "energy,1" }, 1);
	const struct self_report_measurement *found = &report.measurement;

	CHECK(report.settings.error_percent == SELF_REPORT_ERROR_NOT_STATED);
	self_report_second(&report, 9, 0, NOW_MS);
	CHECK(found->count == 0);
	self_report_start(&report, NOW_MS, 0);
	self_report_second(&report, 0.24, 0, NOW_MS + 1000);
	self_report_second(&report, 0.25, 0, NOW_MS + 2000);
	self_report_second(&report, 15.99, 0, NOW_MS + 3000);
	self_report_second(&report, 16, 0, NOW_MS + 4000);
	CHECK(found->is_running && found->generation == 1 && found->count == 4);
	CHECK(is_close(found->watts_sum, 32.48) && is_close(found->most_watts, 16) && found->most_ms == NOW_MS + 4000);
	CHECK(found->bins[0] == 1 && found->bins[1] == 1 && found->bins[63] == 1 && found->overflow == 1);
	self_report_stop(&report, NOW_MS + 4500);
	self_report_second(&report, 1, 0, NOW_MS + 5000);
	CHECK(!found->is_running && found->count == 4 && found->stopped_ms == NOW_MS + 4500);
	self_report_stop(&report, NOW_MS + 6000); /* it has */
	CHECK(found->stopped_ms == NOW_MS + 4500);
	self_report_start(&report, NOW_MS + 7000, 0);
	CHECK(found->generation == 2 && found->count == 0 && found->stopped_ms == 0 && found->bins[63] == 0);
}

static void it_stops_by_itself_when_the_host_has_said_so(void)
{
	struct self_report report = with_settings((const char *const[]){ "energy,1" }, 1);

	self_report_start(&report, NOW_MS, 1);
	self_report_second(&report, 2, 0, NOW_MS + 60000);
	self_report_second(&report, 2, 0, NOW_MS + 61000);
	CHECK(!report.measurement.is_running && report.measurement.count == 1);
	CHECK(report.measurement.stopped_ms == NOW_MS + 60000);
}

static void a_loss_of_power_leaves_a_gap(void)
{
	struct self_report report = with_settings((const char *const[]){ "energy,1" }, 1);

	self_report_power_on(&report);
	self_report_start(&report, NOW_MS, 0);
	CHECK(!report.measurement.has_gaps);
	self_report_power_on(&report);
	CHECK(report.measurement.has_gaps);
}

static void each_flaw_is_what_its_name_says(void)
{
	struct self_report report = with_settings((const char *const[]){ "energy,1.05,2" }, 1);

	self_report_second(&report, 4, 1, NOW_MS);
	CHECK(is_close(report.watts, 4.2) && report.settings.error_percent == 2);

	report = with_settings((const char *const[]){ "energy,1", "flaw,stuck" }, 2);
	self_report_second(&report, 4, 1, NOW_MS);
	self_report_second(&report, 8, 1, NOW_MS + 1000);
	CHECK(is_close(report.watts, 4) && is_close(report.lifetime_joules, 4));

	report = with_settings((const char *const[]){ "energy,1", "flaw,wraps" }, 2);
	report.lifetime_joules = 65535.0 * 3600;
	CHECK(self_report_watt_hours(&report) == 65535);
	self_report_second(&report, 4, 1, NOW_MS);
	CHECK(self_report_watt_hours(&report) == 0);

	report = with_settings((const char *const[]){ "energy,1", "flaw,resets" }, 2);
	report.lifetime_joules = 7200;
	self_report_power_on(&report);
	CHECK(self_report_watt_hours(&report) == 0);

	report = with_settings((const char *const[]){ "energy,1", "flaw,no_idle" }, 2);
	self_report_second(&report, 4, 1, NOW_MS);
	CHECK(is_close(report.watts, 3));

	report = with_settings((const char *const[]){ "energy,1", "flaw,unit" }, 2);
	self_report_second(&report, 4, 1, NOW_MS);
	CHECK(is_close(report.watts, 40));

	report = with_settings((const char *const[]){ "energy,1", "flaw,histogram" }, 2);
	self_report_start(&report, NOW_MS, 0);
	self_report_second(&report, 4, 1, NOW_MS);
	CHECK(is_close(report.watts, 4) && report.measurement.bins[16] == 0 && report.measurement.bins[20] == 1);
}

static void health_can_be_wrong_too(void)
{
	struct self_report report = with_settings((const char *const[]){ "written,0.5", "temperature,-12.5", "ocp" }, 3);

	CHECK(!report.settings.is_on && report.settings.has_ocp && is_close(report.settings.written_factor, 0.5));
	CHECK(is_close(report.settings.celsius_more, -12.5));
}

static void what_cannot_be_is_refused_in_one_line(void)
{
	static const char *const wrong[] = { "",	     "energy",	      "energy,",      "energy,x",     "energy,-1",
					     "energy,1,",    "energy,1,101",  "energy,1,0.5", "energy,1,2,3", "energy,nan",
					     "flaw,",	     "flaw,lies",     "flaw",	      "written,x",    "written,1,2",
					     "written,1e7", "temperature,1e", "temperature,101", "energyx,1",
					     "ocp,1" };
	struct self_report_settings settings = SELF_REPORT_DEFAULTS;
	char error[256];

	for (unsigned n = 0; n < sizeof wrong / sizeof *wrong; n++) {
		CHECK(!self_report_set(&settings, wrong[n], error, sizeof error));
		CHECK(strstr(error, "allowed are energy,FACTOR") && !strchr(error, '\n'));
	}
	CHECK(!settings.is_on && settings.flaw == FLAW_NONE && is_close(settings.written_factor, 1));
}

int main(void)
{
	an_honest_drive_reports_what_it_takes();
	a_measurement_has_its_mean_its_most_and_its_histogram();
	it_stops_by_itself_when_the_host_has_said_so();
	a_loss_of_power_leaves_a_gap();
	each_flaw_is_what_its_name_says();
	health_can_be_wrong_too();
	what_cannot_be_is_refused_in_one_line();
	return report("self_report");
}
