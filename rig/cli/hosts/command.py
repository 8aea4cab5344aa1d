# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig hosts`: who has a test host; reserve it, free it, give it back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from joulerig.plural import counted
from joulerig.rig.cli.options import JsonOption, finite, load_lab, out
from joulerig.rig.common.errors import UserError

if TYPE_CHECKING:
    from joulerig.rig.campaign.reservations.asking import Entry, Reply

app = typer.Typer(no_args_is_help=True, help="Discover, show, reserve, free, give back test hosts.")
HostArgument = Annotated[str, typer.Argument(metavar="HOST", help="A test host.")]
LONGEST_PURPOSE = 200


@app.command()
def show(as_json: JsonOption = False) -> None:
    """Show who has each test host, for what, and until when; an owner that is gone is named."""
    from joulerig.rig.campaign.reservations import by_hand

    found = by_hand.show(load_lab())
    if as_json:
        print(json.dumps([_as_json(host, reply) for host, reply in found.items()], indent=1))
        return
    table = Table("host", "state", "by", "for", "until (UTC)", "in progress")
    for host, reply in found.items():
        if isinstance(reply, str):
            table.add_row(host, "unknown", *[""] * 4)
            continue
        runs = ", ".join(reply.runs)
        for number, entry in enumerate(reply.held):
            cells = (_state(entry), entry.owner, _purpose(entry), _until(entry, reply.now))
            table.add_row("" if number else host, *cells, "" if number else runs)
        if not reply.held:
            table.add_row(host, "free", "", "", "", runs)
    out.print(table)
    for host, reply in found.items():
        for line in _explained(host, reply):
            out.print(line, soft_wrap=True)


@app.command()
def reserve(
    host: HostArgument,
    purpose: Annotated[str, typer.Option("--for", metavar="TEXT", help="What it is wanted for.")] = "",
    hours: Annotated[
        float, typer.Option(min=0.1, max=24 * 366, callback=finite, help="For how long, from now.")
    ] = 8.0,
) -> None:
    """Reserve a test host, or have it for longer: campaigns of others leave it alone meanwhile."""
    from joulerig.rig.campaign.reservations import by_hand

    text = " ".join(purpose.split())
    if len(text) > LONGEST_PURPOSE:
        raise UserError(f"--for: has {counted(len(text), 'character')}; allowed: at most {LONGEST_PURPOSE}")
    asked = {"state": "reserve", "purpose": text or "no purpose given", "seconds": hours * 3600}
    reply = by_hand.act(load_lab(), host, asked)
    [mine] = [entry for entry in reply.held if not entry.campaign]
    line = f"{host}: reserved by {mine.owner} until {_until(mine, reply.now)} (UTC)"
    out.print(line, soft_wrap=True)


@app.command()
def free(
    host: HostArgument,
    break_it: Annotated[
        bool, typer.Option("--break", help="End also what another reserved, or a campaign uses.")
    ] = False,
) -> None:
    """End the reservation of a test host: one's own, or with --break any other's."""
    from joulerig.rig.campaign.reservations import by_hand

    reply = by_hand.act(load_lab(), host, {"state": "break" if break_it else "free"})
    lines = [f"ended the reservation by {one.owner} for {_purpose(one)}" for one in reply.ended]
    lines += [f"stays reserved by {one.owner} for {_purpose(one)}" for one in reply.held if not one.over]
    for line in lines or ["was not reserved"]:
        out.print(f"{host}: {line}", soft_wrap=True)


@app.command()
def release(
    host: HostArgument,
    packages: Annotated[
        bool, typer.Option("--packages", help="Also remove the packages that were installed.")
    ] = False,
) -> None:
    """Undo what provisioning and campaigns changed on a test host, from the host's own record."""
    from joulerig.rig.campaign import hosts

    lines, failure = hosts.release(load_lab(), host, packages=packages)
    for line in lines:
        out.print(line, soft_wrap=True)
    if failure:
        raise UserError(failure)


def _state(entry: Entry) -> str:
    if entry.over:
        return "expired"
    return "stale" if entry.process_ended else "reserved"


def _purpose(entry: Entry) -> str:
    return f"campaign {entry.campaign}" if entry.campaign else entry.purpose


def _until(entry: Entry, now: float) -> str:
    """Return when an entry ends, and how long that is from the host's `now`."""
    minutes = round((entry.expires - now) / 60)
    left = f"{abs(minutes) // 60} h {abs(minutes) % 60} min"
    return f"{datetime.fromtimestamp(entry.expires, UTC):%Y-%m-%d %H:%M}, " + (
        f"in {left}" if minutes >= 0 else f"{left} ago"
    )


def _explained(host: str, reply: Reply | str) -> list[str]:
    """Return what follows where a host is not simply free or reserved, a line each."""
    if isinstance(reply, str):
        return [reply if reply.startswith(f"{host}: ") else f"{host}: {reply}"]
    lines = []
    for entry in reply.held:
        if entry.over:
            lines.append(f"{host}: the reservation for {_purpose(entry)} is over: the host is free")
        elif entry.process_ended:
            lines.append(
                f"{host}: the process that executed {_purpose(entry)} has ended: 'rig run --resume"
                f" {entry.campaign}' goes on with it, 'rig hosts free {host}' ends the reservation"
            )
    return lines


def _as_json(host: str, reply: Reply | str) -> dict[str, object]:
    if isinstance(reply, str):
        return {"host": host, "problem": reply}
    held = [{**entry.model_dump(), "state": _state(entry)} for entry in reply.held]
    return {"host": host, "problem": "", "now": reply.now, "held": held, "runs": reply.runs}
