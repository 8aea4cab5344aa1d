# SPDX-License-Identifier: GPL-3.0-or-later
"""What test hosts say is on their drives, and whether it may be wiped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field

from joulerig.rig.campaign import drive_record, events, playbook
from joulerig.rig.campaign.execution.made_drives import is_emulated, is_ram
from joulerig.rig.campaign.execution.outcome import Identity
from joulerig.rig.common.bounded import MOST_ENTRIES, Line, Lines, Part, Returned, Whole, Word
from joulerig.rig.lab.model import Lab

NOTHING = "nothing"  # what a blank drive holds


class Contents(Part):
    """What a host found on a drive (module joulerig_contents).

    `free`: why it may be wiped, empty where it may not. `problem`: why it is refused in any case;
    where the drive was not found, nothing else is known.
    """

    device: Line = ""
    holds: Line = ""
    identity: Identity = Identity()
    details: Lines = []
    free: Line = ""
    problem: Line = ""
    model: Line | None = None
    serial: Line | None = None
    size_bytes: Whole | None = None

    @property
    def foreign(self) -> bool:
        """Whether it holds what this rig did not make and no person adopted."""
        return not self.problem and not self.free


class Reply(Returned):
    """Reply of module joulerig_contents: what it found, by drive."""

    found: Annotated[dict[Word, Contents], Field(max_length=MOST_ENTRIES)]


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
    name = "adopt.yml" if any("adopt" in one for one in asked.values()) else "contents.yml"
    found = playbook.replies(
        name, lab.inventory, log="contents.log", asked=asked, event=events.CONTENTS, model=Reply
    )
    return {host: one if isinstance(one, str) else one.found for host, one in found.items()}


def adopt_hint(host: str, drive: str, one: Contents) -> str:
    """Return, on one line, what a drive holds and how it is released."""
    held = f"holds {one.holds}, which this rig did not make"
    if one.holds == NOTHING:
        held = "is blank, and the inventory has wipe_blank: false"
    return (
        f"{host}/{drive} (serial {one.serial}) {held};"
        f" 'rig drives adopt {host} {drive}' shows it and can release it"
    )
