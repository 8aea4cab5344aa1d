# SPDX-License-Identifier: GPL-3.0-or-later
"""The drives' record, and whether a precondition still holds by it."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.campaign import drive_record
from joulerig.rig.campaign.definition import Precondition
from joulerig.rig.campaign.drive_record import DriveRecord, counter_bytes, may_reuse, state_after
from joulerig.rig.campaign.execution.outcome import Identity, RunOutcome
from joulerig.rig.cli import main
from joulerig.rig.common.errors import UserError

GB = 10**9
CAPACITY = 100 * GB
ASKED = Precondition(reuse_within=0.5, max_rounds=25)
RECIPE = {"purge": "discard", "passes": 2, "job": "randwrite", "round_seconds": 60, "write_cache": ""}
STEADY = {"steady": True, "rounds": 7, "rounds_before": 0, "reason": "steady at round 7: ..."}
NOT_STEADY = {"steady": False, "rounds": 15, "rounds_before": 5, "reason": "not steady after 20 rounds: ..."}


def began(by: str = "run-1") -> dict[str, Any]:
    return {"event": "began", "by": by}


def ended(
    by: str = "run-1", write: int | None = 0, discard: int | None = 0, counter: int | None = None
) -> dict[str, Any]:
    return {
        "event": "ended",
        "by": by,
        "write_bytes": write,
        "discard_bytes": discard,
        "counter_bytes": counter,
    }


def made(verdict: dict[str, Any] = STEADY, counter: int | None = None, **recipe: Any) -> list[dict[str, Any]]:
    """The events of a precondition by run-1."""
    return [
        began(),
        {"event": "purged", "by": "run-1", "method": "discard"},
        {"event": "filled", "by": "run-1", "times": 2},
        ended(write=300 * GB, discard=CAPACITY, counter=counter),
        {
            "event": "preconditioned",
            "by": "run-1",
            "recipe": RECIPE | recipe,
            "verdict": verdict,
            "counter_bytes": counter,
        },
    ]


def timed(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"time_ns": number, **event} for number, event in enumerate(events, start=1)]


def reuse(*events: dict[str, Any], asked: Precondition = ASKED, counted: int | None = None):
    return may_reuse(timed(*events), RECIPE, asked, CAPACITY, counted)


# --- the file


def test_events_come_back_as_they_were_noted(tmp_path):
    with DriveRecord(tmp_path / "var" / "drives.sqlite") as record:
        record.note(["A", "B"], [("began", {"by": "r"}), ("purged", {"by": "r", "method": "format"})])
        record.note(["A"], [("ended", {"by": "r", "write_bytes": 1, "discard_bytes": None})])
    with DriveRecord(tmp_path / "var" / "drives.sqlite") as record:
        found = record.events("A")
        assert [one["event"] for one in found] == ["began", "purged", "ended"]
        assert found[1]["method"] == "format"
        assert found[2]["discard_bytes"] is None
        assert [one["event"] for one in record.events("B")] == ["began", "purged"]
        assert record.events("C") == []


def test_what_cannot_be_noted_whole_is_not_noted_at_all(tmp_path):
    with DriveRecord(tmp_path / "drives.sqlite") as record:
        with pytest.raises(TypeError):
            record.note(["A"], [("began", {"by": "r"}), ("made", {"command": object()})])
        assert record.events("A") == []


@pytest.mark.parametrize("statement", ["DELETE FROM event", "UPDATE event SET detail = '{}'"])
def test_events_are_only_ever_added(tmp_path, statement):
    path = tmp_path / "drives.sqlite"
    with DriveRecord(path) as record:
        record.note(["A"], [("began", {"by": "r"})])
    database = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="only ever added"):
        database.execute(statement)
    database.close()


def test_two_at_once_lose_nothing(tmp_path):
    path = tmp_path / "drives.sqlite"
    with DriveRecord(path) as one, DriveRecord(path) as other:
        for number in range(20):
            (one, other)[number % 2].note(["A"], [("began", {"by": str(number)})])
        assert [event["by"] for event in one.events("A")] == [str(number) for number in range(20)]


def test_a_record_of_another_version_is_refused_in_one_line(tmp_path):
    path = tmp_path / "drives.sqlite"
    with DriveRecord(path):
        pass
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(UserError, match=r"drives\.sqlite: version 7; this Joulerig reads version 1"):
        DriveRecord(path)


def test_a_file_that_is_not_a_record_is_named(tmp_path):
    path = tmp_path / "drives.sqlite"
    path.write_text("these are no tables, but long enough to be taken for some" * 30)
    with pytest.raises(UserError, match=r"drives\.sqlite: cannot be read"):
        DriveRecord(path)


# --- may it be reused


@pytest.mark.parametrize(
    ("events", "why"),
    [
        pytest.param([], "never preconditioned", id="unknown drive"),
        pytest.param([began(), ended(write=1)], "never preconditioned", id="only used"),
        pytest.param(
            made(round_seconds=30),
            "preconditioned otherwise: round_seconds was 30, 60 is wanted",
            id="other recipe",
        ),
        pytest.param(
            made(purge="format", passes=1),
            "preconditioned otherwise: passes was 1, 2 is wanted",
            id="the first difference by name",
        ),
        pytest.param(
            [*made(), began("run-2"), {"event": "purged", "by": "run-2", "method": "discard"}, ended("run-2")],
            "run-2 purged it since",
            id="purged since",
        ),
        pytest.param(
            made(NOT_STEADY),
            "not steady after 20 rounds: ...; 25 rounds are allowed now",
            id="not steady, and more rounds are allowed",
        ),
        pytest.param(
            [*made(), began("run-2")], "what run-2 wrote is not known", id="a run that never ended"
        ),
        pytest.param(
            [*made(), began("run-2"), began("run-3"), ended("run-3")],
            "what run-2 wrote is not known",
            id="not even if another one did",
        ),
        pytest.param(
            [*made(), began("run-2"), ended("run-2", None, None)],
            "what run-2 wrote is not known",
            id="a run that could not tell",
        ),
        pytest.param(
            [*made(), began("run-2"), ended("run-2", 40 * GB, 11 * GB)],
            "51 GB written or discarded since, 50 GB allowed",
            id="too much",
        ),
        pytest.param(
            [*made(counter=1000 * GB), began("run-2"), ended("run-2", GB, 0, 1003 * GB)],
            "something other than the rig wrote 2 GB, by the drive's own count",
            id="by the count at the end of a run",
        ),
        pytest.param(
            [*made(counter=1000 * GB), began("run-2"), ended("run-2", GB, 0, 999 * GB)],
            "the drive's own count of written bytes fell by 1 GB",
            id="a count that fell",
        ),
    ],
)  # fmt: skip
def test_a_precondition_that_does_not_hold(events, why):
    assert reuse(*events) == (False, why)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param(made(), "0 GB written", id="untouched"),
        pytest.param([*made(), began("b"), ended("b", 30 * GB, 20 * GB)], "50 GB written", id="at the limit"),
        pytest.param(
            [*made(), began("b"), ended("b", 1), began("c"), ended("c", 2 * GB)], "2 GB written", id="a sum"
        ),
        pytest.param(
            [*made(counter=1000 * GB), began("b"), ended("b", 9 * GB, 0, 1009 * GB)], "9 GB", id="the drive agrees"
        ),
        pytest.param(
            [*made(counter=1000 * GB), began("b"), ended("b", 9 * GB, 0, None)], "9 GB", id="the drive reports nothing"
        ),
        pytest.param([*made(), began("b"), ended("b", 9 * GB, 0, 7)], "9 GB", id="it reported nothing then"),
        pytest.param([*made(round_seconds=5), *made()], "0 GB", id="the last one counts"),
    ],
)  # fmt: skip
def test_a_precondition_that_holds(events, expected):
    holds, why = reuse(*events)
    assert holds
    assert why.startswith("as run-1 left it: ")
    assert expected in why


def test_an_unsteady_precondition_is_reused_after_all_its_rounds():
    assert reuse(*made(NOT_STEADY), asked=ASKED.model_copy(update={"max_rounds": 20}))[0]


def test_reuse_within_nothing_is_never():
    asked = Precondition(reuse_within=0)
    assert reuse(*made(), asked=asked) == (False, "0 GB written or discarded since, 0 GB allowed")


@pytest.mark.parametrize(
    ("counted", "holds"),
    [
        (1001 * GB, True),
        (1001 * GB + 60_000_000, True),
        (1000 * GB, True),
        (1002 * GB, False),
        (999 * GB, False),
    ],
)
def test_what_the_drive_reports_now_counts(counted, holds):
    events = [*made(counter=1000 * GB), began("b"), ended("b", GB, 0, 1001 * GB)]
    assert reuse(*events, counted=counted)[0] is holds


# --- the state


def test_the_state_of_a_drive():
    state = state_after(
        timed(
            *made(),
            began("b"),
            {"event": "made", "by": "b", "command": "mkfs.xfs -q -f -K /dev/sda"},
            ended("b", 3 * GB, GB),
        )
    )
    assert (state.written_bytes, state.unknown) == (4 * GB, "")
    assert state.purged_bytes == 303 * GB  # what the purge itself discarded is not in it
    assert (state.purged["method"], state.filled["times"]) == ("discard", 2)
    assert state.made["command"].startswith("mkfs.xfs")
    assert state.discarded["by"] == "b"


def test_a_pass_before_the_last_purge_is_none():
    purge = {"event": "purged", "by": "b", "method": "format"}
    assert state_after(timed(*made(), began("b"), purge, ended("b"))).filled is None


def test_of_an_untouched_drive_nothing_is_known():
    state = state_after([])
    assert (state.purged, state.preconditioned, state.written_bytes, state.purged_bytes) == (None,) * 4


# --- what a run leaves in it


RUN = {"id": "study-1-0001", "host": "bench1", "drive": "fast", "factors": {}}


def events(lab, run, answer) -> dict[str, list[dict[str, Any]]]:
    drive_record.run_begins(run, lab)
    drive_record.run_ended(run, RunOutcome.from_reply(answer), lab)
    with DriveRecord() as record:
        return {one.serial: record.events(one.serial) for one in lab.hosts["bench1"].drives.values()}


def test_a_run_reports_what_it_made_and_wrote(bench, state):
    found = events(
        bench,
        RUN,
        {
            "status": "ok",
            "changed": True,
            "touched": {"fast": {"write_bytes": 7, "discard_bytes": 0}},
            "settings": {"mkfs": ["mkfs.ext4", "-q", "/dev/nvme0n1"]},
            "health": {"after": {"data_units_written": 3}},
        },
    )
    assert [one["event"] for one in found["SERIAL-A"]] == ["began", "made", "ended"]
    assert found["SERIAL-A"][1]["command"] == "mkfs.ext4 -q /dev/nvme0n1"
    end = {key: found["SERIAL-A"][2][key] for key in ("by", "write_bytes", "discard_bytes", "counter_bytes")}
    assert end == {"by": RUN["id"], "write_bytes": 7, "discard_bytes": 0, "counter_bytes": 1_536_000}
    assert found["SERIAL-B"] == []


def test_a_run_on_an_array_is_in_the_record_of_each_member(bench, state):
    touched = {name: {"write_bytes": n, "discard_bytes": 0} for n, name in enumerate(("hdd-1", "hdd-2"), 1)}
    answer = {"status": "ok", "changed": True, "touched": touched, "health": {"after": {"hdd-1": None}}}
    found = events(bench, {**RUN, "drive": "pair"}, answer)
    assert [found[serial][-1]["write_bytes"] for serial in ("SERIAL-B", "SERIAL-C")] == [1, 2]


@pytest.mark.parametrize(
    ("answer", "amount"),
    [
        ({"status": "not-run", "changed": False}, 0),
        ({"status": "failed", "changed": True}, None),
        ({"status": "failed"}, None),
    ],
)
def test_a_run_that_counted_nothing(bench, state, answer, amount):
    end = events(bench, RUN, answer)["SERIAL-A"][-1]
    assert (end["event"], end["write_bytes"], end["discard_bytes"]) == ("ended", amount, amount)


@pytest.mark.parametrize(
    ("health", "counted"),
    [
        (None, None),
        ({}, None),
        ({"data_units_written": 2}, 1_024_000),
        ({"data_units_written": "2"}, 1_024_000),
        (
            {
                "logical_block_size": 512,
                "ata_device_statistics": {
                    "pages": [
                        {"table": [{"name": "Logical Sectors Written", "value": 4, "flags": {"valid": True}}]}
                    ]
                },
            },
            2048,
        ),
        (
            {
                "logical_block_size": 512,
                "ata_device_statistics": {
                    "pages": [
                        {
                            "table": [
                                {"name": "Logical Sectors Written", "value": 4, "flags": {"valid": False}}
                            ]
                        }
                    ]
                },
            },
            None,
        ),
    ],
)
def test_what_a_drive_counts_itself(health, counted):
    assert counter_bytes(health) == counted


def test_the_record_is_below_var(state: Path):
    with DriveRecord():
        assert (state / "var" / "drives.sqlite").exists()


def shown(bench, capsys, monkeypatch, *words: str) -> str:
    monkeypatch.setenv("JOULERIG_INVENTORY", str(bench.inventory))
    monkeypatch.setattr(sys, "argv", ["rig", "drives", "state", *words])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code
    return capsys.readouterr().out


def test_the_command_shows_what_was_done_to_each_drive(bench, state, capsys, monkeypatch):
    with DriveRecord() as record:
        record.note(["SERIAL-A"], [(one.pop("event"), one) for one in made()])
        record.note(["SERIAL-A"], [("began", {"by": "run-2"})])
    said = shown(bench, capsys, monkeypatch)
    assert "bench1/fast: steady at round 7: ...; before run run-1\n" in said
    assert "not known: run-2" in " ".join(said.replace("│", " ").split())
    assert said.count("bench1/") == 5
    [one] = json.loads(shown(bench, capsys, monkeypatch, "bench1", "fast", "--json"))
    assert (one["serial"], one["purged"]["method"], one["unknown"]) == ("SERIAL-A", "discard", "run-2")


def test_a_precondition_recorded_under_the_former_key_holds():
    former = made()
    for event in former:
        if "recipe" in event:
            event["recipe"] = {
                "fill" if key == "passes" else key: value for key, value in event["recipe"].items()
            }
    assert may_reuse(timed(*former), RECIPE, Precondition(), CAPACITY)[0]


def test_a_definition_under_the_former_key_is_read():
    assert Precondition.model_validate({"fill": 3}).passes == 3
    with pytest.raises(ValueError, match="fill"):
        Precondition.model_validate({"fill": 3, "passes": 2})


# --- what the record answers


def test_a_run_whose_discards_are_not_known_wrote_an_unknown_amount():
    assert reuse(*made(), began("run-2"), ended("run-2", write=1, discard=None)) == (
        False, "what run-2 wrote is not known",
    )  # fmt: skip


def test_a_recipe_that_asks_for_less_is_another_one():
    ok, why = may_reuse(timed(*made(use_bytes=64 * GB)), RECIPE, ASKED, CAPACITY)
    assert (ok, why) == (False, f"preconditioned otherwise: use_bytes was {64 * GB}, None is wanted")


def test_the_drives_latest_count_decides():
    """As counted at the end of the last run, where the drive reports nothing now."""
    first = [began("run-2"), ended("run-2", write=GB, counter=101 * GB)]
    last = [began("run-3"), ended("run-3", write=GB, counter=140 * GB)]
    assert reuse(*made(counter=100 * GB), *first)[0]
    ok, why = reuse(*made(counter=100 * GB), *first, *last)
    assert (ok, why) == (False, "something other than the rig wrote 38 GB, by the drive's own count")


IDENTITY = {"signatures": [], "digest": "0" * 64}


def test_what_a_drive_is_known_by_is_what_was_made_last(state):
    assert drive_record.known("SERIAL-A") is None
    for digit in "12":
        drive_record.identified("SERIAL-A", "run", Identity(digest=digit * 64))
    assert drive_record.known("SERIAL-A") == {**IDENTITY, "digest": "2" * 64}


def test_what_was_written_for_a_campaign_is_of_its_runs_and_unknown_where_one_is(state):
    amounts = [("study-1", 5), ("study-1", 7), ("study-10", 100)]
    with DriveRecord() as record:
        for campaign, amount in amounts:
            record.note(["SERIAL-A"], [("ended", ended(f"{campaign}-0001", write=amount))])
        record.note(["SERIAL-B"], [("ended", ended("study-1-0002", write=3))])
        for amount in (None, 4):
            record.note(["SERIAL-B"], [("ended", ended("study-1-0003", write=amount))])
    found = drive_record.written_for("study-1", state / "var" / "drives.sqlite")
    assert found == {"SERIAL-A": 12, "SERIAL-B": None}
