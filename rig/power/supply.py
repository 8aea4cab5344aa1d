# SPDX-License-Identifier: GPL-3.0-or-later
"""Outputs of a programmable supply, switched by libsigrok.

    switch: { by: supply } # the outputs that the drive's rails are measured at
    switch: { by: supply, meter: psu1, output: "2" }

While powerd measures the supply, powerd's srcap switches it; otherwise one that is started for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab.meters import source
from joulerig.rig.lab.model import Lab, Rail
from joulerig.rig.lab.switch import Switch

OfDrive = tuple[str, str, Rail]


class Outputs:
    """Outputs of a meter that is a supply; `where` is what errors call it.

    Raises UserError where the meter is none.
    """

    def __init__(self, lab: Lab, asked: Switch, where: str, rails: Iterable[OfDrive]) -> None:
        self._lab, self._where = lab, where
        if asked.meter:
            self._outputs = {(asked.meter, str(asked.output))}
        else:
            self._outputs = {(rail.meter, _output(lab, rail, where)) for _, _, rail in rails}
        if not self._outputs:
            raise UserError(f"{where}: no rails, and no 'meter' and 'output'; allowed: one of the two")
        for meter, _ in self._outputs:
            _supply(lab, meter, where)
        self.unit = frozenset(meter for meter, _ in self._outputs)

    def off(self) -> dict[str, int]:
        self._set("off")
        return {}

    def on(self) -> None:
        self._set("on")

    def state(self) -> None:
        return None

    def _set(self, value: str) -> None:
        for meter, output in sorted(self._outputs):
            try:
                if _is_powerds(meter):
                    services.change_setting(meter, f"{output}.enabled", value)
                else:
                    self._set_directly(meter, output, value)
            except UserError as error:
                raise UserError(f"{self._where}: output {output} of {meter}: {error}") from None

    def _set_directly(self, meter: str, output: str, value: str) -> None:
        channel = self._lab.controller.meters[meter].family.channel_of(output)
        with source.Reading(self._lab, meter, [channel], {f"{output}.enabled": value}) as reading:
            next(reading.blocks())


def _is_powerds(meter: str) -> bool:
    """Return whether a powerd that runs measures a meter."""
    try:
        status = services.powerd_status()
    except UserError:
        return False
    return meter in {one["name"] for one in status["meters"]}


def _supply(lab: Lab, meter: str, where: str) -> None:
    spec = lab.controller.meters.get(meter)
    if not spec:
        allowed = ", ".join(lab.controller.meters) or "none is declared"
        raise UserError(f"{where}.meter: {meter!r} is not a meter of the controller; allowed: {allowed}")
    if not spec.family.outputs:
        raise UserError(
            f"{where}.meter: {meter} ({spec.driver}) has no outputs to switch; allowed: a supply (scpi-pps)"
        )


def _output(lab: Lab, rail: Rail, where: str) -> str:
    """Return the output that a rail's channels are of."""
    _supply(lab, rail.meter, where)
    pattern = lab.controller.meters[rail.meter].family.outputs
    assert pattern
    found = {match[1] for name in rail.channels.values() if (match := pattern.fullmatch(name))}
    if len(found) != 1:
        named = ", ".join(rail.channels.values())
        raise UserError(f"{where}: channels {named} of {rail.meter}: of no one output; name meter and output")
    return found.pop()
