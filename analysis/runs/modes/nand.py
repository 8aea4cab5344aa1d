# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes that a run's drive received and programmed, by its own counts before the run and after it.

These counts hold the run's other phases too, so that their rise is no figure of the load; their
ratio, the write amplification, is taken for its.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joulerig.analysis.energy import meters
from joulerig.analysis.results.campaign import UNIT_BYTES, ResultsError, Run

OCP_NAND = "physical_media_units_written"  # bytes, of OCP's extended health log (C0h)
ATA_NAND = {"NAND_Writes_1GiB": 2**30, "NAND_Writes_32MiB": 2**25}
ATA_HOST = {"Host_Writes_GiB": 2**30, "Host_Writes_32MiB": 2**25, "Total_LBAs_Written": 512}
"""Vendors' SMART attributes, by smartmontools' names, with the bytes of a unit."""
FEWEST_UNITS = 20  # that a count has to rise by: its last unit is then 5 % at most


@dataclass(frozen=True)
class Rise:
    """The rise of a drive's counts in a run, in bytes, and the unit of each count."""

    host: float
    nand: float
    host_unit: float
    nand_unit: float

    @property
    def is_fine(self) -> bool:
        return min(self.host, self.nand) >= FEWEST_UNITS * max(self.host_unit, self.nand_unit)


def rise(run: Run) -> Rise | None:
    """Return the rise of the counts of a run's drive; None where its reports do not have both.

    None also where a count fell, as after an exchange of the drive, and where a report is damaged.
    """
    try:
        before, after = (_counts(report, run.drive) for report in (run.health_before, run.health_after))
    except ResultsError:
        return None
    if before is None or after is None:
        return None
    host, nand = after[0] - before[0], after[1] - before[1]
    return Rise(host, nand, *after[2:]) if host >= 0 and nand >= 0 else None


def _counts(report: Mapping[str, Any], drive: str) -> tuple[float, float, float, float] | None:
    """Return bytes from the host, bytes to NAND, and the unit of each, of a health report."""
    own = report.get(drive, report)
    if not isinstance(own, Mapping):
        return None
    nand, host = _whole(own.get(OCP_NAND)), _whole(own.get("data_units_written"))
    if nand is not None and host is not None:
        return host * UNIT_BYTES, nand, UNIT_BYTES, 1.0
    attributes = meters.subtree(own, "ata_smart_attributes").get("table")
    values = {
        str(one.get("name")): _whole(meters.subtree(one, "raw").get("value"))
        for one in (attributes if isinstance(attributes, list) else [])
        if isinstance(one, Mapping)
    }
    to_nand, from_host = (_first(values, units) for units in (ATA_NAND, ATA_HOST))
    if to_nand is None or from_host is None:
        return None
    return from_host[0], to_nand[0], from_host[1], to_nand[1]


def _first(values: Mapping[str, float | None], units: Mapping[str, int]) -> tuple[float, float] | None:
    for name, unit in units.items():
        if (value := values.get(name)) is not None:
            return value * unit, unit
    return None


def _whole(value: Any) -> float | None:
    """Return a count; nvme-cli writes those of 128 bits in halves."""
    if isinstance(value, Mapping) and isinstance(value.get("lo"), int):
        high = value.get("hi")
        return float((high if isinstance(high, int) else 0) * 2**64 + value["lo"])
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else None
