# SPDX-License-Identifier: GPL-3.0-or-later
"""Which campaigns can have drives of one host side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Protocol

from joulerig.rig.campaign.factors import Factor, stands_on
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems
from joulerig.rig.lab.model import Lab

Lanes = Mapping[str, Mapping[str, Sequence[str]]]
"""By host and lane, the drives on which its runs stand."""


class Campaign(Protocol):
    """A campaign, as far as it matters here (`definition.Campaign`)."""

    side_by_side: bool
    order: str
    equivalent_hosts: bool
    count_seeks: bool
    time_free_nids: bool

    @property
    def waveforms(self) -> object | None: ...
    def levels(self, factor: str) -> list[str]: ...


class PlannedRun(Protocol):
    """A planned run, as far as it matters here (`definition.PlannedRun`)."""

    @property
    def host(self) -> str: ...
    @property
    def drive(self) -> str: ...
    @property
    def levels(self) -> dict[str, str]: ...
    @property
    def excluded(self) -> str: ...


def check(
    campaign: Campaign, cells: Sequence[PlannedRun], factors: Mapping[str, Factor], lab: Lab, source: str
) -> None:
    """Refuse a campaign whose runs would share more than a host. Raises UserError."""
    if not campaign.side_by_side:
        return
    there = _lanes(cells, lab)
    for why in (*_of_the_host(campaign, factors, cells, lab), *_of_lanes(campaign, there, lab)):
        raise UserError(f"{source}: campaign.side_by_side: {why}")


def _of_the_host(
    campaign: Campaign, factors: Mapping[str, Factor], cells: Sequence[PlannedRun], lab: Lab
) -> Iterator[str]:
    """Yield what the campaign asks for that a host has once."""
    if campaign.order != "random":
        yield (
            f"order: {campaign.order!r}: the control for cross-talk needs random places; allowed: order:"
            " random"
        )
    if campaign.equivalent_hosts:
        yield "equivalent_hosts: moves runs between hosts one at a time; allowed: one of the two"
    if campaign.levels("kernel"):
        yield "factors.kernel: a host runs one kernel at a time; allowed: without this factor"
    for name, factor in factors.items():
        if campaign.levels(name):
            for one in factor.settings:
                if not one.of_drives:
                    yield (
                        f"factors.{name}: sets {one.path} of the whole host; allowed: factors that set"
                        " files of the drives ({device})"
                    )
    for key in ("count_seeks", "time_free_nids"):
        if getattr(campaign, key):
            yield f"{key}: the kernel traces for one run of a host at a time; allowed: one of the two"
    known = filesystems.load(lab)
    for name in dict.fromkeys(run.levels["filesystem"] for run in cells if not run.excluded):
        if not known[name].mkfs:
            able = ", ".join(one for one, definition in known.items() if definition.mkfs)
            yield (
                f"factors.filesystem: {name!r} is made by its mount, and is mounted again to empty its"
                f" caches; allowed: {able}"
            )


def _of_lanes(campaign: Campaign, there: Lanes, lab: Lab) -> Iterator[str]:
    """Yield what lanes of one host have in common, and which drive has no rail."""
    several = {host: lanes for host, lanes in there.items() if len(lanes) > 1}
    if not several:
        yield "no host has several drives of this campaign; allowed: with two drives of one host"
    for host, lanes in several.items():
        for first, second in combinations(lanes, 2):
            if common := sorted(set(lanes[first]) & set(lanes[second])):
                yield (
                    f"runs of {first!r} and {second!r} of {host} both use {', '.join(common)}; allowed:"
                    " drives and arrays that have no drive in common"
                )
            shared = sorted(_meters(lab, host, lanes[first]) & _meters(lab, host, lanes[second]))
            if campaign.waveforms and shared:
                yield (
                    f"waveforms: {', '.join(shared)} measures {first!r} and {second!r} of {host}, and"
                    " records for one run at a time; allowed: a meter for each drive"
                )
        for lane in lanes.values():
            for name in lane:
                if not lab.hosts[host].drives[name].rails:
                    metered = [one for one, drive in lab.hosts[host].drives.items() if drive.rails]
                    yield (
                        f"drive {name!r} of {host} has no rail, so that cross-talk in what it draws is not"
                        f" measured; allowed: drives with rails: {', '.join(metered) or 'none'}"
                    )


def _meters(lab: Lab, host: str, drives: Sequence[str]) -> set[str]:
    return {name for _, _, rail in lab.drive_rails(host, *drives) for name in rail.meters}


def _lanes(cells: Sequence[PlannedRun], lab: Lab) -> Lanes:
    found: dict[str, dict[str, list[str]]] = {}
    for run in cells:
        if not run.excluded:
            lane = found.setdefault(run.host, {}).setdefault(run.drive, [])
            names = lab.member_drives(run.host, *stands_on(run.drive, run.levels))
            lane += [name for name in names if name not in lane]
    return found
