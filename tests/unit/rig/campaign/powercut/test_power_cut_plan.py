# SPDX-License-Identifier: GPL-3.0-or-later
"""A power-cut campaign's mapping: what it makes of a lab, and what it refuses, in one line."""

from __future__ import annotations

import copy

import pytest

from joulerig.rig.campaign import plan as plans
from joulerig.rig.campaign import power_cut_definition as definition
from joulerig.rig.campaign.powercut.cut import Aim
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems
from joulerig.rig.powercut.moment import PHASES

MAPPING = {
    "kind": "power-cut",
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
    found = definition.make_subjects(definition.parse(mapping, bench, "x.yml"), bench)
    assert [s.name for s in found] == ["bench1-fast-ext4", "bench1-slow-ext2", "bench1-fast-none"]
    assert [s.plp for s in found] == [True, False, True]
    assert [s.atomic_rename for s in found] == [True, False, True]
    assert [s.fsync_flushes for s in found] == [True, False, True]
    assert [s.filesystem for s in found] == ["ext4", "ext2", ""]


def test_what_is_cut_together_is_on_different_drives(bench, mapping):
    found = definition.groups(definition.make_subjects(definition.parse(mapping, bench, "x.yml"), bench))
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
        (
            {"subjects": [{"drive": "bare"}]},
            r"bare of bench1 has neither rails on a power tap nor a 'switch'",
        ),
        ({"subjects": [{"drive": "fast", "filesystem": "fat"}]}, r"'fat' is unknown; allowed: none, .*ext4"),
        ({"subjects": [{"drive": "fast"}, {"drive": "fast"}]}, r"subjects\.1: fast with none is there twice"),
        ({"subjects": []}, r"subjects"),
        (
            {"subjects": [{"drive": "fast", "filesystem": "ext4", "application": "sqlit"}]},
            r"subjects\.0\.application: 'sqlit' is unknown; nearest is 'sqlite'; allowed: lmdb, ",
        ),
        (
            {"subjects": [{"drive": "fast", "application": "sqlite"}]},
            r"subjects\.0\.application: needs a file system; allowed: .*ext4",
        ),
        (
            {"subjects": [{"drive": "fast", "mount_options": ["nobarrier"]}]},
            r"subjects\.0\.mount_options: needs a file system",
        ),
        (
            {"subjects": [{"drive": "fast", "filesystem": "ext4", "mount_options": ["a,b"]}]},
            r"mount_options\.0: 'a,b'",
        ),
        ({"cuts": 0}, r"cuts: 0"),
        ({"cut": 3}, r"unknown key 'cut'; did you mean 'cuts'\? allowed: cuts, "),
        ({"off_seconds": -1}, r"off_seconds: -1"),
        ({"kind": "power-cuts"}, r"campaign\.kind: 'power-cuts' is unknown; allowed: measurement, power-cut"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(bench, mapping, change, words):
    with pytest.raises(UserError, match=words) as refused:
        plans.make_plan(mapping | change, bench, "playbooks/power_cut.yml")
    assert str(refused.value).startswith("playbooks/power_cut.yml: campaign")
    assert "\n" not in str(refused.value)


def test_every_shipped_file_system_of_a_block_drive_can_be_cut(bench):
    made = {name for name, definition in filesystems.load(bench).items() if not definition.dax}
    assert set(filesystems.with_power_cuts(bench)) == made


def test_a_subject_has_its_application_and_mount_options_in_its_name_and_cell(bench, mapping):
    sqlite = {"drive": "fast", "filesystem": "ext4", "application": "sqlite"}
    bare_word = {**sqlite, "mount_options": ["nobarrier", "commit=30"]}
    made = plans.make_plan({**mapping, "subjects": [sqlite, bare_word], "cuts": 1}, bench, "x.yml")
    assert [one.name for one in made.subjects] == [
        "bench1-fast-ext4-sqlite", "bench1-fast-ext4-nobarrier-commit=30-sqlite",
    ]  # fmt: skip
    assert [str(one) for one in made.subjects] == [
        "sqlite on fast with ext4", "sqlite on fast with ext4+nobarrier,commit=30",
    ]  # fmt: skip
    cells = [row["cell"] for row in made.rows("cuts-1")]
    assert cells == ["fast/ext4/unset/sqlite", "fast/ext4+nobarrier,commit=30/unset/sqlite"]


def test_hosts_get_the_applications_of_the_campaign(bench, mapping, monkeypatch):
    monkeypatch.setattr(definition.paths, "program", lambda name: bench.inventory)
    sqlite = {"drive": "fast", "filesystem": "ext4", "application": "sqlite"}
    campaign = definition.parse({**mapping, "subjects": [sqlite]}, bench, "x.yml")
    needed = definition.deployment(campaign, bench)
    placed = [one["dest"].rpartition("/")[2] for one in needed["campaign_programs"]]
    assert placed == ["durawriter", "sqlite.py", "contract.py"]
    assert needed["campaign_packages"] == ["python3"]


def test_a_run_is_a_cut_of_a_subject_and_a_block_is_cut_together(bench, mapping):
    made = plans.make_plan({**mapping, "cuts": 2}, bench, "x.yml")
    rows = list(made.rows("cuts-1"))
    assert [(row["block"], row["replicate"], row["cell"]) for row in rows] == [
        (1, 1, "fast/ext4/unset/durawriter"),
        (1, 1, "slow/ext2/unset/durawriter"),
        (2, 2, "fast/ext4/unset/durawriter"),
        (2, 2, "slow/ext2/unset/durawriter"),
        (3, 1, "fast/none/unset/durawriter"),
        (4, 2, "fast/none/unset/durawriter"),
    ]
    assert [row["id"] for row in rows] == [f"cuts-1-{number:04d}" for number in range(1, 7)]
    assert {row["status"] for row in rows} == {"planned"}
    assert (made.cuts(), made.wiped()) == (
        4,
        [("bench1", "fast", "SERIAL-A"), ("bench1", "slow", "SERIAL-E")],
    )


def test_power_cuts_have_no_short_form(bench, mapping):
    with pytest.raises(UserError, match="has no short form"):
        plans.make_plan(mapping, bench, "x.yml", short=True)


def test_each_five_cuts_are_aimed_at_every_phase_and_in_turn_at_each_subject():
    aims = [Aim.for_block(7, ["a", "b"], number) for number in range(1, 11)]
    assert sorted(aim.phase for aim in aims[:5]) == sorted(PHASES) == sorted(aim.phase for aim in aims[5:])
    assert [aim.subject for aim in aims[:4]] == ["b", "a", "b", "a"]
    assert len({aim.seed for aim in aims}) == 10


def test_the_aim_of_a_cut_is_the_same_whenever_it_is_made():
    assert Aim.for_block(7, ["a", "b"], 4) == Aim.for_block(7, ["a", "b"], 4)
    assert Aim.for_block(7, ["a", "b"], 4) != Aim.for_block(8, ["a", "b"], 4)


def test_a_host_gets_the_time_after_a_cut_that_it_needs_to_start(lab_files, mapping, bench):
    host = bench.hosts["bench1"]
    assert definition.parse(mapping, bench, "p.yml").returns_within(host) == 600
    assert definition.parse({**mapping, "host_seconds": 40}, bench, "p.yml").returns_within(host) == 40
    quick = host.model_copy(update={"return_seconds": 20})  # from cold it takes longer
    assert definition.parse(mapping, bench, "p.yml").returns_within(quick) == 300
