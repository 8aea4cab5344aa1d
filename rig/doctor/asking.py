# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask test hosts what they are (module joulerig_facts), by a playbook that changes nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joulerig.rig.campaign import events, playbook
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError


@dataclass(frozen=True)
class Facts:
    """What a host is: `machine` by subject, `disks` each, `declared` drives by name."""

    machine: Mapping[str, Any]
    disks: list[dict[str, Any]]
    declared: Mapping[str, Mapping[str, str]]


def ask(inventory: Path, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Facts | str]:
    """Return each host's facts, by name; of one that could not be asked, the reason.

    `asked`: arguments of joulerig_facts, by host. Raises UserError where none could be asked for a
    reason that is not a host's.
    """
    log = paths.var() / "log" / "facts.log"
    with tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
        file = Path(folder) / "asked.json"
        file.write_text(json.dumps({"facts_asked": asked}))
        words = ["--limit", ",".join(asked), "-e", f"@{file}"]
        shipped = paths.share() / "playbooks" / "facts.yml"
        code = playbook.ansible(shipped, inventory, log=log, words=words)
    found: dict[str, Facts | str] = {}
    for event in next(events.follow(playbook.events_file(log))):
        if event["event"] == events.FACTS:
            found[event["host"]] = Facts(event["machine"], event["disks"], event["declared"])
        elif event["event"] == events.FAILED and "host" in event:
            found[event["host"]] = str(event["message"])
    if code and not found:
        raise UserError(f"{playbook.failure(log)} ({paths.short(log)})")
    return {host: found.get(host, "gave no answer") for host in asked}
