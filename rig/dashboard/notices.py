# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing or wrong, in sentences, for pages and terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

BAD, WARN, INFO = "bad", "warn", "info"
QUIET_SECONDS = 600  # of a campaign that is not over
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
    if not message["influx"]["ok"]:
        yield BAD, f"{message['influx']['message']}. The traces have a gap; retrying."
    if not message["powerd"]["ok"]:
        yield WARN, f"Meters' state unknown: {message['powerd']['message']}."
    for meter in message["powerd"]["meters"]:
        if meter["state"] in ("silent", "failed"):
            why = f": {meter['reason']}" if meter["reason"] else ""
            yield (
                BAD,
                f"Meter {meter['name']} is {meter['state']}{why}."
                " Its rails have no energy, so runs are partial.",
            )
