# SPDX-License-Identifier: GPL-3.0-or-later
"""What versions of drives' tools print, from the figures in tests/fixtures/captures."""

from __future__ import annotations

import csv
import json
from typing import Any

from tests.support import ROOT

Facts = dict[str, str]


def captures(tool: str) -> list[Facts]:
    """Return the captures of a tool: `smartctl`, `smart_log` or `wwn`."""
    with open(ROOT / "tests" / "fixtures" / "captures" / f"{tool}.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def smartctl(facts: Facts) -> str:
    """Return what `smartctl --json --all --log=devstat` prints."""
    version = [int(part) for part in facts["version"].split(".")]
    if version < [6, 7]:
        return f"smartctl {facts['version']} (local build)\n\n=======> UNRECOGNIZED OPTION: json\n"
    own: dict[str, Any] = {"version": version, "exit_status": int(facts["exit"])}
    if version >= [7, 4]:
        own["pre_release"] = False
    if facts["message"]:
        own["messages"] = [{"string": facts["message"], "severity": "error"}]
    report: dict[str, Any] = {"json_format_version": [1, 0], "smartctl": own}
    if facts["type"]:
        report["device"] = {"name": "/dev/sda", "info_name": "/dev/sda", "type": facts["type"]}
    report |= _identity(facts)
    if facts["passed"]:
        report["smart_status"] = {"passed": facts["passed"] == "yes"}
        if version >= [7, 3]:
            report["smart_support"] = {"available": True, "enabled": True}
    return json.dumps(report | _health(facts, version))


def _identity(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if facts["bytes"]:
        found["user_capacity"] = {"blocks": int(facts["bytes"]) // 512, "bytes": int(facts["bytes"])}
    if facts["block"]:
        found["logical_block_size"] = int(facts["block"])
    numbers = [int(part, 16) for part in facts["wwn"].split(":") if part]
    if len(numbers) == 3:
        found["wwn"] = dict(zip(("naa", "oui", "id"), numbers, strict=True))
    elif numbers:
        eui = dict(zip(("oui", "ext_id"), numbers, strict=True))
        found["nvme_namespaces"] = [{"id": 1, "formatted_lba_size": 512, "eui64": eui}]
    return found


def _health(facts: Facts, version: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if facts["celsius"]:
        found["temperature"] = {"current": int(facts["celsius"])}
        if facts["type"] == "scsi":
            found["temperature"]["drive_trip"] = 60
    if facts["hours"]:
        found["power_on_time"] = {"hours": int(facts["hours"])}
    if facts["units_written"]:
        found["nvme_smart_health_information_log"] = {
            **({"nsid": -1} if version >= [7, 5] else {}),
            "critical_warning": 0,
            "data_units_written": int(facts["units_written"]),
        }
    counts = {"Written": facts["sectors_written"], "Read": facts["sectors_read"]}
    table = [
        {
            "offset": 24,
            "name": f"Logical Sectors {what}",
            "size": 6,
            "value": int(count),
            "flags": {"valid": True},
        }
        for what, count in counts.items()
        if count
    ]
    if table:
        found["ata_device_statistics"] = {
            "pages": [{"number": 1, "name": "General Statistics", "table": table}]
        }
    return found


def smart_log(facts: Facts) -> str:
    """Return what `nvme smart-log --output-format=json` prints."""
    warning: Any = {"value": 0, "available_spare": 0} if "object" in facts["form"] else 0
    counters = {
        "data_units_written": facts["units_written"],
        "power_on_hours": facts["hours"],
        "thm_temp1_total_time": facts["throttled"],
    }
    number = float if "fraction" in facts["form"] else int
    found = {name: number(text) for name, text in counters.items() if text}
    return json.dumps({"critical_warning": warning, "temperature": int(facts["kelvins"]), **found})
