# SPDX-License-Identifier: GPL-3.0-or-later
"""Who uses a test host, and giving it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

from joulerig.plural import counted
from joulerig.rig.campaign import events, origin, playbook
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common import paths, process
from joulerig.rig.common.bounded import Lines, Returned, one_line, read
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab


def holder(journal: Journal) -> str:
    """Return the name by which a test host keeps units quiet for a campaign."""
    campaign = journal.campaign
    return f"{campaign['id']} {campaign['created_ns']}"


def executing(results: Path) -> Iterator[Journal]:
    """Yield the campaigns of a results folder that a process is executing (Journal.executor)."""
    yield from _executed(path.parent for path in sorted(results.glob("*/journal.sqlite")))


def _executed(folders: Iterable[Path]) -> Iterator[Journal]:
    for folder in folders:
        with suppress(UserError), closing(Journal(folder)) as journal:
            if journal.executor:
                yield journal


def raise_if_executing(command: str) -> None:
    """Raise UserError where this controller executes a campaign, which `command` would break.

    It is in this results folder, or one that this controller opened in another.
    """
    elsewhere = [folder for folder in origin.folders() if folder.parent != paths.results().resolve()]
    for journal in chain(executing(paths.results()), _executed(elsewhere)):
        by, folder = journal.executor or "", journal.folder
        if process.may_be_here(by):
            name = folder if folder in elsewhere else folder.name
            raise UserError(
                f"{command}: {paths.short(folder)}: is executed by {process.shown(by)}; wait for its end, or"
                f" end it by 'rig stop {name}'"
            )


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
    data = {host: {"packages": packages}}
    code = playbook.ansible(shipped, lab.inventory, log=log, hosts=data, data=data)
    notes = [
        str(event["text"])
        for event in next(events.follow(playbook.events_file(log)))
        if event["event"] == events.NOTE
    ]
    return notes, f"{playbook.failure(log)} ({paths.short(log)})" if code else ""


class Stopped(Returned):
    """Reply of module joulerig_calls: the names of the calls that it ended."""

    stopped: Lines


def stop_calls(lab: Lab, journal: Journal) -> dict[str, Stopped | str]:
    """End what the hosts of a campaign execute of it.

    Return the reply of each, or why it could not be asked. Raises UserError.
    """
    busy = journal.hosts_at_work()
    known = {host: {"stop": journal.campaign["id"]} for host in busy if host in lab.hosts}
    asked: dict[str, Stopped | str] = {
        one_line(host, 60): "is not a test host of this lab" for host in busy if host not in lab.hosts
    }
    if known:
        asked |= playbook.replies(
            "stop.yml", lab.inventory, log="stop.log", asked=known, event=events.STOPPED, model=Stopped
        )
    return asked


class Released(Returned):
    """Reply of module joulerig_release, in lines: what was done, what stays, packages."""

    undone: Lines
    stays: Lines
    packages: Lines


def released_lines(host: str, found: Mapping[str, Any]) -> list[str]:
    """Return the reply of module joulerig_release as lines for people. Raises UserError."""
    reply = read(Released, found, host)
    lines = [f"{host}: {line}" for line in reply.undone]
    lines += [f"{host}: stays: {line}" for line in reply.stays]
    if installed := reply.packages:
        stay = "stays; --packages removes it" if len(installed) == 1 else "stay; --packages removes them"
        lines.append(f"{host}: {counted(len(installed), 'package')} {stay}: {', '.join(installed)}")
    if not lines:
        lines = [f"{host}: nothing to give back: there is no record of changes"]
    elif not reply.undone:
        lines.insert(0, f"{host}: nothing changed")
    return lines
