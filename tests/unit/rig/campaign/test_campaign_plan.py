# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's mapping and the plan that follows from it."""

import copy
from collections import Counter

import pytest
import yaml

from joulerig.analysis import studies
from joulerig.analysis.studies.registration import Registration
from joulerig.rig import workloads
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import factors, playbook
from joulerig.rig.campaign.execution import made_drives
from joulerig.rig.campaign.execution.request import make_request
from joulerig.rig.campaign.plan import make_plan
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems, model
from tests.bench import studies_file


def refusal(mapping, bench):
    with pytest.raises(UserError) as caught:
        campaigns.parse(mapping, bench, "playbooks/study.yml")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("playbooks/study.yml: campaign")
    return message


def planned(mapping, bench):
    return campaigns.plan(campaigns.parse(mapping, bench, "playbooks/study.yml"), bench)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("repeats",), 3, ["unknown key 'repeats'", "allowed:", "replicates"]),
        (("factors", "tick"), ["6.1"], ["campaign.factors", "unknown key 'tick'", "filesystem"]),
        (("factors", "fill"), [0.99], ["campaign.factors.fill.0", "0.99 is no part of a file system; allowed: 0 to 0.95"]),
        (("factors", "age"), [21], ["campaign.factors.age.0", "21 is too much; allowed: 0 to 20"]),
        (("factors", "age"), [2], ["'2'", "needs a fill level above 0, since it is those data that are written again"]),
        (("factors", "fill"), ["half"], ["campaign.factors.fill.0", "'half'"]),
        (("factors", "run_seconds"), [0], ["campaign.factors.run_seconds.0", "allowed: whole seconds from 1 to"]),
        (("factors", "run_seconds"), [1.5], ["campaign.factors.run_seconds.0", "1.5"]),
        (("factors", "sync"), ["sync"], ["campaign.factors.sync.0", "'fsync', 'fdatasync' or 'none'"]),
        (("factors", "sync"), ["fsync"], ["campaign.factors.sync", "does not set its sync call; allowed: append-fsync,"]),
        (("factors", "kernel"), ["hz10"], ["campaign.factors.kernel", "'hz10' is unknown; nearest is 'hz100'", "installed"]),
        (("factors", "filesystem"), ["ext5"], ["campaign.factors.filesystem", "'ext5'", f"allowed: {', '.join(filesystems.shipped())}"]),
        (("factors", "scheduler"), ["mq_deadline"], ["campaign.factors.scheduler.0", "'mq_deadline'"]),
        (("factors", "scheduler"), [None], ["campaign.factors.scheduler.0", "None"]),
        (("factors", "workload"), ["webservr"], ["campaign.factors.workload", "'webservr' is unknown; nearest is 'webserver'", "randwrite-fsync"]),
        (("factors", "workload"), [], ["campaign.factors.workload", "at least 1"]),
        (("factors", "filesystem"), ["xfs", "xfs"], ["campaign.factors.filesystem", "'xfs' is listed twice"]),
        (("drives",), ["slow"], ["campaign.drives", "'slow'", "allowed: fast, hdd-1, hdd-2, bare, pair"]),
        (("drives",), ["fast", "fast"], ["campaign.drives", "'fast' is listed twice"]),
        (("name",), "My Study", ["campaign.name", "'My Study'"]),
        (("question",), "Why", ["campaign.question", "'Why'"]),
        (("replicates",), 0, ["campaign.replicates", "0"]),
        (("order",), "sorted", ["campaign.order", "'sorted'", "'random'", "'as-written'"]),
        (("seed",), -1, ["campaign.seed", "-1"]),
        (("write_cache",), "off", ["campaign.write_cache", "'off'", "'write through'"]),
        (("phases",), {"workload_seconds": 0}, ["campaign.phases.workload_seconds", "0"]),
        (("phases",), {"warmup_seconds": 5}, ["campaign.phases", "unknown key 'warmup_seconds'", "tail_seconds"]),
        (("loss_limit_percent",), 101, ["campaign.loss_limit_percent", "101"]),
        (("stop",), {"hours": 0}, ["campaign.stop.hours", "0"]),
        (("exclude",), [{"filesystem": "xfs"}], ["campaign.exclude.0.reason", "required"]),
        (("exclude",), [{"reason": "because"}], ["campaign.exclude.0", "names no factor", "scheduler"]),
        (("exclude",), [{"filesystem": "jfs", "reason": "slow"}], ["campaign.exclude.0.filesystem", "'jfs'", "f2fs"]),
        (("exclude",), [{"filesystem": ["xfs", "jfs"], "reason": "slow"}], ["campaign.exclude.0.filesystem", "'jfs'"]),
        (("exclude",), [{"filesystem": [], "reason": "slow"}], ["campaign.exclude.0.filesystem", "at least 1"]),
        (("exclude",), [{"drive": "hdd-1", "reason": "slow"}], ["campaign.exclude.0.drive", "'hdd-1'", "allowed: fast"]),
    ],
)  # fmt: skip
def test_mistake_in_a_campaign(mapping, bench, path, value, expected):
    place = mapping
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    message = refusal(mapping, bench)
    for part in expected:
        assert part in message


@pytest.mark.parametrize("missing", ["name", "question", "drives", "factors"])
def test_what_a_campaign_cannot_do_without(mapping, bench, missing):
    del mapping[missing]
    assert f"campaign.{missing}: " in refusal(mapping, bench)


@pytest.mark.parametrize("mapping", [None, "demo", ["demo"]])
def test_a_campaign_that_is_not_a_mapping(mapping, bench):
    assert "dictionary" in refusal(mapping, bench)


