# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask test hosts for their facts, all at once, and judge each."""

from __future__ import annotations

import time
from collections.abc import Sequence

from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import asking, controller, hosts
from joulerig.rig.doctor.finding import Finding, Severity
from joulerig.rig.doctor.inventory import Described
from joulerig.rig.lab import virtual


def examine(described: Described, names: Sequence[str]) -> list[Finding]:
    """Return what the checks find at test hosts of a lab. Nothing on them is changed."""
    lab = described.lab
    if lab is None or not names:
        return []
    away = [name for name in names if lab.hosts[name].virtual]
    down = bool(away) and not virtual.is_up(lab)
    found = [hosts.not_started(name) for name in away if down]
    names = [name for name in names if not (down and name in away)]
    if not names:
        return found
    quiet = {name: _quiet(described, name) for name in names}
    url = lab.controller.influxdb.url_from_hosts or lab.controller.influxdb.url
    influx = controller.endpoint(url) if url else ""
    asked = {name: hosts.arguments(lab.hosts[name], sorted(quiet[name]), influx) for name in names}
    before = time.time_ns()
    try:
        answers = asking.ask(described.found.path, asked)
    except UserError as error:
        remedy = "'ansible-inventory --list' shows what Ansible reads"
        return [*found, Finding(Severity.ERROR, "reached", ", ".join(names), str(error), remedy)]
    between = (before, time.time_ns())
    for name, answer in answers.items():
        if isinstance(answer, str):
            found.append(hosts.unreachable(name, answer))
        else:
            found += hosts.examine(hosts.Seen(name, lab.hosts[name], answer, between, quiet[name]))
    return found


def _quiet(described: Described, host: str) -> frozenset[str]:
    """Return the units that campaigns stop on a host: the inventory's, or the role's."""
    own = described.found.values[host].get("quiet_units")
    return frozenset(map(str, own)) if isinstance(own, list) else hosts.quiet_units()
