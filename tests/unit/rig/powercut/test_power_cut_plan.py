# SPDX-License-Identifier: GPL-3.0-or-later
"""A power-cut campaign's mapping: what it makes of a lab, and what it refuses, in one line."""

from __future__ import annotations

import copy

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems
from joulerig.rig.powercut import plan

MAPPING = {
    "name": "cuts",
    "question": "Is it still there?",
    "subjects": [
        {"drive": "fast", "filesystem": "ext4"},
        {"drive": "slow", "filesystem": "ext2"},
        {"drive": "fast"},
    ],
}


@pytest.fixture
def bench(lab_files):
    """The bench with its own hard disk, which is in no array."""
    lab_files.drives["slow"] = {**lab_files.drives["hdd-1"], "serial": "SERIAL-E", "rails": {}}
    rail = lab_files.drives["fast"]["rails"]["12v"]
    lab_files.drives["slow"]["rails"] = {"12v": {**rail, "meter": "tap2", "volts": "CH3", "amps": "CH4"}}
    return lab_files.load()


@pytest.fixture
def mapping():
    return copy.deepcopy(MAPPING)


def test_each_pair_becomes_a_subject_of_the_host_that_has_the_drive(bench, mapping):
    found = plan.subjects(plan.parse(mapping, bench, "x.yml"), bench)
    assert [s.name for s in found] == ["bench1-fast-ext4", "bench1-slow-ext2", "bench1-fast-none"]
    assert [s.plp for s in found] == [True, False, True]
    assert [s.atomic_rename for s in found] == [True, False, True]
    assert [s.fsync_flushes for s in found] == [True, False, True]
    assert [s.filesystem for s in found] == ["ext4", "ext2", ""]


def test_what_is_cut_together_is_on_different_drives(bench, mapping):
    found = plan.groups(plan.subjects(plan.parse(mapping, bench, "x.yml"), bench))
    assert [[s.name for s in group] for group in found] == [
        ["bench1-fast-ext4", "bench1-slow-ext2"],
        ["bench1-fast-none"],
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subjects": [{"drive": "old"}]}, r"subjects\.0\.drive: 'old' is no drive .*allowed: .*fast"),
        ({"subjects": [{"drive": "hdd-1"}]}, r"hdd-1 of bench1 is a member of pair"),
        ({"subjects": [{"drive": "pair"}]}, r"subjects\.0\.drive: 'pair' is no drive"),
        ({"subjects": [{"drive": "bare"}]}, r"bare of bench1 has no rails"),
        ({"subjects": [{"drive": "fast", "filesystem": "fat"}]}, r"'fat' is unknown; allowed: none, .*ext4"),
        ({"subjects": [{"drive": "fast"}, {"drive": "fast"}]}, r"subjects\.1: fast with none is there twice"),
        ({"subjects": []}, r"subjects"),
        ({"cuts": 0}, r"cuts: 0"),
        ({"cut": 3}, r"unknown key 'cut'; allowed: .*cuts"),
        ({"off_seconds": -1}, r"off_seconds: -1"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(bench, mapping, change, words):
    with pytest.raises(UserError, match=words) as refused:
        plan.parse(mapping | change, bench, "playbooks/power_cut.yml")
    assert str(refused.value).startswith("playbooks/power_cut.yml: power_cut")
    assert "\n" not in str(refused.value)


def test_every_shipped_file_system_of_a_block_drive_can_be_cut(bench):
    made = {name for name, definition in filesystems.load(bench).items() if not definition.dax}
    assert set(filesystems.with_power_cuts(bench)) == made
