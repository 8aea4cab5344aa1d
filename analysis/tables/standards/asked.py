# SPDX-License-Identifier: GPL-3.0-or-later
"""A quantity that a standard asks for, as a row: with what the rig has, or "not measured"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs.loss_ledger import Ledger

NOT_MEASURED = "not measured"
COLUMNS = {
    "campaign": pl.String,
    "subject": pl.String,
    "section": pl.String,
    "quantity": pl.String,
    "number": pl.Float64,
    "unit": pl.String,
    "text": pl.String,
}


@dataclass(frozen=True)
class Asked:
    """A quantity of a subject (a cell, a drive, a meter), in a section of the standard.

    `number` in `unit`, or `text`; where there is neither, the row says that it was not measured.
    """

    subject: str
    section: str
    quantity: str
    number: float | None = None
    unit: str = ""
    text: str = ""

    @property
    def is_measured(self) -> bool:
        return self.number is not None or bool(self.text)


def table(campaign: Campaign, asked: Iterable[Asked]) -> pl.DataFrame:
    """Return one row for each quantity. Columns: `COLUMNS`."""
    rows = [
        {
            "campaign": campaign.id,
            "subject": one.subject,
            "section": one.section,
            "quantity": one.quantity,
            "number": one.number,
            "unit": one.unit,
            "text": one.text if one.is_measured else NOT_MEASURED,
        }
        for one in asked
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def middle(rows: Iterable[dict[str, Any]], column: str) -> float | None:
    """Return the median of a column over rows of runs; None where no row has it."""
    known = [row[column] for row in rows if row[column] is not None]
    return median(known) if known else None


def instrument(campaign: Campaign, ledger: Ledger) -> Iterable[Asked]:
    """Yield the record of one meter: range, over range, rate, losses, calibration."""
    name = f"meter {ledger.meter}"
    spec = meters.declared(campaign.lab, ledger.meter)
    record = meters.calibration(campaign.provenance, ledger.meter)
    rate = spec.get("sample_rate_hz")
    ranges = ", ".join(f"{quantity} {limit:g}" for quantity, limit in (spec.get("full_scale") or {}).items())
    yield Asked(name, "instrument", "instrument", text=str(spec.get("driver") or ""))
    yield Asked(name, "instrument", "serial", text=str(spec.get("serial") or ""))
    yield Asked(name, "instrument", "range", text=ranges)
    over = ledger.over_range if ranges or ledger.over_range else None
    yield Asked(name, "instrument", "samples over range", over)
    yield Asked(name, "instrument", "sample rate", float(rate) if rate else None, "1/s")
    yield Asked(name, "instrument", "kind of samples", text=str(spec.get("samples") or ""))
    lost = 100 * (1 - ledger.samples / ledger.expected) if ledger.expected else None
    yield Asked(name, "instrument", "samples that are not in the energy", lost, "%")
    yield Asked(name, "instrument", "longest time without a sample", ledger.worst_gap_seconds, "s")
    for key, quantity in (
        ("date", "calibration date"),
        ("expires", "calibration valid to"),
        ("certificate", "calibration certificate"),
    ):
        yield Asked(name, "instrument", quantity, text=str(record.get(key) or ""))
    yield Asked(
        name, "instrument", "what vouches for it",
        text=meters.standing(campaign.lab, campaign.provenance, ledger.meter, ledger.last_ns),
    )  # fmt: skip
    for quantity in ("crest factor", "burden voltage of the current shunt"):
        yield Asked(name, "instrument", quantity)
