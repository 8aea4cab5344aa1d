# SPDX-License-Identifier: GPL-3.0-or-later
"""The meters: the ledger of their samples, gaps, clocks, bounds, and their calibration."""

from __future__ import annotations

import re

from joulerig.analysis.results.influxdb.schema import POWER
from joulerig.rig.common.bounded import one_line
from joulerig.rig.grafana.dashboard import Dashboard, Lab, Meter, Variable
from joulerig.rig.grafana.influxql import Queries, tag_values
from joulerig.rig.grafana.panels import AGE, Panel, Query, figures, over_time, row, table, text

RAIL, OF_RAIL = ("meter", "rail", "drive"), "$tag_meter $tag_rail $tag_drive"
LOSSES = ("lost", "duplicate", "repeated", "over_range", "impossible", "surplus")
# They add up to those expected.
BOOKS = ("samples", "lost", "duplicate", "repeated", "over_range", "impossible")
_of = Queries(("meter",))


def dashboard(lab: Lab) -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        "meters",
        "Meters",
        "What became of each meter's samples, and what its joules are worth.",
        variables=(Variable("meter", tag_values("meter", POWER)),),
        panels=(
            row("Ledger"),
            *_ledger(),
            row("Gaps and bounds"),
            *_bounds(),
            row("Calibration"),
            _calibration(lab),
        ),
    )


def _ledger() -> list[Panel]:
    books = "".join(f", {{{one}}}" for one in (*BOOKS, "surplus", "session"))
    booked = " - ".join(f"last({{{one}}})" for one in BOOKS)
    return [
        table(
            "Books of the session",
            "Counted since the session began. Expected are samples, lost, duplicate, repeated and over"
            " range together; surplus ones are in no book.",
            Query(_of.of_range(POWER, 'last({expected}) AS "expected"' + books, RAIL)),
            units=AGE,
        ),
        figures(
            "Samples in no book",
            "short",
            "Expected less what is booked: anything but 0 is a fault of the ledger.",
            Query(_of.of_range(POWER, f'last({{expected}}) - {booked} AS "balance"', RAIL), OF_RAIL),
        ),
        over_time(
            "Samples",
            "hertz",
            "Those that are in the joules, by second.",
            Query(_of.rate(POWER, "samples", RAIL), OF_RAIL),
        ),
        over_time(
            "Losses",
            "hertz",
            "Samples that are not as they should be, by second and book.",
            *(
                Query(
                    _of.rate(POWER, one, RAIL),
                    f"{OF_RAIL} {one}",
                )
                for one in LOSSES
            ),
            least=0,
        ),
    ]


def _bounds() -> list[Panel]:
    return [
        over_time(
            "Time without measurement",
            "percentunit",
            "Fraction of an interval in which a rail was not measured.",
            Query(_of.rate(POWER, "gap_seconds", RAIL), OF_RAIL),
            least=0,
        ),
        over_time(
            "Time without bounds",
            "percentunit",
            "Fraction of an interval for which not even the least and the most of its energy are known.",
            Query(_of.rate(POWER, "unbounded_seconds", RAIL), OF_RAIL),
            least=0,
        ),
        over_time(
            "What gaps leave open",
            "joule",
            "The most less the least that the session's energy can have been.",
            Query(_of.over_time(POWER, "max({joules_high}) - max({joules_low})", RAIL), OF_RAIL),
        ),
        over_time(
            "Clock residual",
            "s",
            "How far the time of samples can be off the controller's clock.",
            Query(_of.over_time(POWER, "max({clock_residual_seconds})", RAIL), OF_RAIL),
        ),
        over_time(
            "Volts",
            "volt",
            "A rail that is measured by its power alone has none.",
            Query(_of.over_time(POWER, "mean({volts})", RAIL), OF_RAIL),
        ),
        over_time(
            "Amperes",
            "amp",
            "A rail that is measured by its power alone has none.",
            Query(_of.over_time(POWER, "mean({amps})", RAIL), OF_RAIL),
        ),
    ]


def _calibration(lab: Lab) -> Panel:
    """Return what the lab's files say of its meters: InfluxDB has nothing of it."""
    rows = ["| meter | driver | samples/s | calibration |", "|---|---|---|---|", *map(_row, lab.meters)]
    words = [
        "As of when this dashboard was provisioned: `ansible-playbook playbooks/grafana.yml` does it again.",
        "",
        *(rows if lab.meters else ["No meter is described."]),
    ]
    return text("Meters of the lab", "\n".join(words), height=4 + len(lab.meters))


def _row(meter: Meter) -> str:
    rate = f"{meter.rate_hz:g}" if meter.rate_hz else "its own"
    state = "; ".join(meter.calibrations) or "none: its class alone counts"
    return f"| {meter.name} | {meter.driver} | {rate} | {_cell(state)} |"


def _cell(text: str) -> str:
    """Return a text that Markdown, and Grafana's variables, leave unchanged."""
    return re.sub(r"[^\w .,:;()/+-]", lambda found: f"&#{ord(found[0])};", one_line(text))
