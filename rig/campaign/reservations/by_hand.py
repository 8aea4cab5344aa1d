# SPDX-License-Identifier: GPL-3.0-or-later
"""Show, reserve and free test hosts for a person, by a playbook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from joulerig.rig.campaign import events, playbook
from joulerig.rig.campaign.reservations.asking import Reply
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab


def show(lab: Lab) -> dict[str, Reply | str]:
    """Return each host's reply, by name; of one that could not be asked, the reason.

    Raises UserError where none could be asked for a reason that is not a host's.
    """
    return _ask(lab, list(lab.hosts), {"state": "show"})


def act(lab: Lab, host: str, asked: Mapping[str, Any]) -> Reply:
    """Have a host do what a person asks (arguments of action joulerig_reservation).

    Raises UserError where it refuses, or cannot be reached.
    """
    if host not in lab.hosts:
        raise UserError(f"{host!r} is not a test host; allowed: {', '.join(lab.hosts)}")
    reply = _ask(lab, [host], asked)[host]
    if isinstance(reply, str):
        raise UserError(reply if reply.startswith(f"{host}: ") else f"{host}: {reply}")
    return reply


def _ask(lab: Lab, hosts: Sequence[str], asked: Mapping[str, Any]) -> dict[str, Reply | str]:
    return playbook.replies(
        "reservations.yml",
        lab.inventory,
        log="reservations.log",
        asked=dict.fromkeys(hosts, asked),
        event=events.RESERVATION,
        model=Reply,
    )
