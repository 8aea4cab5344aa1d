# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual power taps: the tap's firmware, built for this machine, wired to the twins' rails."""

from __future__ import annotations

import socket
from collections.abc import Iterable

from joulerig.rig.common import paths, supervisor
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Lab, Rail, VirtualPort
from joulerig.virtuallab import twins
from joulerig.virtuallab.clock import shared

FIRST_RAIL = {"a": 1, "b": 3}  # the tap's number of the rail on CH1 and CH2 of each port
CHANNEL_PAIRS: list[tuple[str | None, str | None]] = [("CH1", "CH2"), ("CH3", "CH4")]


def names(lab: Lab) -> list[str]:
    """Return the names of the virtual taps that the lab's meters belong to."""
    return sorted({meter.virtual.tap for meter in lab.controller.meters.values() if meter.virtual})


def process(lab: Lab, tap: str) -> supervisor.Program:
    """Describe the process of a virtual tap. Raises UserError for what a tap can't be."""
    ports = {letter: VirtualPort(tap=tap, port=letter).tcp_port for letter in ("a", "b")}
    command = [str(paths.program("power_tap")), "--listen", f"127.0.0.1:{ports['a']},127.0.0.1:{ports['b']}"]
    meters = [(m, m.virtual) for m in lab.controller.meters.values() if m.virtual and m.virtual.tap == tap]
    command += ["--rate", f"{_common_value(tap, 'sample_rate_hz', (m.sample_rate_hz for m, _ in meters)):g}"]
    if dropped := _common_value(tap, "virtual.drop_blocks", (port.drop_blocks for _, port in meters)):
        command += ["--drop-blocks", f"{dropped:g}"]
    for host, spec in lab.hosts.items():
        for drive, model in spec.twins.items():
            for name, rail in model.rails.items():
                port = lab.controller.meters[rail.meter].virtual
                if port and port.tap == tap:
                    number = FIRST_RAIL[port.port] + _pair_index(f"{host}/{drive}/{name}", rail)
                    command += ["--rail", f"{number}={twins.control_socket(host, drive)}:{name}"]

    def ready() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", ports["a"]), 1):
                return True
        except OSError:
            return False

    return supervisor.Program(
        f"tap-{tap}", command, ready=ready, priority=200, environment=shared.environment()
    )


def _common_value(tap: str, key: str, values: Iterable[float | None]) -> float:
    """Return the value that all meters of a tap have: the tap is one instrument.

    Raises UserError.
    """
    found = {value for value in values if value is not None}
    if len(found) != 1:
        raise UserError(f"host_vars: meters of the virtual tap {tap}: {key}: {sorted(found)}: must be equal")
    return found.pop()


def _pair_index(where: str, rail: Rail) -> int:
    if (rail.volts, rail.amps) not in CHANNEL_PAIRS:
        raise UserError(
            f"{where}: channels {rail.volts}, {rail.amps}: a virtual tap has CH1, CH2 or CH3, CH4"
        )
    return CHANNEL_PAIRS.index((rail.volts, rail.amps))
