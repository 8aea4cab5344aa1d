# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask test hosts what they are (module joulerig_facts), by a playbook that changes nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joulerig.rig.campaign import events, playbook


@dataclass(frozen=True)
class Facts:
    """A host: `machine` by subject, its `disks` and `nvdimms`, and `declared` drives by name."""

    machine: Mapping[str, Any]
    disks: list[dict[str, Any]]
    declared: Mapping[str, Mapping[str, str]]
    nvdimms: list[dict[str, Any]] = field(default_factory=list)


def ask(inventory: Path, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, Facts | str]:
    """Return each host's facts, by name; of one that could not be asked, the reason.

    `asked`: arguments of joulerig_facts, by host. Raises UserError where none could be asked for a
    reason that is not a host's.
    """
    with tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
        file = Path(folder) / "asked.json"
        file.write_text(json.dumps({"facts_asked": asked}))
        found = playbook.replies(
            "facts.yml",
            inventory,
            log="facts.log",
            hosts=list(asked),
            words=["-e", f"@{file}"],
            event=events.FACTS,
        )
    return {
        host: one if isinstance(one, str) else Facts(**{key: one[key] for key in events.FACTS_KEYS})
        for host, one in found.items()
    }
