# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapters to repeat a campaign by.

They show drives, meters, versions and settings; commands and the definition.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import yaml

from joulerig import text
from joulerig.analysis.energy import meters, uncertainty
from joulerig.analysis.merge import source as merge
from joulerig.analysis.report.analysed import Analysed, Settings
from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.report.chapters.conditions.steady_state import damaged_files
from joulerig.analysis.results.campaign import Campaign
from joulerig.analysis.runs import loss_ledger, temperature

_SHOWN_ELSEWHERE = ("calibration", "emulated", "subjects", merge.KEY)  # of the provenance


@dataclass(frozen=True)
class Provenance:
    """Drives, meters, versions and settings.

    `damaged`: files of the campaign that cannot be read.
    """

    drives: list[dict[str, Any]]
    meters: list[dict[str, Any]]
    versions: list[tuple[str, str]]
    settings: list[tuple[str, list[tuple[str, int]], int]]
    damaged: list[str]


@dataclass(frozen=True)
class Repetition:
    """Commands with what each does, and the campaign's definition as YAML."""

    commands: list[tuple[str, str]]
    definition: str


def provenance(analysed: Analysed) -> Provenance:
    """Return what the campaign ran on and with."""
    campaign, settings = analysed.campaign, analysed.settings
    recorded = {key: value for key, value in campaign.provenance.items() if key not in _SHOWN_ELSEWHERE}
    return Provenance(
        _drives(campaign, settings),
        _meters(campaign),
        list(text.flat(recorded | _merged(campaign)).items()),
        settings.rows,
        [
            *settings.damaged,
            *damaged_files(campaign),
            *temperature.damaged_files(campaign),
            *analysed.damaged_traces,
        ],
    )


def repetition(analysed: Analysed) -> Repetition:
    """Return the commands that repeat the campaign, and its definition.

    The definition has the defaults filled in.
    """
    definition = yaml.safe_dump(
        analysed.campaign.definition, sort_keys=False, allow_unicode=True, width=90, default_flow_style=None
    )
    return Repetition(_commands(analysed.campaign), definition.rstrip())


def _drives(campaign: Campaign, settings: Settings) -> list[dict[str, Any]]:
    """Return the drives that the campaign used.

    They are from the lab model; model and firmware are as the host found them.
    """
    used = {(run.host, run.drive): run for run in campaign.runs}
    used |= {
        (run.host, run.factors["journal"]): run
        for run in campaign.runs
        if run.factors.get("journal", "internal") != "internal"
    }
    rows = []
    for (host, name), run in sorted(used.items()):
        model = meters.subtree(campaign.lab, "hosts", host)
        array = meters.subtree(model, "arrays", name)
        for member in array.get("members", []) if array else [name]:
            spec = meters.subtree(model, "drives", member)
            found = settings.by_drive.get((host, member), {})
            by = campaign.emulated(run).get(member)
            rails = [
                f"{rail} on {wiring.get('meter', '?')} {_channels(wiring)}"
                for rail, wiring in meters.subtree(spec, "rails").items()
                if isinstance(wiring, dict)
            ]
            rows.append(
                {
                    "host": host,
                    "name": f"{name} ({member})" if array else name,
                    "interface": f"{spec.get('interface', text.DASH)}{f', emulated by {by}' if by else ''}",
                    "model": found.get("model", text.DASH),
                    "firmware": found.get("firmware", text.DASH),
                    "serial": found.get("serial") or spec.get("serial", text.DASH),
                    "size": text.size(spec.get("size_bytes")),
                    "plp": _yes_or_no(spec.get("plp")),
                    "rails": ", ".join(rails) or "none measured",
                }
            )
    return rows


def _merged(campaign: Campaign) -> dict[str, Any]:
    """Return hosts, runs and controller of each campaign that this one is merged from."""
    return {
        f"from {name}": {
            "hosts": part["hosts"],
            "runs": part["runs"],
            **{key: value for key, value in part["provenance"].items() if key not in _SHOWN_ELSEWHERE},
        }
        for name, part in meters.subtree(campaign.provenance, merge.KEY).items()
    }


def _yes_or_no(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else text.DASH


def _channels(wiring: dict[str, Any]) -> str:
    return "/".join(str(wiring[kind]) for kind in uncertainty.QUANTITIES if wiring.get(kind)) or "?"


def _meters(campaign: Campaign) -> list[dict[str, Any]]:
    """Return the meters that measured, as the journal and the lab model describe them."""
    return [
        {
            "name": used.meter,
            "standing": meters.standing(campaign.lab, campaign.provenance, used.meter, used.last_ns),
            "settings": [
                (key, value)
                for key, value in text.flat(meters.declared(campaign.lab, used.meter)).items()
                if value != text.DASH and not key.startswith("accuracy")
            ],
        }
        for used in loss_ledger.meter_ledgers(campaign)
    ]


def _commands(campaign: Campaign) -> list[tuple[str, str]]:
    """Return what to type to repeat the campaign: (command, what it does)."""
    playbook = next(
        (
            str(source[key])
            for source in (campaign.provenance, campaign.definition)
            for key in ("playbook",)
            if source.get(key)
        ),
        f"playbooks/{campaign.name}.yml",
    )
    revision = campaign.revision
    commands = [(f"git checkout {shlex.quote(revision)}", "the code that ran")] if revision else []
    commands.append(("make setup", "packages, programs, Python environment"))
    lab = "the virtual lab and " if campaign.virtual else ""
    commands.append(("rig up", f"{lab}the controller's services; provisions the test hosts"))
    commands.append((f"rig plan {shlex.quote(playbook)}", "what it will do and which drives it wipes"))
    commands.append((f"rig run {shlex.quote(playbook)}", "a new campaign with the definition below"))
    commands.append(
        (f"rig report {shlex.quote(campaign.id)}", "this report again, from the results of this campaign")
    )
    return commands


PROVENANCE = Chapter("provenance", "Provenance", provenance)
REPETITION = Chapter("repetition", "How to repeat it", repetition)
