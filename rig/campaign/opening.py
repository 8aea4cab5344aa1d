# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a campaign: validate, plan and journal it; or resume an earlier one."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from joulerig.analysis.merge import source as merge
from joulerig.analysis.results.schema import CampaignKind, Status
from joulerig.rig import power, workloads
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import factors, origin, provenance
from joulerig.rig.campaign import journal as journals
from joulerig.rig.campaign import power_cut_definition as power_cuts
from joulerig.rig.campaign.definition import Campaign
from joulerig.rig.campaign.execution.request import RunRequest, make_request
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.plan import make_plan, run_from_row
from joulerig.rig.campaign.policies import equivalents
from joulerig.rig.campaign.power_cut_definition import PowerCutCampaign
from joulerig.rig.common import paths
from joulerig.rig.common.bounded import one_line
from joulerig.rig.common.errors import UserError, validate
from joulerig.rig.controller import services
from joulerig.rig.lab import virtual
from joulerig.rig.lab.model import Lab


@dataclass(frozen=True)
class OpenJournal:
    """The journal of a campaign that can be executed, and the lab that it is executed on."""

    journal: Journal
    lab: Lab

    def folder(self, run: Mapping[str, Any]) -> Path:
        """Return the folder of a run's files."""
        return self.journal.folder / "runs" / str(run["id"])

    def hosts(self) -> list[str]:
        """Return the hosts that may execute its runs."""
        return sorted({run["host"] for run in self.journal.runs()})


@dataclass(frozen=True)
class OpenCampaign(OpenJournal):
    """A campaign of measurements that can be executed. `definition`: as validated."""

    definition: Campaign

    @classmethod
    def load(cls, journal: Journal, lab: Lab) -> Self:
        """Validate the definition that a journal keeps. Raises UserError."""
        source = paths.short(journal.folder)
        model = campaigns.model(factors.load(lab))
        return cls(journal, lab, validate(model, journal.campaign["definition"], source, "campaign"))

    def hosts(self) -> list[str]:
        """Return the hosts that may execute its runs, with equivalent ones if it allows them."""
        own = super().hosts()
        if not self.definition.equivalent_hosts:
            return own
        alike = equivalents.sharing(self.lab, self.definition.drives).values()
        return sorted({*own, *(host for hosts in alike for host in hosts)})

    def request(self, run: Mapping[str, Any]) -> RunRequest:
        """Return what the host of a journaled run is asked to execute."""
        return make_request(
            self.definition,
            self.lab,
            run_from_row(run),
            run_id=run["id"],
            campaign_id=self.journal.campaign["id"],
            lanes_of=self.lanes_of,
        )

    @property
    def lanes_of(self) -> str:
        """Return the name by which a host knows lanes of this campaign; empty: it has none."""
        row = self.journal.campaign
        return f"{row['id']} {row['created_ns']}" if self.definition.side_by_side else ""

    def deployment(self) -> dict[str, Any]:
        """Return the facts that say what test hosts need for it. Raises UserError."""
        named = self.definition.model_dump()["factors"]["workload"]
        return workloads.deployment(named, self.lab)


@dataclass(frozen=True)
class OpenPowerCuts(OpenJournal):
    """A campaign of power cuts that can be executed. `definition`: as validated."""

    definition: PowerCutCampaign

    @classmethod
    def load(cls, journal: Journal, lab: Lab) -> Self:
        """Validate the definition that a journal keeps. Raises UserError."""
        source = paths.short(journal.folder)
        return cls(journal, lab, power_cuts.parse(journal.campaign["definition"], lab, source))

    def deployment(self) -> dict[str, Any]:
        """Return the facts that say what test hosts need for it. Raises UserError."""
        return power_cuts.deployment(self.definition, self.lab)


def load(journal: Journal, lab: Lab) -> OpenCampaign | OpenPowerCuts:
    """Return the campaign of a journal, by its kind. Raises UserError."""
    if parts := journal.campaign["provenance"].get(merge.KEY):
        raise UserError(
            f"{paths.short(journal.folder)}: is merged from {', '.join(parts)}: what is missing is"
            " executed and settled there, and they are merged again"
        )
    if journal.campaign["kind"] == CampaignKind.POWER_CUT:
        return OpenPowerCuts.load(journal, lab)
    return OpenCampaign.load(journal, lab)