def test_every_shipped_workload_and_file_system_can_be_named():
    assert {"randread", "randwrite-fsync", "seqwrite"} <= set(workloads.shipped())
    files = {path.stem for path in filesystems.SHIPPED.glob("*.yml")}
    assert {"ext2", "ext4", "ext4-dax", "xfs", "btrfs", "f2fs"} <= files
    assert set(filesystems.load(model.load(paths.ROOT / "inventory.ini"))) == files


@pytest.mark.parametrize("there", [[], ["elbencho"]])
def test_a_virtual_host_has_the_packages_of_its_workloads_or_the_campaign_is_refused(
    mapping, lab_files, there
):
    host = lab_files.host
    host["drives"] = {"fast": {**host["drives"]["fast"], "profile": "nvme-plp"}}
    host.update(arrays={}, virtual={"guest_packages": there})
    entry = {"engine": "program", "program": "postmark", "packages": ["elbencho"]}
    (lab_files.folder / "workloads.yml").write_text(yaml.safe_dump({"mine": entry}))
    mapping["factors"]["workload"] = ["mine"]
    if there:
        assert planned(mapping, lab_files.load())
    else:
        reported = (
            "factors.workload: 'mine' needs elbencho, which the image of bench1 lacks; allowed: with these in"
        )
        assert reported in refusal(mapping, lab_files.load())


def test_a_physical_host_gets_the_packages_of_its_workloads(mapping, bench):
    mapping["factors"]["workload"] = ["postmark", "tpcc"]
    assert planned(mapping, bench)


# --- write cache as a factor, short forms, studies


def test_a_write_cache_is_a_factor(mapping, bench):
    mapping["factors"].update(write_cache=["write back", "write through"])
    mapping["exclude"] = [{"write_cache": "write through", "scheduler": "bfq", "reason": "seen without"}]
    runs = planned(mapping, bench)
    assert {run.levels["write_cache"] for run in runs} == {"write back", "write through"}
    assert any(run.cell.endswith("/write_cache=write back") for run in runs)
    assert {run.levels["scheduler"] for run in runs if run.excluded} == {"bfq"}


def test_a_write_cache_is_asked_for_in_one_place(mapping, bench):
    mapping.update(write_cache="write back")
    mapping["factors"].update(write_cache=["write back"])
    assert "campaign.write_cache: is a factor of this campaign as well" in refusal(mapping, bench)


def test_only_drives_with_power_loss_protection_go_without_flushes(mapping, bench):
    assert bench.hosts["bench1"].drives["fast"].plp
    mapping["factors"].update(write_cache=["write back", "no flush"])
    assert planned(mapping, bench)
    mapping["drives"] = ["fast", "pair"]
    message = refusal(mapping, bench)
    assert "campaign.factors.write_cache: 'no flush': hdd-1 of bench1 has no power-loss protection" in message
    assert "allowed: fast" in message
    mapping["exclude"] = [{"write_cache": "no flush", "drive": "pair", "reason": "it would lose data"}]
    assert planned(mapping, bench)


@pytest.mark.parametrize(
    ("levels", "whole", "asked"),
    [
        ({}, None, ""),
        ({}, "write back", "write back"),
        ({"write_cache": "write through"}, None, "write through"),
    ],
)
def test_a_run_asks_for_its_levels_write_cache_or_the_campaigns(levels, whole, asked):
    assert factors.write_cache_level(whole, levels) == asked


def test_a_short_form_stands_in_place_of_what_it_names(mapping, bench):
    mapping["phases"] = {"idle_seconds": 30, "workload_seconds": 600, "tail_seconds": 9}
    mapping["short"] = {
        "replicates": 2,
        "phases": {"workload_seconds": 4},
        "factors": {"scheduler": ["none"]},
    }
    short = campaigns.parse(mapping, bench, "playbooks/study.yml", short=True)
    whole = campaigns.parse(mapping, bench, "playbooks/study.yml")
    assert (short.name, short.replicates, short.short) == ("study-short", 2, None)
    assert (short.phases.idle_seconds, short.phases.workload_seconds) == (30, 4)
    assert short.factors == whole.factors.model_copy(update={"scheduler": ["none"]})
    assert (whole.name, whole.replicates) == ("study", mapping.get("replicates", 5))


@pytest.mark.parametrize(
    ("short", "expected"),
    [
        ({"replicats": 2}, "campaign.short: unknown key 'replicats'; allowed: count_seeks, drives"),
        ({"name": "other"}, "campaign.short: unknown key 'name'"),
        ({"replicates": 0}, "campaign.replicates: 0"),
        ("quick", "campaign.short: "),
    ],
)
def test_a_mistake_in_a_short_form_is_reported_before_it_is_asked_for(mapping, bench, short, expected):
    with pytest.raises(UserError) as error:
        campaigns.parse({**mapping, "short": short}, bench, "playbooks/study.yml")
    assert expected in str(error.value)


def test_a_campaign_without_a_short_form_says_so(mapping, bench):
    with pytest.raises(UserError, match=r"campaign\.short: missing"):
        campaigns.parse(mapping, bench, "playbooks/study.yml", short=True)


def test_a_study_is_one_that_is_known(mapping, bench):
    assert "campaign.study: 'son2016'" in refusal({**mapping, "study": "son2016"}, bench)


LADDER = {"ladder": [20, 40], "hours": 3, "greatest_width": 2}
SEEKS = {"cells": {"journal": "internal"}}


def registered(mapping, claims=None, **more):
    keys = [claim.key for claim in studies.STUDIES["journal_placement"].claims]
    claims = dict.fromkeys(keys, SEEKS) if claims is None else claims
    return {
        **mapping,
        "study": "journal_placement",
        "registered": {**LADDER, "claims": claims, **more},
        "slow_motion": 20,
    }


