# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing or wrong, in sentences, for pages and terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from joulerig.plural import counted

BAD, WARN, INFO = "bad", "warn", "info"
QUIET_SECONDS = 600  # of a campaign that is not over
SILENT_SECONDS = 10.0  # of a host's agent, which reports once a second, and of a rail's points
NO_CAMPAIGN = "No campaign yet: 'rig run playbooks/demo.yml' starts one and it appears here."


def of_campaign(message: Mapping[str, Any], now_ns: int) -> Iterator[tuple[str, str]]:
    """Yield kind and sentence of what is wrong with a campaign (the message `campaign`)."""
    chosen, found, problem = message["chosen"], message["found"], message["problem"]
    if not found and chosen and chosen not in message["campaigns"]:
        yield BAD, f"There is no campaign {chosen}; choose another."
    elif not found and not problem:
        yield INFO, NO_CAMPAIGN
    if problem:
        yield BAD, f"A journal cannot be read: {problem}"
    if not found:
        return
    if chosen and message["newest"] != chosen:
        yield INFO, f"This is not the newest campaign ({message['newest']}); the traces are live anyway."
    for warning in message["warnings"]:
        yield WARN, warning
    if message["state"] != "finished" and message["last_event_ns"]:
        quiet = (now_ns - message["last_event_ns"]) / 1e9
        if quiet > QUIET_SECONDS:
            minutes = int(quiet // 60)
            yield (
                WARN,
                f"No event in the campaign's journal for {minutes} min: its playbook may have stopped.",
            )


def of_lab(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield kind and sentence of what is wrong with the lab's services (the message `live`)."""
    if message["slowness"] > 1:
        yield (
            INFO,
            f"Slow motion: a second of the virtual lab lasts {message['slowness']:.3g} s."
            " Times here are the lab's, but for the time left.",
        )
    for one in message["failures"]:
        yield (
            WARN,
            f"The dashboard's {one['task']} failed {counted(one['count'], 'time')}, and went on:"
            f" {one['reason']}.",
        )
    influx, meters = message["influx"], message["powerd"]["meters"]
    if not influx["ok"]:
        yield (
            BAD,
            f"{influx['message']}. No new figures for {_lasted(influx['away_seconds'])}; retrying."
            " What is measured meanwhile appears once it is back.",
        )
    if not message["powerd"]["ok"]:
        yield WARN, f"Meters' state unknown: {message['powerd']['message']}."
    for meter in meters:
        if meter["state"] in ("silent", "failed"):
            why = f": {meter['reason']}" if meter["reason"] else ""
            rails = ", ".join(meter["rails"]) or "its rails"
            yield (
                BAD,
                f"Meter {meter['name']} is {meter['state']}{why}."
                f" The energy of {rails} is not measured, so runs there are partial.",
            )
    if influx["ok"]:
        yield from _silences(message, {one["name"]: one["state"] for one in meters})


def _silences(message: Mapping[str, Any], states: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield a sentence of each meter and host of which nothing reaches InfluxDB."""
    ages: dict[str, float] = {}
    for rail in message["rails"]:
        ages[rail["meter"]] = min(rail["age_seconds"], ages.get(rail["meter"], rail["age_seconds"]))
    # Of one that is silent or failed, or is no more, powerd's state says why.
    unsure = not message["powerd"]["ok"]
    known = {name: age for name, age in ages.items() if unsure or states.get(name) == "streaming"}
    if found := _silent(known, "meter"):
        yield BAD, f"No watts of {found}: what is measured does not reach InfluxDB."
    if found := _silent(message["agents"], "host"):
        yield WARN, f"No I/O figures of {found}: no agent there reports, or it is behind."


def _silent(ages: Mapping[str, float], noun: str) -> str:
    """Return which of them are silent and for how long, in words; empty where none is."""
    silent = {name: age for name, age in sorted(ages.items()) if age > SILENT_SECONDS}
    if not silent:
        return ""
    least = _lasted(min(silent.values()))
    if len(silent) == 1:
        return f"{noun} {next(iter(silent))} for {least}"
    return f"{noun}s {', '.join(silent)} for {least} or more"


def _lasted(seconds: float) -> str:
    """Return a length of time in words, in steps: what changes each second cannot be read."""
    if seconds < 60:
        return f"{max(5, int(seconds // 5) * 5)} s"
    return f"{int(seconds // 60)} min" if seconds < 2 * 3600 else f"{int(seconds // 3600)} h"
