# SPDX-License-Identifier: GPL-3.0-or-later
"""A power-cut campaign: what a playbook says under `power_cut:`, checked against the lab."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from joulerig.analysis.powercut.folder import Subject
from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.lab import filesystems
from joulerig.rig.lab.model import Lab, Name

BARE = "none"  # instead of a file system


class Pair(Strict):
    """What is cut: a drive, bare (`none`) or with a file system."""

    drive: Name
    filesystem: Annotated[str, Field(min_length=1)] = BARE


class PowerCut(Strict):
    """What a playbook says under `power_cut:`.

    `cuts`: of each subject. Subjects on different drives of a host are cut together, as a mains
    failure does: it costs the host one start for all of them. `off_seconds`: how long the power
    stays off.
    """

    name: Name
    question: Annotated[str, Field(min_length=5)]
    subjects: Annotated[list[Pair], Field(min_length=1)]
    cuts: PositiveInt = 10
    seed: NonNegativeInt = 1
    off_seconds: PositiveFloat = 1.0
    host_seconds: PositiveFloat = 300.0


def parse(mapping: Any, lab: Lab, source: str) -> PowerCut:
    """The campaign that `mapping` (of the playbook `source`) describes. Raises UserError."""
    plan = validate(PowerCut, mapping, source, "power_cut")
    known = {drive for host in lab.hosts.values() for drive in host.drives}
    cuttable = filesystems.with_power_cuts(lab)
    for number, pair in enumerate(plan.subjects):
        where = f"{source}: power_cut.subjects.{number}"
        if pair.drive not in known:
            allowed = ", ".join(sorted(known))
            raise UserError(f"{where}.drive: {pair.drive!r} is no drive of a test host; allowed: {allowed}")
        if pair.filesystem != BARE and pair.filesystem not in cuttable:
            raise UserError(
                f"{where}.filesystem: {pair.filesystem!r} is unknown; allowed: {BARE}, {', '.join(cuttable)}"
            )
        if plan.subjects.index(pair) < number:
            raise UserError(f"{where}: {pair.drive} with {pair.filesystem} is there twice; once is allowed")
        for host, spec in lab.hosts.items():
            if pair.drive not in spec.drives:
                continue
            if not spec.drives[pair.drive].rails:
                raise UserError(
                    f"{where}.drive: {pair.drive} of {host} has no rails, so its power cannot be cut"
                )
            for array, of in spec.arrays.items():
                if pair.drive in of.members:
                    raise UserError(
                        f"{where}.drive: {pair.drive} of {host} is a member of {array}; allowed: others"
                    )
    return plan


def subjects(plan: PowerCut, lab: Lab) -> list[Subject]:
    """A subject for each pair on each host that has its drive."""
    after = filesystems.with_power_cuts(lab)
    found = []
    for pair in plan.subjects:
        for host, spec in lab.hosts.items():
            if pair.drive in spec.drives:
                bare = pair.filesystem == BARE
                found.append(
                    Subject(
                        name=f"{host}-{pair.drive}-{pair.filesystem}",
                        host=host,
                        drive=pair.drive,
                        filesystem="" if bare else pair.filesystem,
                        plp=spec.drives[pair.drive].plp,
                        atomic_rename=bare or after[pair.filesystem].atomic_rename,
                        fsync_flushes=bare or after[pair.filesystem].fsync_flushes,
                    )
                )
    return found


def groups(subjects_: list[Subject]) -> list[list[Subject]]:
    """Subjects of one host that can be cut together: no two of a group are on one drive."""
    found: list[list[Subject]] = []
    for subject in subjects_:
        for group in found:
            if all(other.drive != subject.drive for other in group):
                group.append(subject)
                break
        else:
            found.append([subject])
    return found