def test_a_study_is_registered_before_it_runs(mapping, bench):
    assert planned(registered(mapping), bench)
    without = registered(mapping)
    del without["registered"]
    assert "study and registered: one without the other" in refusal(without, bench)
    assert "study and registered" in refusal({**registered(mapping), "study": None}, bench)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"ladder": [20]}, "registered.ladder"),
        ({"ladder": [40, 20]}, "each factor greater than the one before it"),
        ({"ladder": [40, 80]}, "slow_motion: 20.0; allowed: of the registered ladder, 40, 80"),
        ({"greatest_width": 1}, "registered.greatest_width"),
        ({"claims": {"seeks": SEEKS}}, "registered.claims: seeks; allowed: each of seeks, external"),
        ({"claims": {"seeks": {"cells": {}}}}, "registered.claims.seeks.cells"),
    ],
)
def test_a_registration_names_all_that_decides(mapping, bench, change, expected):
    assert expected in refusal(registered(mapping, **change), bench)


def test_a_registration_names_factors_that_there_are(mapping, bench):
    keys = [claim.key for claim in studies.STUDIES["journal_placement"].claims]
    claims = {key: {"cells": {"jurnal": "internal"}} for key in keys}
    assert "registered.claims.seeks.cells: 'jurnal'" in refusal(registered(mapping, claims), bench)


BEYOND = ["scheduler_today", "fill_and_age", "fsync_cost", "audit", "obey"]


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("name", [*studies.STUDIES, *BEYOND])
def test_the_shipped_studies_can_be_planned_on_the_shipped_lab(state, name, short):
    shipped = model.load(paths.ROOT / "inventory.ini")
    mapping = playbook.mapping(paths.ROOT / "playbooks" / f"{name}.yml")
    campaign = campaigns.parse(mapping, shipped, f"{name}.yml", short=short)
    assert campaign.study == (name if name in studies.STUDIES else None)
    cost = campaigns.cost(campaign, shipped, campaigns.plan(campaign, shipped))
    assert campaign.replicates >= 2
    if short:
        assert cost.hours < 5  # in slow motion on the virtual lab; ai_matrix with its five blocks takes most


@pytest.mark.parametrize("name", studies.STUDIES)
def test_the_registered_hours_are_enough_for_the_ladder(state, name):
    shipped = model.load(paths.ROOT / "inventory.ini")
    mapping = playbook.mapping(paths.ROOT / "playbooks" / f"{name}.yml")
    fixed = Registration.read(studies_file.registered(name))
    hours = 0.0
    for k in fixed.ladder:
        campaign = campaigns.parse({**mapping, "slow_motion": k}, shipped, f"{name}.yml", short=True)
        assert Registration.read(campaign.model_dump(mode="json")) == fixed, "as the journal keeps it"
        hours += campaigns.cost(campaign, shipped, campaigns.plan(campaign, shipped)).hours
    assert hours <= fixed.hours


# --- external journals


def with_journal(mapping, *levels, **more):
    mapping["factors"].update(filesystem=["ext4"], journal=list(levels))
    return {**mapping, **more}


def test_a_journal_is_a_factor(mapping, bench):
    runs = planned(with_journal(mapping, "internal", "bare", drives=["pair"], order="as-written"), bench)
    assert len(runs) == 2 * 2 * 2 * 2
    assert [run.cell for run in runs[:2]] == [
        "pair/ext4/none/randread/journal=internal",
        "pair/ext4/none/randread/journal=bare",
    ]


def test_a_campaign_without_it_has_no_such_factor(mapping, bench):
    assert {tuple(run.levels) for run in planned(mapping, bench)} == {("filesystem", "scheduler", "workload")}


@pytest.mark.parametrize(
    ("levels", "drive", "expected"),
    [
        (["bare"], "bare", ["'bare'", "is the drive that the file system is on"]),
        (["internal", "hdd-1"], "pair", ["'hdd-1'", "is a member of the array pair"]),
        (["hdd-1"], "fast", ["'hdd-1'", "is a member of the array pair"]),
        (["pair"], "fast", ["'pair' is unknown", "allowed: internal, fast, hdd-1"]),
        (["nowhere"], "fast", ["'nowhere' is unknown", "allowed: internal, fast, hdd-1"]),
        (["bare", "bare"], "fast", ["'bare' is listed twice"]),
        ([""], "fast", ["journal.0", "at least 1"]),
    ],
)
def test_a_journal_that_cannot_be(mapping, bench, levels, drive, expected):
    message = refusal(with_journal(mapping, *levels, drives=[drive]), bench)
    for part in ["campaign.factors.journal", *expected]:
        assert part in message


@pytest.mark.parametrize("filesystem", ["btrfs", "ext2", "ext4-dax"])
def test_a_file_system_that_has_no_external_journal(mapping, bench, filesystem):
    mapping = with_journal(mapping, "internal", "bare")
    mapping["factors"]["filesystem"].append(filesystem)
    message = refusal(mapping, bench)
    assert f"'bare': {filesystem} has no external journal; allowed: ext3, ext4, xfs" in message
    mapping["exclude"] = [{"filesystem": filesystem, "journal": "bare", "reason": "has none"}]
    excluded = [run for run in planned(mapping, bench) if run.excluded]
    assert {run.cell.split("/")[1] for run in excluded} == {filesystem}


def test_a_journal_on_a_drive_of_another_host(mapping, lab_files):
    lab_files.inventory_text += "bench2\n"
    other = {**copy.deepcopy(lab_files.drives["bare"]), "serial": "SERIAL-Z"}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"far": other}}
    message = refusal(with_journal(mapping, "far"), lab_files.load())
    assert "'far': is not a drive of bench1, which has fast" in message


