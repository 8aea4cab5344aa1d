# SPDX-License-Identifier: GPL-3.0-or-later
"""What test hosts say is on their drives, and whether it may be wiped."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from joulerig.rig.campaign import drive_record, events, playbook
from joulerig.rig.campaign.execution.made_drives import is_emulated, is_ram
from joulerig.rig.campaign.execution.outcome import one_line
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab

NOTHING = "nothing"  # what a blank drive holds


class Contents(BaseModel):
    """What a host found on a drive (module joulerig_contents).

    `free`: why it may be wiped, empty where it may not. `problem`: why it is refused in any case;
    where the drive was not found, nothing else is known.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str = ""
    holds: str = ""
    identity: dict[str, Any] = {}
    details: list[str] = []
    free: str = ""
    problem: str = ""
    model: str | None = None
    serial: str | None = None
    size_bytes: int | None = None

    @property
    def foreign(self) -> bool:
        """Whether it holds what this rig did not make and no person adopted."""
        return not self.problem and not self.free


def arguments(lab: Lab, host: str, names: Iterable[str]) -> dict[str, Any]:
    """Return the arguments by which module joulerig_contents looks at drives and arrays.

    Drives that the rig makes of memory are left out: they may not be there yet.
    """
    spec = lab.hosts[host]
    made = {name for name, drive in spec.drives.items() if is_ram(drive) or is_emulated(drive)}
    wanted = [name for name in dict.fromkeys(names) if not made.intersection(lab.member_drives(host, name))]
    return {
        "names": wanted,
        "drives": {one: drive_record.declared(lab, host, one) for one in lab.member_drives(host, *wanted)},
        "arrays": {name: spec.arrays[name].members for name in wanted if name in spec.arrays},
    }


def ask(lab: Lab, asked: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Contents] | str]:
    """Ask hosts what is on drives: {host: module arguments}; return it by host and drive.

    Of a host that could not be asked, the reason.
    """
    log = paths.var() / "log" / "contents.log"
    with tempfile.TemporaryDirectory(prefix="joulerig-") as folder:
        file = Path(folder) / "asked.json"
        file.write_text(json.dumps({"contents_of": asked}))
        shipped = paths.share() / "playbooks" / "contents.yml"
        code = playbook.ansible(shipped, lab.inventory, log=log, words=["-e", f"@{file}"])
    found: dict[str, dict[str, Contents] | str] = {}
    for event in next(events.follow(playbook.events_file(log))):
        if event["event"] == events.CONTENTS:
            answer = {name: Contents.model_validate(one) for name, one in event["found"].items()}
            found[event["host"]] = answer
        elif event["event"] == events.FAILED and "host" in event:
            found[event["host"]] = one_line(event["message"])
    if code and not found:
        raise UserError(f"{playbook.failure(log)} ({paths.short(log)})")
    return {host: found.get(host, "gave no answer") for host in asked}


def adopt_hint(host: str, drive: str, one: Contents) -> str:
    """Return, on one line, what a drive holds and how it is released."""
    held = f"holds {one.holds}, which this rig did not make"
    if one.holds == NOTHING:
        held = "is blank, and the inventory has wipe_blank: false"
    return (
        f"{host}/{drive} (serial {one.serial}) {held};"
        f" 'rig drives adopt {host} {drive}' shows it and can release it"
    )