def open_campaign(mapping: Any, lab: Lab, source: str, *, short: bool = False) -> Journal:
    """Validate, plan and journal a campaign, or its short form; leave nothing behind on failure.

    `source`: its playbook, as people see it (`paths.short`). Raises UserError.
    """
    plan = make_plan(mapping, lab, source, short=short)
    services.check(lab)
    power.check(lab, {host for host, _, _ in plan.wiped()})
    campaign, created = plan.campaign, virtual.clock(is_virtual=lab.virtual)()
    name = f"{campaign.name}-{datetime.fromtimestamp(created / 1e9, UTC):%Y%m%d-%H%M%S}"
    journal = Journal.create(
        paths.results() / name,
        {
            "id": name,
            "name": campaign.name,
            "question": campaign.question,
            "kind": plan.kind,
            "created_ns": created,
            "definition": campaign.model_dump_json(),
            "lab": json.dumps(lab.without_secrets()),
            "virtual": int(lab.virtual),
            "provenance": json.dumps(
                {
                    "controller": provenance.controller(lab),
                    "calibration": provenance.calibration(lab),
                    **provenance.checks(lab),
                    **provenance.processors(lab),
                    "emulated": provenance.emulated(lab),
                    "seed": campaign.seed,
                    "playbook": source,
                    **plan.provenance(),
                }
            ),
        },
        list(plan.rows(name)),
    )
    origin.record(journal, paths.ROOT / source)
    return journal


def existing(name: str | None, lab: Lab) -> OpenCampaign | OpenPowerCuts:
    """Return a campaign by its id, or the newest one. Raises UserError."""
    return load(Journal(journals.find(paths.results(), name)), lab)


def resume_campaign(
    name: str,
    lab: Lab,
    *,
    executor: str | None = None,
    take_over: bool = False,
    say: Callable[[str], None] = print,
    sleep: Callable[[float], None] = time.sleep,
) -> Journal:
    """Open an earlier campaign, with interrupted and lost runs planned again.

    `executor`: the process that is going to execute it (`process.identity`). `take_over`: also one
    that this controller did not open, or whose process is silent (`Journal.listen`). Raises
    UserError, also while another process executes it.
    """
    services.check(lab)
    journal = Journal(journals.find(paths.results(), name))
    if not take_over and origin.find(journal, paths.var()) is None:
        raise UserError(
            f"{paths.short(journal.folder)}: this controller did not open it; 'rig run PLAYBOOK --resume"
            f" {journal.folder.name} --take-over' executes {origin.summary(journal)}"
        )
    opened = load(journal, lab)
    power.check(lab, {run["host"] for run in journal.runs()})
    for run in journal.runs():
        if run["status"] in (Status.PLANNED, Status.RUNNING, Status.LOST):
            _check_still_there(
                run, lab, journal.campaign["id"], with_factors=isinstance(opened, OpenCampaign)
            )
    if executor:
        journal.claim(executor, over=journal.listen(say, sleep) if take_over else None)
    goes_on = _goes_on(journal)
    given_back = journal.give_back(goes_on=goes_on, executor=executor)
    _forget_cuts(journal, [] if goes_on else given_back)
    return journal


def retry(journal: Journal, runs: Sequence[str], by: str = "rig retry") -> None:
    """Plan these runs again, which have ended, as a person asked by `by`.

    Raises UserError while the campaign is executed.
    """
    goes_on = _goes_on(journal)
    journal.retry(runs, goes_on=goes_on, by=by)
    _forget_cuts(journal, [] if goes_on else runs)


def _goes_on(journal: Journal) -> bool:
    """Return whether a host may have the outcome of an attempt that was interrupted."""
    return bool(journal.campaign["kind"] == CampaignKind.MEASUREMENT)


def _forget_cuts(journal: Journal, runs: Sequence[str]) -> None:
    """Remove what power cuts left that are made again."""
    for run in runs:
        shutil.rmtree(journal.folder / "runs" / run, ignore_errors=True)


def _check_still_there(run: Mapping[str, Any], lab: Lab, source: str, *, with_factors: bool) -> None:
    host = lab.hosts.get(run["host"])
    there: dict[str, Collection[str]] = {
        "host": lab.hosts,
        "drive": [*host.drives, *host.arrays] if host else [],
    }
    levels = {"host": run["host"], "drive": run["drive"], **run["factors"]}
    known_factors = factors.load(lab) if with_factors else {}
    there |= {name: one.known(lab) for name, one in known_factors.items() if one.known and name in levels}
    if factors.journal_drive(levels):
        there["journal"] = there["drive"]  # on the same host
    for name, known in there.items():
        if levels[name] not in known:
            allowed = ", ".join(known)
            level = one_line(levels[name], 60)
            raise UserError(f"{source}: {name}: {level!r} no longer exists; allowed: {allowed}")