def test_an_exclusion_by_a_journal_that_is_not_a_factor(mapping, bench):
    mapping["exclude"] = [{"journal": "bare", "reason": "slow"}]
    assert "campaign.exclude.0.journal: 'bare'" in refusal(mapping, bench)


def test_cost_of_an_external_journal_wipes_its_drive_too(mapping, bench):
    wiped = cost_of(with_journal(mapping, "bare"), bench).wiped
    assert [drive for _, drive, _ in wiped] == ["fast", "bare"]


# --- a lab's own file systems

PMFS = {"type": "pmfs", "module": "pmfs", "mkfs": [], "mount_options": ["init"]}


def own(lab_files, text):
    (lab_files.folder / "filesystems.yml").write_text(text if isinstance(text, str) else yaml.safe_dump(text))


def test_a_lab_can_declare_a_file_system(mapping, lab_files):
    own(lab_files, {"pmfs": PMFS})
    mapping["factors"]["filesystem"] = ["ext4", "pmfs"]
    described = lab_files.load()
    assert filesystems.load(described)["pmfs"].mount_options == ["init"]
    assert "fast/pmfs/none/randread" in {run.cell for run in planned(mapping, described)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"pmfs": {**PMFS, "mkfz": []}}, ["filesystems.yml: pmfs", "unknown key 'mkfz'", "mkfs"]),
        ({"pmfs": {"type": "pmfs"}}, ["filesystems.yml: pmfs.mkfs", "required"]),
        ({"ext4": PMFS}, ["filesystems.yml: ext4: is a shipped file system"]),
        (["pmfs"], ["filesystems.yml: a list", "a mapping"]),
        ("pmfs: {", ["filesystems.yml", "expected"]),
        (
            {"pmfs": {**PMFS, "external_journal": {"mkfs": ["-J"]}}},
            ["pmfs.external_journal.mkfs", "{journal}"],
        ),
    ],
)
def test_mistake_in_a_labs_file_systems(mapping, lab_files, text, expected):
    own(lab_files, text)
    with pytest.raises(UserError) as caught:
        campaigns.parse(mapping, lab_files.load(), "playbooks/study.yml")
    for part in expected:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_cell_is_in_each_block_once(mapping, bench):
    runs = planned(mapping, bench)
    assert len(runs) == 3 * 2 * 2 * 2
    for block in (1, 2):
        assert set(Counter(run.cell for run in runs if run.block == block).values()) == {1}
    assert {run.cell for run in runs if run.block == 1} == {run.cell for run in runs if run.block == 2}


def test_blocks_follow_one_another(mapping, bench):
    assert [run.block for run in planned(mapping, bench)] == [1] * 12 + [2] * 12


def test_a_cell_names_drive_and_levels(mapping, bench):
    assert "fast/ext4/none/randread" in {run.cell for run in planned(mapping, bench)}


def test_the_order_depends_on_the_seed_alone(mapping, bench):
    def order(seed):
        return [run.cell for run in planned({**mapping, "seed": seed}, bench)]

    assert order(7) == order(7)
    assert order(7) != order(8)
    assert sorted(order(7)) == sorted(order(8))


def test_blocks_have_orders_of_their_own(mapping, bench):
    runs = planned(mapping, bench)
    assert [r.cell for r in runs[:12]] != [r.cell for r in runs[12:]]


def test_as_written_keeps_the_order_of_the_levels(mapping, bench):
    runs = planned({**mapping, "order": "as-written"}, bench)
    assert [run.cell for run in runs[:5]] == [
        "fast/ext4/none/randread",
        "fast/ext4/none/seqwrite",
        "fast/ext4/bfq/randread",
        "fast/ext4/bfq/seqwrite",
        "fast/xfs/none/randread",
    ]


def test_excluded_cells_stay_in_the_plan_with_their_reason(mapping, bench):
    mapping["exclude"] = [{"filesystem": "f2fs", "scheduler": "bfq", "reason": "known to hang"}]
    runs = planned(mapping, bench)
    excluded = [run for run in runs if run.excluded]
    assert len(runs) == 24
    assert {run.excluded for run in excluded} == {"known to hang"}
    assert {run.cell for run in excluded} == {"fast/f2fs/bfq/randread", "fast/f2fs/bfq/seqwrite"}


def test_an_exclusion_may_list_levels(mapping, bench):
    mapping["exclude"] = [{"filesystem": ["f2fs", "xfs"], "scheduler": "bfq", "reason": "known to hang"}]
    excluded = {run.cell for run in planned(mapping, bench) if run.excluded}
    assert excluded == {
        f"fast/{filesystem}/bfq/{workload}"
        for filesystem in ("f2fs", "xfs")
        for workload in ("randread", "seqwrite")
    }


def test_an_exclusion_does_not_change_the_order_of_the_rest(mapping, bench):
    with_all = [run.cell for run in planned(mapping, bench)]
    mapping["exclude"] = [{"filesystem": "xfs", "reason": "not now"}]
    assert [run.cell for run in planned(mapping, bench)] == with_all


def test_a_drive_that_two_hosts_have_is_run_on_both(mapping, lab_files):
    lab_files.inventory_text += "bench2\n"
    second = {**copy.deepcopy(lab_files.drives["bare"]), "serial": "SERIAL-Z"}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"bare": second}}
    runs = planned({**mapping, "drives": ["bare"]}, lab_files.load())
    assert Counter(run.host for run in runs) == {"bench1": 24, "bench2": 24}


def cost_of(mapping, bench):
    campaign = campaigns.parse(mapping, bench, "playbooks/study.yml")
    return campaigns.cost(campaign, bench, campaigns.plan(campaign, bench))


def test_cost_names_the_serials_that_will_be_wiped(mapping, bench):
    assert cost_of(mapping, bench).wiped == [("bench1", "fast", "SERIAL-A")]


