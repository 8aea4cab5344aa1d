# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run's drives slowed down because they were hot, by their own counts before and after.

Sources: NVM Express Base Specification 2.0, "SMART / Health Information"; ATA8-ACS, "Temperature
Statistics" of the Device Statistics log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from joulerig.plural import counted

# Counts of nvme smart-log that only rise: what one of them is, and what it is of.
NVME_COUNTS = {
    "thm_temp1_trans_count": ("time", "into light throttling"),
    "thm_temp1_total_time": ("s", "of light throttling"),
    "thm_temp2_trans_count": ("time", "into heavy throttling"),
    "thm_temp2_total_time": ("s", "of heavy throttling"),
    "warning_temp_time": ("min", "above its warning temperature"),
    "critical_comp_time": ("min", "above its critical temperature"),
}
TEMPERATURE_PAST_THRESHOLD = 1 << 1  # of the critical warning
ATA_TIME = "Time in Over-Temperature"  # min


def in_run(before: Any, after: Any, drives: Sequence[str]) -> list[str]:
    """Return how hot drives were in a run, one line a drive that throttled or was past a limit.

    Parameters
    ----------
    before, after : mapping or None
        Health reports, as a run's files have them: JSON of nvme smart-log or of smartctl; with more
        than one drive, these by drive. A drive that reports none is not known to have throttled.
    drives : sequence of str
        The drives of the run.
    """
    found = []
    for drive in drives:
        reports = [_report(one, drive, len(drives)) for one in (before, after)]
        if said := [*_nvme(*reports), *_ata(*reports)]:
            found.append(f"{drive} was hot: {', '.join(said)}")
    return found


def _report(reports: Any, drive: str, count: int) -> Mapping[str, Any]:
    one = reports.get(drive) if count > 1 and isinstance(reports, Mapping) else reports
    return one if isinstance(one, Mapping) else {}


def _nvme(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for key, (unit, what) in NVME_COUNTS.items():
        rise = _rise(before.get(key), after.get(key))
        if rise > 0:
            yield f"{counted(rise, unit) if unit == 'time' else f'{rise} {unit}'} {what}"
    warning = after.get("critical_warning")
    bits = _number(warning.get("value") if isinstance(warning, Mapping) else warning)
    if bits is not None and bits & TEMPERATURE_PAST_THRESHOLD:
        yield "its temperature was past a threshold at the end"


def _ata(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    rise = _rise(_ata_minutes(before), _ata_minutes(after))
    if rise > 0:
        yield f"{rise} min above its highest operating temperature"


def _ata_minutes(report: Mapping[str, Any]) -> Any:
    """Return the minutes in which a disk was too hot; None where it does not count them."""
    statistics = report.get("ata_device_statistics")
    pages = statistics.get("pages") if isinstance(statistics, Mapping) else None
    for page in pages or []:
        for entry in page.get("table") or []:
            if entry.get("name") == ATA_TIME:
                return entry.get("value")
    return None


def _rise(before: Any, after: Any) -> int:
    first, last = _number(before), _number(after)
    return 0 if first is None or last is None else last - first


def _number(value: Any) -> int | None:
    """Return a count; some versions of nvme-cli give it as text."""
    if isinstance(value, str) and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
