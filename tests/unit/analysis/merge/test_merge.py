# SPDX-License-Identifier: GPL-3.0-or-later
"""Results folders of several controllers become one campaign, whole or not at all."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from joulerig.analysis import results
from joulerig.analysis.bundle import verify as verification
from joulerig.analysis.bundle import writer
from joulerig.analysis.merge import MergeError, merge
from joulerig.analysis.report.analysed import Analysed
from joulerig.analysis.report.chapters import provenance as chapter
from joulerig.analysis.results import journal
from joulerig.analysis.results.campaign import ResultsError
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.opening import load as open_campaign
from joulerig.rig.common.errors import UserError
from tests.support import verifiable_campaign
from tests.support.disk_calls import DiskCalls
from tests.support.simulated_campaign import Outcome, always_ok
from tests.support.verifiable_campaign import edit

HERE = {"joulerig": "test"}


def move_to(folder: Path, host: str, campaign: str) -> Path:
    """Have a campaign be another controller's: other host, other id, other ids of its runs."""
    with closing(sqlite3.connect(folder / journal.FILE)) as database, database:
        [(old,)] = database.execute("SELECT id FROM campaign").fetchall()
        for table, column in (("campaign", "id"), ("run", "id"), *((t, "run") for t in journal_tables())):
            database.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (old, campaign))
        database.execute("UPDATE campaign SET lab = replace(lab, '\"bench1\"', ?)", (f'"{host}"',))
        database.execute("UPDATE run SET host = ?", (host,))
    for run in (folder / "runs").iterdir():
        run.rename(run.with_name(run.name.replace(old, campaign)))
    return folder


def journal_tables() -> list[str]:
    return ["attempt", "phase", "performance", "energy", "result", "io", "event"]