def test_cost_of_an_array_wipes_all_its_members(mapping, bench):
    wiped = cost_of({**mapping, "drives": ["pair"]}, bench).wiped
    assert wiped == [("bench1", "hdd-1", "SERIAL-B"), ("bench1", "hdd-2", "SERIAL-C")]


def test_cost_counts_excluded_runs_separately(mapping, bench):
    mapping["exclude"] = [{"filesystem": "xfs", "reason": "not now"}]
    cost = cost_of(mapping, bench)
    assert (cost.runs, cost.excluded) == (16, 8)


def test_a_drive_whose_cells_are_all_excluded_is_not_wiped(mapping, bench):
    mapping["drives"] = ["fast", "bare"]
    mapping["exclude"] = [{"drive": "bare", "reason": "holds data"}]
    assert [drive for _, drive, _ in cost_of(mapping, bench).wiped] == ["fast"]


def test_cost_grows_with_the_phases(mapping, bench):
    short = cost_of({**mapping, "phases": {"workload_seconds": 10}}, bench)
    long = cost_of({**mapping, "phases": {"workload_seconds": 20}}, bench)
    assert long.terabytes_written == pytest.approx(2 * short.terabytes_written)
    assert long.hours - short.hours == pytest.approx(24 * 10 / 3600)
    assert long.kilowatt_hours > short.kilowatt_hours


def test_the_demo_is_eight_runs_on_two_drives():
    shipped = model.load(paths.ROOT / "inventory.ini")
    demo = campaigns.parse(playbook.mapping(paths.ROOT / "playbooks" / "demo.yml"), shipped, "demo.yml")
    runs = campaigns.plan(demo, shipped)
    assert len(runs) == 8
    assert Counter(run.drive for run in runs) == {"nvme-consumer": 4, "nvme-plp": 4}


# --- kernels


def test_a_kernel_is_booted_once_a_block_and_its_order_is_random(mapping, bench):
    mapping["factors"].update(kernel=["installed", "hz100", "hz1000"])
    mapping.update(replicates=8)
    runs = planned(mapping, bench)
    orders = set()
    for block in range(1, 9):
        levels = [run.levels["kernel"] for run in runs if run.block == block]
        kept = [level for level, before in zip(levels, [None, *levels], strict=False) if level != before]
        assert sorted(kept) == ["hz100", "hz1000", "installed"]
        orders.add(tuple(kept))
        within = [
            (*sorted(run.levels.items() - {("kernel", level)}), run.drive)
            for level in kept
            for run in runs
            if run.block == block and run.levels["kernel"] == level
        ]
        assert Counter(within) == Counter(dict.fromkeys(within, 3))
    assert len(orders) > 1


