# SPDX-License-Identifier: GPL-3.0-or-later
"""Make what a run stands on: drives of memory, namespaces of NVDIMMs, and arrays.

Nothing of it is made before a campaign asks for it: making one wipes what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import factors
from joulerig.rig.campaign.execution.outcome import RunOutcome, failure
from joulerig.rig.lab.model import SCSI_DEBUG, Drive, Lab, TestHost


class MadeDrives:
    """Makes what a run stands on, once in each boot of its host.

    `call` executes a module on the host (its name, its arguments) and returns its result.
    """

    def __init__(self, lab: Lab, call: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]):
        self._lab, self._call = lab, call
        self._made: set[tuple[str, str, str]] = set()  # boot, module, first drive or array

    def lacks(self, run: Mapping[str, Any], boot: str) -> bool:
        """Return whether something that `run` needs is still to be made in this boot."""
        return any((boot, module, name) not in self._made for module, name, _ in needed(self._lab, run))

    def ensure(self, run: Mapping[str, Any], boot: str) -> RunOutcome | None:
        """Return None once all that `run` needs is there, else the outcome of a run that cannot be.

        `boot`: id of the boot that the host is in.
        """
        for module, name, arguments in needed(self._lab, run):
            if (boot, module, name) in self._made:
                continue
            reply = self._call(module, arguments)
            if reply.get("failed"):
                return RunOutcome(status=Status.NOT_RUN, reason=failure(reply))
            self._made.add((boot, module, name))
        return None


def needed(lab: Lab, run: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield module, name and arguments of each call that makes what `run` stands on.

    Emulated disks are made all at once: one module's parameters say how many there are.
    """
    host = lab.hosts[run["host"]]
    names = factors.stands_on(run["drive"], run["factors"])
    members = [host.drives[name] for name in lab.member_drives(run["host"], *names)]
    for is_one in (is_ram, is_emulated):
        if any(is_one(drive) for drive in members):
            made = {name: drive for name, drive in host.drives.items() if is_one(drive)}
            yield (
                "joulerig_memory_drives",
                next(iter(made)),
                {
                    "drives": {name: drive.declared_as(name) for name, drive in made.items()},
                    "emulated": host.emulated and host.emulated.model_dump(),
                },
            )
    for name in names:
        if name in host.drives and host.drives[name].interface == "nvdimm" and not host.nvdimm_memmap:
            yield "joulerig_nvdimm", name, {"nvdimm": host.drives[name].declared_as(name)}
        if name in host.arrays and not host.arrays[name].pool:
            yield "joulerig_array", name, array_arguments(host, name)


def declared(host: TestHost, module: str) -> list[dict[str, Any]]:
    """Return the arguments of each call of a module by what the inventory declares of a host."""
    if module == "joulerig_array":
        return [array_arguments(host, name) for name, array in host.arrays.items() if not array.pool]
    drives = {name: drive.declared_as(name) for name, drive in host.drives.items()}
    if module == "joulerig_memory_drives":
        return [{"drives": drives, "emulated": host.emulated and host.emulated.model_dump()}]
    return [{"drives": drives}]


def array_arguments(host: TestHost, name: str) -> dict[str, Any]:
    """Return the arguments by which module joulerig_array has an array of a host."""
    array = host.arrays[name]
    return {
        "name": name,
        **array.model_dump(),
        "drives": {one: host.drives[one].declared_as(one) for one in array.members},
    }


def is_ram(drive: Drive) -> bool:
    """Return whether a drive is the kernel's RAM block device."""
    return drive.interface == "ram"


def is_emulated(drive: Drive) -> bool:
    """Return whether a drive is a disk that the kernel emulates in memory."""
    return drive.serial.startswith(SCSI_DEBUG)