Build = Callable[..., Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Callable[..., Path]:
    """built(SEED, OUTCOME) is a campaign of two cells twice on one bench, made once."""

    @functools.cache
    def made(seed: int, outcome: Callable[[dict], Outcome]) -> Path:
        folder = tmp_path_factory.mktemp("built") / "campaign"
        return verifiable_campaign.build(folder, virtual=False, replicates=2, seed=seed, outcome=outcome)

    return made


@pytest.fixture
def build(tmp_path, built) -> Build:
    """build(HOST) gives the campaign of a controller."""

    def made(host: str = "bench1", seed: int = 1, outcome: Callable[[dict], Outcome] = always_ok) -> Path:
        folder = Path(shutil.copytree(built(seed, outcome), tmp_path / f"of-{host}"))
        return folder if host == "bench1" else move_to(folder, host, f"{host}-20261114-090000")

    return made


def set_definition(folder: Path, **changes: Any) -> None:
    for key, value in changes.items():
        edit(
            folder,
            f"UPDATE campaign SET definition = json_set(definition, '$.{key}', json('{json.dumps(value)}'))",
        )


def set_provenance(folder: Path, key: str, value: Any) -> None:
    edit(
        folder,
        f"UPDATE campaign SET provenance = json_set(provenance, '$.{key}', json('{json.dumps(value)}'))",
    )


@pytest.fixture
def pair(build) -> list[Path]:
    """The campaigns of two controllers: one definition, other figures."""
    found = [build("bench1"), build("bench2", seed=2)]
    set_definition(found[1], seed=1)
    set_provenance(found[1], "seed", 1)
    return found


def picture(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def verified(source: Path) -> dict[str, str]:
    return {check.name: check.state for check in verification.verify(source, HERE)}


def test_two_controllers_runs_are_one_campaign(pair, tmp_path):
    merged = merge(pair, tmp_path / "results" / "both")
    campaign = results.load(merged.folder)
    assert (campaign.id, campaign.name, len(campaign.runs)) == ("both", "demo", 8)
    assert {run.host for run in campaign.runs} == {"bench1", "bench2"}
    assert [run.ordinal for run in campaign.runs] == list(range(1, 9))
    for folder in pair:
        for run in results.load(folder).runs:
            [same] = [one for one in campaign.runs if one.id == run.id]
            assert (same.result, same.energy, same.phases, same.io) == (
                run.result, run.energy, run.phases, run.io,
            )  # fmt: skip
            assert picture(same.folder) == picture(run.folder)


def test_each_campaigns_own_order_holds(pair, tmp_path):
    campaign = results.load(merge(pair, tmp_path / "both").folder)
    for folder in pair:
        own = [run.id for run in results.load(folder).runs]
        assert [run.id for run in campaign.runs if run.id in own] == own


def test_it_is_recomputed_like_any_other(pair, tmp_path):
    checks = verified(merge(pair, tmp_path / "both").folder)
    assert "FAILED" not in checks.values()
    assert {checks[name] for name in ("journal", "events", "completeness", "ledger", "AI of cells")} == {"ok"}


def test_its_bundle_holds(pair, tmp_path):
    merged = merge(pair, tmp_path / "both")
    bundle = writer.write(merged.folder, tmp_path / "both.zip", HERE)
    assert "FAILED" not in verified(bundle.path).values()


def test_the_folders_stay_as_they_were(pair, tmp_path):
    before = [picture(folder) for folder in pair]
    merge(pair, tmp_path / "both")
    assert [picture(folder) for folder in pair] == before


def test_what_was_known_of_each_controller_is_kept(pair, tmp_path):
    set_provenance(pair[1], "controller", {"revision": "beef"})
    set_provenance(pair[0], "controller", {"revision": "cafe"})
    campaign = results.load(merge(pair, tmp_path / "both").folder)
    parts = campaign.provenance["merged"]
    assert [(part["hosts"], part["runs"]) for part in parts.values()] == [(["bench1"], 4), (["bench2"], 4)]
    assert [part["provenance"]["controller"]["revision"] for part in parts.values()] == ["cafe", "beef"]
    assert "revision" not in campaign.provenance["controller"]
    assert campaign.provenance["tools"]["python"] == "3.11.2"  # the same on both
    shown = dict(chapter.provenance(Analysed(campaign)).versions)
    assert shown["from bench2-20261114-090000 hosts"] == "bench2"
    assert shown["from bench2-20261114-090000 controller revision"] == "beef"


def test_events_of_both_are_in_order_and_the_plan_is_that_of_all(pair, tmp_path):
    campaign = results.load(merge(pair, tmp_path / "both").folder)
    events = campaign.tables["event"].to_dicts()
    assert events[0]["event"] == "created"
    assert json.loads(events[0]["detail"])["runs"] == 8
    assert [event["time_ns"] for event in events] == sorted(event["time_ns"] for event in events)
    assert sum(event["event"] == "status" for event in events) == 8
    notes = [json.loads(event["detail"]) for event in events if event["event"] == "note"]
    assert [note["created"]["runs"] for note in notes] == [4, 4]


def test_a_merged_campaign_is_merged_further(pair, build, tmp_path):
    third = build("bench3", seed=3)
    set_definition(third, seed=1)
    both = merge(pair, tmp_path / "both").folder
    campaign = results.load(merge([both, third], tmp_path / "all").folder)
    assert len(campaign.runs) == 12
    assert len(campaign.provenance["merged"]) == 3
    assert "FAILED" not in verified(tmp_path / "all").values()


# --- one campaign whose folder was copied, so that each controller executed some hosts


def split(folder: Path, copy: Path) -> list[Path]:
    """Have runs 1 and 2 be executed in one copy, the others in the other."""
    shutil.copytree(folder, copy)
    plan(folder, 3, 4)
    plan(copy, 1, 2)
    return [folder, copy]


def plan(folder: Path, *ordinals: int) -> None:
    """Have runs be still to come."""
    ids = f"SELECT id FROM run WHERE ordinal IN ({', '.join(map(str, ordinals))})"
    for table in journal_tables():
        edit(folder, f"DELETE FROM {table} WHERE run IN ({ids})")
    edit(folder, f"UPDATE run SET status = 'planned', started_ns = NULL, ended_ns = NULL WHERE id IN ({ids})")
    for run in results.load(folder).runs:
        if run.status == "planned":
            shutil.rmtree(run.folder, ignore_errors=True)


def test_the_halves_of_a_split_campaign_are_the_whole_one(build, tmp_path):
    whole = build()
    expected = results.load(whole)
    halves = split(whole, tmp_path / "copy")
    for half in halves:
        edit(half, "UPDATE campaign SET finished_ns = 5")
    merged = merge(halves, tmp_path / "whole")
    found = results.load(merged.folder)
    assert [(run.id, run.ordinal, run.status, run.result) for run in found.runs] == [
        (run.id, run.ordinal, run.status, run.result) for run in expected.runs
    ]
    assert merged.statuses == {"ok": 4}
    assert found.finished_ns == 5
    assert "FAILED" not in verified(merged.folder).values()


def test_what_no_one_executed_stays_planned_and_the_campaign_open(build, tmp_path):
    halves = split(build(), tmp_path / "copy")
    plan(halves[1], 4)
    merged = merge(halves, tmp_path / "whole")
    assert merged.statuses == {"ok": 3, "planned": 1}
    assert results.load(merged.folder).finished_ns is None


def test_a_run_that_both_copies_have_alike_is_taken_once(build, tmp_path):
    whole = build()
    shutil.copytree(whole, tmp_path / "copy")
    merged = merge([whole, tmp_path / "copy"], tmp_path / "both")
    campaign = results.load(merged.folder)
    assert merged.runs == 4
    assert sum(row["event"] == "status" for row in campaign.tables["event"].to_dicts()) == 4
    assert len(campaign.provenance["merged"]) == 2


def test_runs_that_went_to_an_equivalent_host_keep_their_place_in_the_plan(pair, build, tmp_path):
    """bench2 was set aside, and bench1 executed all: two runs of each cell and replicate."""
    both = merge(pair, tmp_path / "both").folder
    move = {"from": "bench2", "to": "bench1", "serials": ["A", "B"]}
    edit(
        both,
        "INSERT INTO event (time_ns, run, event, detail)"
        f" SELECT 1, id, 'moved', '{json.dumps(move)}' FROM run WHERE host = 'bench2'",
    )
    edit(both, "UPDATE run SET host = 'bench1'")
    third = build("bench3", seed=3)
    set_definition(third, seed=1)
    assert merge([both, third], tmp_path / "all").runs == 12


# --- what is refused, on one line, with nothing left behind


def refused(folders: list[Path], tmp_path: Path) -> str:
    with pytest.raises(MergeError) as error:
        merge(folders, tmp_path / "results" / "both")
    assert not (tmp_path / "results" / "both").exists()
    assert not list(tmp_path.glob("**/.merge-*"))
    [line] = str(error.value).splitlines()
    return line


def test_another_definition(pair, tmp_path):
    set_definition(pair[1], replicates=3)
    assert refused(pair, tmp_path).endswith(f"of-bench2: campaign.replicates: 3; in {pair[0]} it is 2")


def test_when_runs_are_held_or_given_up_may_differ(pair, tmp_path):
    set_definition(pair[1], stop={"failures_in_a_row": 2}, hold_minutes=1, equivalent_hosts=True)
    assert merge(pair, tmp_path / "both").runs == 8


def test_a_run_that_both_executed_with_another_result(build, tmp_path):
    whole = build()
    shutil.copytree(whole, tmp_path / "copy")
    edit(tmp_path / "copy", "UPDATE result SET joules = joules + 1 WHERE run LIKE '%-0002'")
    line = refused([whole, tmp_path / "copy"], tmp_path)
    assert "-0002 is ok" in line
    assert "both executed" in line


def test_a_host_that_both_controllers_used(build, tmp_path):
    one = build()
    other = move_to(shutil.copytree(one, tmp_path / "again"), "bench1", "demo-20261115-090000")
    line = refused([one, other], tmp_path)
    assert "number 1 on bench1" in line
    assert "demo-20261115-090000-0001 is ok" in line


def test_an_id_that_stands_for_two_runs(pair, tmp_path):
    with closing(sqlite3.connect(pair[1] / journal.FILE)) as database, database:
        for table, column in (("run", "id"), *((t, "run") for t in journal_tables())):
            database.execute(
                f"UPDATE {table} SET {column} = replace({column}, ?, ?)",
                ("bench2-20261114-090000", "demo-20261113-082640"),
            )
    assert "on bench2, in" in refused(pair, tmp_path)


def test_a_run_that_is_being_executed(pair, tmp_path):
    edit(pair[1], "UPDATE run SET status = 'running' WHERE ordinal = 3")
    assert "bench2-20261114-090000-0003 is running" in refused(pair, tmp_path)


CALIBRATED = {"state": "valid", "date": "2026-01-01", "expires": "2027-01-01", "channels": {}}


def test_a_meters_name_with_two_calibrations_that_runs_rest_on(pair, tmp_path):
    set_provenance(pair[0], "calibration", {"tap1a": CALIBRATED})
    set_provenance(pair[1], "calibration", {"tap1a": {**CALIBRATED, "date": "2026-06-01"}})
    line = refused(pair, tmp_path)
    assert "meter tap1a has another calibration" in line
    assert "date: '2026-06-01', there '2026-01-01'" in line


def test_a_calibration_that_no_run_rests_on_is_no_conflict(pair, tmp_path):
    set_provenance(pair[0], "calibration", {"tap1b": CALIBRATED})
    set_provenance(pair[1], "calibration", {"tap1b": {**CALIBRATED, "date": "2026-06-01"}})
    assert merge(pair, tmp_path / "both").runs == 8


def test_a_meters_name_that_stands_for_meters_of_two_kinds(pair, tmp_path):
    edit(pair[1], "UPDATE campaign SET lab = json_set(lab, '$.controller.meters.tap1a.sample_rate_hz', 50)")
    assert "meter tap1a is described otherwise" in refused(pair, tmp_path)


def test_meters_of_one_kind_at_two_connections_are_no_conflict(pair, tmp_path):
    edit(pair[1], "UPDATE campaign SET lab = json_set(lab, '$.controller.meters.tap1a.connection', 'usb/2')")
    assert merge(pair, tmp_path / "both").runs == 8


def test_a_host_that_two_labs_describe_otherwise(build, tmp_path):
    halves = split(build(), tmp_path / "copy")
    edit(halves[1], "UPDATE campaign SET lab = json_set(lab, '$.hosts.bench1.drives.nvme-plp.serial', 'X')")
    assert "host bench1 is described otherwise" in refused(halves, tmp_path)


def test_a_virtual_and_a_physical_lab(pair, tmp_path):
    edit(pair[1], "UPDATE campaign SET virtual = 1")
    assert "of-bench2: is of a virtual lab" in refused(pair, tmp_path)


def test_a_race_whose_drive_would_be_on_two_hosts(pair, tmp_path):
    for folder in pair:
        set_definition(folder, order="racing")
    assert "drive 'nvme-plp' is on bench1, bench2" in refused(pair, tmp_path)


def test_one_folder_and_the_same_folder_twice(pair, tmp_path):
    assert "two or more" in refused(pair[:1], tmp_path)
    assert "two or more" in refused([pair[0], pair[0]], tmp_path)


def test_a_name_that_is_taken(pair, tmp_path):
    (tmp_path / "both").mkdir()
    with pytest.raises(MergeError, match="already exists"):
        merge(pair, tmp_path / "both")


def test_a_journal_of_a_newer_version(pair, tmp_path):
    edit(pair[1], "PRAGMA user_version = 99")
    with pytest.raises(ResultsError, match="journal version 99"):
        merge(pair, tmp_path / "both")


# --- whole or not at all


def test_a_disk_that_fails_leaves_nothing(pair, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "runs")

    monkeypatch.setattr(shutil, "copytree", fail)
    with pytest.raises(OSError, match="No space left"):
        merge(pair, tmp_path / "results" / "both")
    assert list((tmp_path / "results").iterdir()) == []


def test_what_a_killed_merge_left_is_removed_by_the_next(pair, tmp_path):
    (tmp_path / "results" / ".merge-old" / "both").mkdir(parents=True)
    merge(pair, tmp_path / "results" / "both")
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["both"]


def test_it_is_on_disk_before_it_has_its_name(pair, tmp_path, monkeypatch):
    disk = DiskCalls(tmp_path, monkeypatch)
    merge(pair, tmp_path / "both")
    assert disk.seen[-2:] == ["rename both", "sync ."]
    assert any(one.endswith("result.json") for one in disk.seen)


# --- it is read, and executed no more


def test_a_merged_campaign_is_not_executed_or_settled(pair, bench, tmp_path):
    opened = Journal(merge(pair, tmp_path / "both").folder)
    with pytest.raises(UserError, match=r"both: is merged from demo-20261113-082640, bench2-20261114-090000"):
        open_campaign(opened, bench)
    opened.close()


def test_a_campaign_with_runs_of_every_kind(build, tmp_path):
    def worse(levels: dict) -> Outcome:
        return Outcome("failed", "fio: exit 1") if levels["ordinal"] == 2 else always_ok(levels)

    pair = [build(), build("bench2", outcome=worse)]
    merged = merge(pair, tmp_path / "both")
    assert merged.statuses == {"ok": 7, "failed": 1}
    assert "FAILED" not in verified(merged.folder).values()