def test_a_campaign_without_kernels_keeps_its_order(mapping, bench):
    before = planned(mapping, bench)
    mapping["factors"].update(kernel=["installed"])
    after = planned(mapping, bench)
    without = [{key: level for key, level in run.levels.items() if key != "kernel"} for run in after]
    assert without[: len(before) // 3] == [run.levels for run in before][: len(before) // 3]


def test_boots_cost_as_long_as_the_host_may_take_to_return(mapping, lab_files):
    lab_files.host["return_seconds"] = 900
    bench = lab_files.load()
    mapping["order"] = "as-written"

    def hours():
        campaign = campaigns.parse(mapping, bench, "playbooks/study.yml")
        runs = campaigns.plan(campaign, bench)
        return campaigns.cost(campaign, bench, runs).hours, len(runs)

    before, runs = hours()
    mapping["factors"].update(kernel=["hz100", "hz1000"])
    after, twice = hours()
    blocks = mapping.get("replicates", 5)
    assert twice == 2 * runs
    assert after == pytest.approx(2 * before + 2 * blocks * 900 / 3600)


# --- sync call, fill level, run length


def test_numeric_levels_are_named_as_written(mapping, bench):
    mapping["factors"].update(fill=[0, 0.5], run_seconds=[10, 60])
    mapping["exclude"] = [{"fill": 0.5, "run_seconds": 60, "reason": "would take too long"}]
    runs = planned(mapping, bench)
    assert {run.levels["fill"] for run in runs} == {"0", "0.5"}
    assert {run.levels["run_seconds"] for run in runs} == {"10", "60"}
    assert any(run.cell.endswith("/fill=0.5/run_seconds=10") for run in runs)
    assert {(run.levels["fill"], run.levels["run_seconds"]) for run in runs if run.excluded} == {
        ("0.5", "60")
    }


def test_a_longer_run_and_a_fuller_file_system_cost_more(mapping, bench):
    def cost():
        campaign = campaigns.parse(mapping, bench, "playbooks/study.yml")
        return campaigns.cost(campaign, bench, campaigns.plan(campaign, bench))

    before = cost()
    mapping["factors"].update(run_seconds=[600])
    longer = cost()
    assert longer.hours > before.hours
    assert longer.terabytes_written > before.terabytes_written
    mapping["factors"].update(fill=[0.5])
    fuller = cost()
    drives = bench.hosts["bench1"].drives
    filled = sum(
        0.5 * drives[member].size_bytes
        for run in planned(mapping, bench)
        for member in bench.member_drives(run.host, run.drive)
    )
    assert fuller.terabytes_written - longer.terabytes_written == pytest.approx(filled / 1e12)
    assert fuller.hours > longer.hours
    mapping["factors"] = {"age": [3], **mapping["factors"]}
    older = cost()
    assert older.terabytes_written - fuller.terabytes_written == pytest.approx(3 * filled / 1e12)


def test_a_sync_call_is_a_factor_of_workloads_that_have_one(mapping, bench):
    mapping["factors"].update(workload=["overwrite-fsync"], sync=["fsync", "fdatasync", "none"])
    assert {run.levels["sync"] for run in planned(mapping, bench)} == {"fsync", "fdatasync", "none"}
    known = workloads.load(bench)["overwrite-fsync"]
    words = known.with_sync("fdatasync").delivered(str)["words"]
    assert words[words.index("--call") + 1] == "fdatasync"
    assert known.with_sync("fsync") == known


def test_a_plan_counts_what_mkfs_writes(bench, mapping):
    def cost(filesystem):
        factors = {**mapping["factors"], "filesystem": [filesystem]}
        asked = campaigns.parse({**mapping, "factors": factors}, bench, "p.yml")
        return campaigns.cost(asked, bench, campaigns.plan(asked, bench))

    lazy, eager = cost("ext4"), cost("ext2")
    tables = 0.016 * bench.hosts["bench1"].drives["fast"].size_bytes * lazy.runs
    assert eager.terabytes_written - lazy.terabytes_written == pytest.approx(tables / 1e12)
    assert eager.hours - lazy.hours == pytest.approx(tables / 300e6 / 3600)


# --- use_bytes

GIB = 1 << 30


@pytest.mark.parametrize(("written", "meant"), [("64 GiB", 64 * GIB), ("1.5TiB", 1536 * GIB), (GIB, GIB)])
def test_the_bytes_that_a_campaign_uses_may_have_a_unit(mapping, lab_files, written, meant):
    lab_files.drives["fast"]["size_bytes"] = 2 << 40
    factors = {**mapping["factors"], "filesystem": ["xfs"]}
    asked = {**mapping, "factors": factors, "use_bytes": written}
    assert campaigns.parse(asked, lab_files.load(), "p.yml").use_bytes == meant


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"use_bytes": "64 GB"}, "campaign.use_bytes: '64 GB' is no size; allowed: bytes, or a number with KiB"),
        ({"use_bytes": 0}, "campaign.use_bytes: "),
        ({"use_bytes": "100 KiB"}, "campaign.use_bytes: 100 KiB; allowed: whole MiB"),
        ({"use_bytes": "2 TiB"}, "use_bytes: 2 TiB: 'fast' of bench1 has 1000000000000 bytes; allowed: at most as many"),
        ({"use_bytes": "2 TiB", "drives": ["pair"]}, "use_bytes: 2 TiB: 'hdd-1' of bench1 has 1000000000000 bytes;"),
        ({"use_bytes": "100 MiB", "filesystem": ["ext4", "xfs"]}, "use_bytes: 100 MiB: 'xfs' needs at least 300 MiB"),
        ({"use_bytes": "1 GiB", "filesystem": ["ext4", "nilfs2"]},
         "campaign.use_bytes: 'nilfs2' is always as large as its drive; allowed: btrfs, ext2, ext3, ext4,"),
    ],
)  # fmt: skip
def test_bytes_that_a_campaign_cannot_use_are_refused(mapping, bench, changes, expected):
    named = changes.pop("filesystem", ["ext4"])
    factors = {**mapping["factors"], "filesystem": named}
    assert expected in refusal({**mapping, "factors": factors, **changes}, bench)


def test_a_file_system_of_an_excluded_cell_may_be_as_large_as_its_drive(mapping, bench):
    factors = {**mapping["factors"], "filesystem": ["ext4", "nilfs2"]}
    exclude = [{"filesystem": ["nilfs2"], "reason": "cannot be bounded"}]
    asked = {**mapping, "factors": factors, "exclude": exclude, "use_bytes": "1 GiB"}
    assert campaigns.parse(asked, bench, "p.yml").use_bytes == GIB


def test_used_bytes_bound_what_is_filled_and_preconditioned(mapping, bench):
    factors = {**mapping["factors"], "filesystem": ["ext2"], "fill": [0.5]}
    asked = {**mapping, "factors": factors, "precondition": {"passes": 2, "reuse_within": 0}}

    def cost(**changes):
        campaign = campaigns.parse({**asked, **changes}, bench, "p.yml")
        return campaigns.cost(campaign, bench, campaigns.plan(campaign, bench))

    whole, bounded = cost(), cost(use_bytes="64 GiB")
    left_out = 10**12 - 64 * GIB
    saved = whole.runs * (2 + 0.5 + 0.016) * left_out
    assert whole.terabytes_written - bounded.terabytes_written == pytest.approx(saved / 1e12)
    assert whole.hours - bounded.hours == pytest.approx(saved / 300e6 / 3600)


@pytest.mark.parametrize(("level", "copies"), [("raid0", 1), ("raid10", 2), ("raid1", 2), ("lvm-striped", 1)])
def test_used_bytes_of_an_array_are_written_as_often_as_it_copies_them(mapping, lab_files, level, copies):
    lab_files.host["arrays"]["pair"]["level"] = level
    lab = lab_files.load()
    factors = {**mapping["factors"], "filesystem": ["xfs"]}

    def written(fill):
        asked = {**mapping, "drives": ["pair"], "factors": {**factors, "fill": [fill]}, "use_bytes": "64 GiB"}
        campaign = campaigns.parse(asked, lab, "p.yml")
        made = campaigns.cost(campaign, lab, campaigns.plan(campaign, lab))
        return made.terabytes_written / made.runs

    assert written(0.5) - written(0) == pytest.approx(0.5 * copies * 64 * GIB / 1e12)


def test_all_of_a_drive_may_be_used_and_a_file_systems_least(mapping, lab_files):
    lab_files.drives["fast"]["size_bytes"] = 64 * GIB
    lab = lab_files.load()
    mapping["factors"]["filesystem"] = ["xfs"]
    for size in ("64 GiB", "300 MiB"):
        assert campaigns.parse({**mapping, "use_bytes": size}, lab, "p.yml").use_bytes
    assert "'fast' of bench1 has 68719476736 bytes" in refusal({**mapping, "use_bytes": "65537 MiB"}, lab)
    assert "'xfs' needs at least 300 MiB" in refusal({**mapping, "use_bytes": "299 MiB"}, lab)


