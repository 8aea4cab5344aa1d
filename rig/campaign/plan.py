# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a campaign: every run in order, made by `make_plan` for several interpreters.

A campaign is of one of two kinds (`CampaignKind`), each with its own plan, which has the same
methods.

`rig plan` describes a plan, joulerig_open writes it into a journal, and the executor of each host
turns its runs into requests. A plan touches neither hosts nor the state of the controller.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from joulerig.analysis.compare import races
from joulerig.analysis.results.schema import CONTROL, CampaignKind, Cell, Status, is_control
from joulerig.analysis.statistics.racing import Design
from joulerig.garbage import none_collected
from joulerig.rig.campaign import definition
from joulerig.rig.campaign import power_cut_definition as power_cuts
from joulerig.rig.campaign.definition import Bounds, Campaign, Cost, PlannedRun, Works
from joulerig.rig.campaign.power_cut_definition import PowerCutPlan
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab


@dataclass(frozen=True)
class MeasurementPlan:
    """A campaign as validated against a lab, and its runs in order of execution.

    `waits`: why `campaign` rests for longer than was asked; empty where it does not.
    """

    campaign: Campaign
    lab: Lab
    runs: tuple[PlannedRun, ...]
    waits: str = ""

    kind = CampaignKind.MEASUREMENT

    def provenance(self) -> dict[str, Any]:
        """Return what the journal keeps of the plan in addition to what every campaign has."""
        design = self.race()
        waits = {"rest": self.waits} if self.waits else {}
        return waits if design is None else {races.KEY: design.to_json(), **waits}

    def race(self) -> Design | None:
        """Return the design of the campaign's races; None where its cells do not race."""
        asked = self.campaign
        if asked.order != races.ORDER:
            return None
        margin = asked.margin_percent and asked.margin_percent / 100
        return races.design_for(asked.replicates, len(self.groups), margin)

    @cached_property
    def groups(self) -> Mapping[races.Group, int]:
        """How many cells are compared with each other, by what they have in common."""
        runs = [work.run for work, _ in self.works.values()]
        cells = (Cell.from_levels({**run.levels, "drive": run.drive}) for run in runs)
        return Counter(races.group_of(cell) for cell in cells)

    def cost(self) -> Cost:
        """Return upper bounds of the plan's time, wear and energy, and the drives that it wipes."""
        return self.cost_as(definition.Bounds())

    def cost_as(self, assumed: Bounds) -> Cost:
        """Return the plan's time, wear and energy as `assumed`."""
        return definition.cost(self.campaign, self.lab, self.runs, assumed, self.works)

    @cached_property
    def works(self) -> Works:
        """The work of each cell that is executed, and how often it is."""
        return definition.works(self.campaign, self.lab, self.runs)

    def wiped(self) -> list[tuple[str, str, str]]:
        """Return (host, drive, serial) of the drives that lose their content."""
        written = {(work.run.host, name) for work, _ in self.works.values() for name in work.drives}
        return [
            (host, name, drive.serial)
            for host, spec in self.lab.hosts.items()
            for name, drive in spec.drives.items()
            if (host, name) in written
        ]

    @property
    def block_size(self) -> int:
        """Number of runs in each block of one replicate."""
        return len(self.runs) // self.campaign.replicates

    @property
    def further_factors(self) -> list[str]:
        """Return the factors beyond those that every campaign has."""
        always = ("filesystem", "scheduler", "workload")
        return [key for key in self.runs[0].levels if key not in always]

    def rows(self, campaign_id: str) -> Iterator[dict[str, Any]]:
        """Yield the journal's row of each run; `run_from_row` reads one back."""
        for ordinal, run in enumerate(self.runs, start=1):
            yield {
                "id": f"{campaign_id}-{ordinal:04d}",
                "ordinal": ordinal,
                "block": run.block,
                "replicate": run.replicate,
                "host": run.host,
                "drive": run.drive,
                **{key: run.levels[key] for key in ("filesystem", "scheduler", "workload")},
                "cell": run.cell,
                "factors": json.dumps(run.journaled_levels),
                "status": Status.EXCLUDED if run.excluded else Status.PLANNED,
                "reason": run.excluded,
            }


Plan = MeasurementPlan | PowerCutPlan


def campaign_kind(mapping: Any, source: str) -> CampaignKind:
    """Return the kind of campaign that a mapping describes. Raises UserError."""
    kind = mapping.get("kind", CampaignKind.MEASUREMENT) if isinstance(mapping, dict) else None
    if kind is not None and kind not in list(CampaignKind):
        allowed = ", ".join(CampaignKind)
        raise UserError(f"{source}: campaign.kind: {kind!r} is unknown; allowed: {allowed}")
    return next((one for one in CampaignKind if one == kind), CampaignKind.MEASUREMENT)


@none_collected()
def make_plan(mapping: Any, lab: Lab, source: str, *, short: bool = False) -> Plan:
    """Return the plan of a campaign's mapping (of the playbook `source`), or of its short form.

    Raises UserError for what the campaign or the lab does not allow.
    """
    if campaign_kind(mapping, source) == CampaignKind.POWER_CUT:
        if short:
            raise UserError(f"{source}: campaign.kind: a power-cut campaign has no short form")
        return power_cuts.make_plan(mapping, lab, source)
    asked = definition.parse(mapping, lab, source, short=short)
    campaign, waits = _rested(asked, lab)
    return MeasurementPlan(campaign, lab, tuple(definition.plan(campaign, lab)), waits)


def run_from_row(row: Mapping[str, Any]) -> PlannedRun:
    """Return the planned run of a journal's row."""
    levels = {name: level for name, level in row["factors"].items() if name != CONTROL}
    where = row["block"], row["replicate"], row["host"], row["drive"]
    return PlannedRun(*where, levels, alone=is_control(row["factors"]))


def _rested(campaign: Campaign, lab: Lab) -> tuple[Campaign, str]:
    """Return the campaign with a rest that is long enough, and why it is longer; or "".

    A drive has to be at rest for the second half of the idle phase, which is then its level
    (analysis.runs.idle). A campaign without idle phase looks for none.
    """
    phases = campaign.phases
    if not phases.idle_seconds:
        return campaign, ""
    needed = {name: seconds for name in _drives(campaign, lab) if (seconds := _settles(lab, *name))}
    (host, drive), most = max(needed.items(), key=lambda one: one[1], default=((("", "")), 0.0))
    rest = math.ceil(most - phases.idle_seconds / 2)
    if rest <= phases.rest_seconds:
        return campaign, ""
    longer = phases.model_copy(update={"rest_seconds": rest})
    why = (
        f"rest {rest} s instead of {phases.rest_seconds} s: {drive} of {host} takes {most:.3g} s to come to"
        " rest, and is looked at from the middle of its idle phase on"
    )
    return campaign.model_copy(update={"phases": longer}), why


def _drives(campaign: Campaign, lab: Lab) -> set[tuple[str, str]]:
    """Return (host, drive) of the drives that the campaign's runs can stand on."""
    journals = [level for level in campaign.levels("journal") if level != "internal"]
    return {
        (host, member)
        for host, spec in lab.hosts.items()
        for name in (*campaign.drives, *journals)
        if name in spec.drives or name in spec.arrays
        for member in lab.member_drives(host, name)
    }


def _settles(lab: Lab, host: str, drive: str) -> float | None:
    declared = lab.hosts[host].drives[drive].settle_seconds
    return virtual.settle_seconds(lab, host, drive) if declared is None else declared
