# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a test host, and giving it back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from joulerig.plural import counted
from joulerig.rig.campaign import events, playbook
from joulerig.rig.campaign.journal import Journal, call_name
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab


def holder(results: Path, campaign: str) -> str:
    """Return the name by which a test host keeps units quiet for a campaign of this controller."""
    return f"{socket.gethostname()}:{results}/{campaign}"


def executing(results: Path) -> Iterator[Journal]:
    """Yield the campaigns of a results folder that a process is executing (Journal.executor)."""
    for path in sorted(results.glob("*/journal.sqlite")):
        with suppress(UserError), closing(Journal(path.parent)) as journal:
            if journal.executor:
                yield journal


def release(lab: Lab, host: str, *, packages: bool) -> tuple[list[str], str]:
    """Give a host back; return what there is to say of it, and why it failed (or empty).

    `packages`: also remove the packages that were installed. Raises UserError where `host` is no
    test host, or a campaign is being executed on it.
    """
    if host not in lab.hosts:
        raise UserError(f"{host!r} is not a test host; allowed: {', '.join(lab.hosts)}")
    for journal in executing(paths.results()):
        if any(run["host"] == host for run in journal.runs()):
            what = f"campaign {journal.campaign['id']} is being executed on it"
            raise UserError(f"{host}: {what}; wait for its end, or interrupt it")
    log = paths.var() / "log" / "release.log"
    shipped = paths.share() / "playbooks" / "release.yml"
    words = ["--limit", host, "-e", f"release_packages={str(packages).lower()}"]
    code = playbook.ansible(shipped, lab.inventory, log=log, words=words)
    notes = [
        str(event["text"])
        for event in next(events.follow(playbook.events_file(log)))
        if event["event"] == events.NOTE
    ]
    return notes, f"{playbook.failure(log)} ({paths.short(log)})" if code else ""


def stop_calls(lab: Lab, journal: Journal) -> None:
    """Have the hosts of a campaign end what they execute of it. Raises UserError."""
    running: dict[str, list[str]] = {}
    for run in journal.running():
        running.setdefault(run["host"], []).append(call_name(run))
    if not running:
        return
    log = paths.var() / "log" / "stop.log"
    shipped = paths.share() / "playbooks" / "stop.yml"
    words = ["--limit", ",".join(running), "-e", json.dumps({"stop_runs": running})]
    if playbook.ansible(shipped, lab.inventory, log=log, words=words):
        raise UserError(f"{playbook.failure(log)} ({paths.short(log)})")


def released_lines(host: str, reply: Mapping[str, Any]) -> list[str]:
    """Return the reply of module joulerig_release as lines for people."""
    lines = [f"{host}: {line}" for line in reply["undone"]]
    lines += [f"{host}: stays: {line}" for line in reply["stays"]]
    if installed := reply["packages"]:
        stay = "stays; --packages removes it" if len(installed) == 1 else "stay; --packages removes them"
        lines.append(f"{host}: {counted(len(installed), 'package')} {stay}: {', '.join(installed)}")
    if not lines:
        lines = [f"{host}: nothing to give back: there is no record of changes"]
    elif not reply["undone"]:
        lines.insert(0, f"{host}: nothing changed")
    return lines