def test_of_an_array_the_smallest_member_bounds_what_is_used(mapping, lab_files):
    lab_files.drives["hdd-2"]["size_bytes"] = 64 * GIB
    mapping["factors"]["filesystem"] = ["xfs"]
    asked = {**mapping, "drives": ["pair"], "use_bytes": "65 GiB"}
    assert "'hdd-2' of bench1 has 68719476736 bytes" in refusal(asked, lab_files.load())


# --- preconditioning


@pytest.mark.parametrize(
    ("drive", "purge", "words"),
    [
        ("hdd-1", "discard", "'hdd-1' of bench1 is hdd; allowed: nvme or sata-ssd: fast, bare"),
        ("pair", "discard", "'pair' of bench1 is an array; allowed: nvme or sata-ssd: fast, bare"),
        (
            "bare",
            "format",
            "purge: 'format': 'bare' is sata-ssd; allowed: auto, discard, unmap, secure-erase",
        ),
        (
            "fast",
            "secure-erase",
            "purge: 'secure-erase': 'fast' is nvme; allowed: auto, discard, format, sanitize",
        ),
    ],
)
def test_a_drive_that_cannot_be_preconditioned_so_is_refused(mapping, bench, drive, purge, words):
    asked = {**mapping, "drives": [drive], "precondition": {"purge": purge}}
    assert words in refusal(asked, bench)


def one_cell(mapping, **more):
    factors = {"filesystem": ["ext4"], "scheduler": ["none"], "workload": ["seqwrite"]}
    return {**mapping, "factors": factors, **more}


class Written(campaigns.Bounds):
    """Runs that write so many bytes to their drive."""

    def __init__(self, amount):
        self._amount = amount

    def bytes_per_second(self, work):
        return dict.fromkeys(work.drives, self._amount / self.load_seconds(work))


@pytest.mark.parametrize(
    ("share", "use_bytes", "count"),
    [(0.6, None, 3), (0.4, None, 2), (0.5, None, 2), (0.6, "500000 MiB", 3), (0.2, None, 1)],
)
def test_a_drive_is_preconditioned_again_once_too_much_was_written_since(
    mapping, bench, share, use_bytes, count
):
    """Six runs; as much as the drive (or what is used of it) may be written."""
    asked = one_cell(mapping, replicates=6, precondition={"reuse_within": 1.0}, use_bytes=use_bytes)
    campaign = campaigns.parse(asked, bench, "p.yml")
    used = campaign.bytes_used(10**12)
    cost = campaigns.cost(campaign, bench, campaigns.plan(campaign, bench), Written(share * used))
    assert cost.preconditions == count


def test_each_drive_is_preconditioned_for_itself(mapping, bench):
    asked = one_cell(mapping, drives=["fast", "bare"], precondition={"reuse_within": 1000})
    assert cost_of(asked, bench).preconditions == 2


def test_a_precondition_writes_and_draws_in_its_passes_and_rounds(mapping, bench):
    plain = cost_of(one_cell(mapping), bench)
    asked = {"passes": 3, "round_seconds": 100, "max_rounds": 20, "reuse_within": 1000}
    more = cost_of(one_cell(mapping, precondition=asked), bench)
    seconds = 3 * 10**12 / 300e6 + 2000 + campaigns.WATCH_SECONDS
    assert 3600 * (more.hours - plain.hours) == pytest.approx(seconds)
    assert more.terabytes_written - plain.terabytes_written == pytest.approx(3 + 2000 * 15.8e9 / 1e12)
    assert more.kilowatt_hours - plain.kilowatt_hours == pytest.approx(25.0 * seconds / 3.6e6)


# --- several hosts, kernels, slow motion


def test_hosts_work_at_the_same_time(mapping, lab_files):
    mapping["drives"] = ["bare"]
    alone = cost_of(mapping, lab_files.load())
    lab_files.inventory_text += "bench2\n"
    second = {**copy.deepcopy(lab_files.drives["bare"]), "serial": "SERIAL-Z"}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"bare": second}}
    both = cost_of(mapping, lab_files.load())
    assert (both.runs, both.hours) == (2 * alone.runs, pytest.approx(alone.hours))


def test_a_host_boots_where_its_kernel_is_another_than_before(mapping, lab_files):
    lab_files.inventory_text += "bench2\n"
    lab_files.host["return_seconds"] = 1000
    second = {**copy.deepcopy(lab_files.drives["bare"]), "serial": "SERIAL-Z"}
    lab_files.hosts["bench2"] = {
        "controller_address": "192.0.2.1", "drives": {"bare": second}, "return_seconds": 1000,
    }  # fmt: skip
    lab = lab_files.load()
    asked = one_cell(mapping, drives=["bare"], replicates=1, order="as-written")
    plain = cost_of(asked, lab)
    asked["factors"]["kernel"] = ["installed", "hz100"]
    booting = cost_of(asked, lab)
    for host in ("bench1", "bench2"):
        assert booting.seconds[host] - 2 * plain.seconds[host] == pytest.approx(1000)


def test_phases_in_slow_motion_last_as_many_seconds_of_the_machine(mapping, lab_files, monkeypatch):
    asked = one_cell(
        mapping,
        replicates=1,
        phases={"rest_seconds": 3, "idle_seconds": 2, "workload_seconds": 10, "tail_seconds": 5},
    )
    lab = lab_files.load()
    plain = cost_of(asked, lab)
    monkeypatch.setattr(campaigns.virtual, "slowness", lambda lab, host, asked: 4.0)
    assert 3600 * (cost_of(asked, lab).hours - plain.hours) == pytest.approx(3 * 20)


# --- races


def test_a_race_needs_two_blocks_and_drives_of_one_host_each(mapping, lab_files):
    lab = lab_files.load()
    race = {**mapping, "order": "racing"}
    assert campaigns.parse({**race, "replicates": 2}, lab, "p.yml")
    assert "a race needs at least 2" in refusal({**race, "replicates": 1}, lab)
    assert "margin_percent: only a race has one" in refusal({**mapping, "margin_percent": 5}, lab)
    lab_files.inventory_text += "bench2\n"
    second = {**copy.deepcopy(lab_files.drives["bare"]), "serial": "SERIAL-Z"}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"bare": second}}
    assert "drive 'bare' is on bench1, bench2" in refusal({**race, "drives": ["bare"]}, lab_files.load())


def test_the_margin_of_a_race_is_of_its_design(mapping, bench):
    asked = {**mapping, "order": "racing", "replicates": 8, "margin_percent": 5}
    assert make_plan(asked, bench, "p.yml").race().margin == pytest.approx(0.05)


# --- many cells


def test_a_plan_of_too_many_runs_is_refused_before_it_is_made(mapping, bench, monkeypatch):
    monkeypatch.setattr(campaigns, "MOST_RUNS", 24)
    assert campaigns.parse(mapping, bench, "p.yml")
    monkeypatch.setattr(campaigns, "MOST_RUNS", 23)
    assert "2 of 12 cells are 24 runs; allowed: at most 23 runs" in refusal(mapping, bench)


def test_a_drive_that_would_lose_data_without_flushes_is_refused(mapping, bench):
    asked = one_cell(mapping, write_cache="no flush")
    assert campaigns.parse(asked, bench, "p.yml")
    assert "'no flush': bare of bench1 has no power-loss protection" in refusal(
        {**asked, "drives": ["bare"]}, bench
    )
    excluded = {
        **asked,
        "drives": ["fast", "bare"],
        "exclude": [{"drive": "bare", "reason": "no capacitors"}],
    }
    assert campaigns.parse(excluded, bench, "p.yml")


def test_what_varies_has_several_levels(mapping, bench):
    campaign = campaigns.parse(one_cell(mapping, drives=["fast", "bare"]), bench, "p.yml")
    assert campaign.varied == ["drive"]
    assert campaigns.parse(mapping, bench, "p.yml").varied == ["filesystem", "scheduler", "workload"]


def test_a_plan_wipes_the_members_of_its_arrays(mapping, bench):
    wiped = make_plan(one_cell(mapping, drives=["pair"]), bench, "p.yml").wiped()
    assert wiped == [("bench1", "hdd-1", "SERIAL-B"), ("bench1", "hdd-2", "SERIAL-C")]


# --- many cells


@pytest.mark.parametrize(
    ("module", "levels"),
    [
        (workloads, {"workload": ["overwrite-fsync"], "sync": ["fsync", "none"]}),
        (filesystems, {"filesystem": ["ext4", "xfs"], "journal": ["bare"]}),
    ],
)
def test_definitions_are_read_once_for_all_cells(mapping, bench, monkeypatch, module, levels):
    load, calls = module.load, []
    monkeypatch.setattr(module, "load", lambda lab: calls.append(lab) or load(lab))
    mapping["factors"].update(levels)

    def reads(lengths):
        calls.clear()
        mapping["factors"]["run_seconds"] = list(range(1, lengths + 1))
        campaigns.parse(mapping, bench.model_copy(deep=True), "playbooks/study.yml")
        return len(calls)

    assert reads(10) == reads(1)


@pytest.mark.parametrize("scheduler", ["adios", "cfq", "mq-deadline-2"])
def test_whether_a_kernel_has_a_scheduler_is_its_hosts_to_say(mapping, bench, scheduler):
    mapping["factors"]["scheduler"] = [scheduler]
    assert {run.levels["scheduler"] for run in planned(mapping, bench)} == {scheduler}


# --- pools


@pytest.fixture
def pool(lab_files):
    """The lab whose array is drives that the file system takes itself."""
    lab_files.host["arrays"]["pair"]["level"] = "pool-raid1"
    return lab_files.load()


def test_a_file_system_takes_the_drives_of_a_pool(mapping, pool):
    mapping["drives"] = ["pair"]
    mapping["factors"]["filesystem"] = ["btrfs"]
    campaign = campaigns.parse(mapping, pool, "p.yml")
    run = campaigns.plan(campaign, pool)[0]
    request = make_request(campaign, pool, run, run_id="r", campaign_id="c")
    assert (request.array, request.pool, [one.name for one in request.members]) == (
        True,
        True,
        ["hdd-1", "hdd-2"],
    )
    assert request.filesystem.mkfs[-4:] == ["--data", "raid1", "--metadata", "raid1"]
    assert pool.block_devices("bench1", "pair", "fast") == ["hdd-1", "hdd-2", "fast"]


def test_a_file_system_that_takes_one_drive_is_refused_on_a_pool(mapping, pool):
    mapping["drives"] = ["pair"]
    mapping["factors"]["filesystem"] = ["ext4", "btrfs"]
    expected = "'ext4' does not take the drives of pair at level pool-raid1; allowed: btrfs"
    assert expected in refusal(mapping, pool)
    mapping["exclude"] = [{"filesystem": "ext4", "reason": "takes one drive"}]
    assert campaigns.parse(mapping, pool, "p.yml")


def test_no_device_is_made_for_a_pool(pool):
    run = {"host": "bench1", "drive": "pair", "factors": {}}
    assert list(made_drives.needed(pool, run)) == []
