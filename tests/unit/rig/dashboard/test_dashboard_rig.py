# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig's page: lab, hosts, drives and meters, from what was recorded and reported."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from joulerig.analysis.results.influxdb.client import Unreachable
from joulerig.rig.dashboard.api import recorded, reported, rig
from tests.support.dashboard_journal import NAME, T0, WritableJournal
from tests.support.dashboard_powerd import Powerd, meter

SECOND = 1_000_000_000
LAB: dict[str, Any] = {
    "lab": {
        "controller": {"meters": {"tap1a": {"driver": "hameg-hmo", "sample_rate_hz": 1000.0}, "spare": {}}},
        "hosts": {
            "vhost1": {
                "virtual": {"cpus": 2},
                "arrays": {"array": {"members": ["hdd-1", "hdd-2"]}},
                "drives": {
                    "nvme-plp": {
                        "interface": "nvme", "serial": "JR1", "size_bytes": 4096, "plp": True,
                        "rated_terabytes_written": 2.0, "rails": {"12v": {}},
                    },
                    "hdd-1": {"interface": "hdd", "serial": "JR2", "size_bytes": 8192},
                },
            }
        },
    },
    "addresses": {"vhost1": "10.0.0.7"},
    "calibration": {"tap1a": {"state": "valid", "reason": "", "date": "2026-01-01", "expires": "2027-01-01"}},
}  # fmt: skip


class Away:
    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        raise Unreachable("http://x: InfluxDB cannot be reached: refused")


class Answers:
    """An InfluxDB with one reply a measurement, and the queries that it got."""

    def __init__(self, **frames: pl.DataFrame) -> None:
        self.frames, self.queries = frames, list[str]()

    def query(self, influxql: str, *, host: str | None = None) -> pl.DataFrame:
        self.queries.append(influxql)
        return next(
            (frame for name, frame in self.frames.items() if f"FROM {name} " in influxql), pl.DataFrame()
        )


@pytest.fixture
def lab_file(tmp_path: Path) -> Path:
    path = tmp_path / "lab.json"
    path.write_text(json.dumps(LAB))
    return path


def read(tmp_path: Path, lab_file: Path | None, influx: Any = None, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "lab_file": lab_file,
        "influx": influx or Answers(),
        "powerd_socket": tmp_path / "status.sock",
        "results": tmp_path / "results",
        "state_dir": tmp_path,
        "campaigns": [NAME],
        "executed": [],
        "processes": lambda: {"machine": {}, "services": []},
        "now_ns": T0 + 60 * SECOND,
        "slowness": 1.0,
        "virtual": True,
    }
    found = rig.read(**(given | more))
    json.dumps(found, allow_nan=False)
    return found


def test_the_lab_is_as_rig_up_read_it_with_its_age(tmp_path, lab_file):
    os.utime(lab_file, (time.time() - 3600, time.time() - 3600))
    found = read(tmp_path, lab_file)
    assert found["lab_age_seconds"] == pytest.approx(3600, abs=60)
    (host,) = found["hosts"]
    assert (host["name"], host["address"], host["virtual"]) == ("vhost1", "10.0.0.7", True)
    drive = found["drives"][0]
    assert (drive["host"], drive["name"], drive["interface"], drive["serial"]) == (
        "vhost1", "nvme-plp", "nvme", "JR1",
    )  # fmt: skip
    assert (drive["size_bytes"], drive["rated_bytes"], drive["rails"]) == (4096, 2e12, ["12v"])
    assert found["drives"][1]["roles"] == ["member of array"]


def test_without_a_lab_the_page_says_what_writes_it(tmp_path):
    found = read(tmp_path, None)
    assert (found["hosts"], found["drives"]) == ([], [])
    assert found["problems"][0] == rig.NO_LAB
    assert read(tmp_path, tmp_path / "none.json")["problems"][0].endswith(
        "none.json: No such file or directory"
    )
    (tmp_path / "torn.json").write_text('{"lab":')
    assert read(tmp_path, tmp_path / "torn.json")["problems"][0].endswith("not JSON; 'rig up' writes it")


def test_what_is_not_known_is_null_and_never_nought(tmp_path, lab_file):
    found = read(tmp_path, lab_file, influx=Away())
    assert "http://x: InfluxDB cannot be reached: refused" in found["problems"]
    assert any("the power daemon does not answer" in one for one in found["problems"])
    (host,) = found["hosts"]
    assert (host["state"], host["agent"]["cpu"], host["kernel"], host["clock"]) == (
        "unknown",
        None,
        None,
        None,
    )
    tap = found["meters"][0]
    assert (tap["state"], tap["lost"], tap["balanced"], tap["rate_hz"]) == (None, None, None, 1000.0)
    assert (found["drives"][0]["health"], found["drives"][0]["seen"]) == (None, None)


def load_frame(*ages: float, busy: tuple[float, ...] = (), **more: float) -> pl.DataFrame:
    count = len(ages)
    return pl.DataFrame(
        {
            "host": ["vhost1"] * count,
            "time": [T0 + int((60 - age) * SECOND) for age in ages],
            "cpu_busy_seconds": list(busy) or [10.0 + number for number in range(count)],
            "agent_cpu_seconds": [1.0 + 0.01 * number for number in range(count)],
            "package_joules": [100.0 + 5.0 * number for number in range(count)],
            **{name: [more.get(name)] * count for name in reported.KEPT},
        }
    )


def test_an_agent_that_reports_has_rates(tmp_path, lab_file):
    frame = load_frame(4.0, 3.0, 2.0, memory_used_bytes=1024)
    (host,) = read(tmp_path, lab_file, influx=Answers(hostload=frame))["hosts"]
    assert (host["state"], host["age_seconds"]) == ("reporting", 2.0)
    assert host["cpu_busy"] == pytest.approx(1.0)
    assert host["agent"]["cpu"] == pytest.approx(0.01)
    assert host["package_watts"] == pytest.approx(5.0)
    assert host["memory_used_bytes"] == 1024


def test_an_agent_that_is_silent_says_since_when(tmp_path, lab_file):
    (host,) = read(tmp_path, lab_file, influx=Answers(hostload=load_frame(40.0, 35.0)))["hosts"]
    assert (host["state"], host["age_seconds"]) == ("silent", 35.0)


def test_a_counter_that_stepped_back_has_no_rate():
    influx = Answers(hostload=load_frame(3.0, 2.0, 1.0, busy=(5.0, 1.0, 2.0)))
    assert reported.hosts(influx, T0 + 60 * SECOND)["vhost1"]["cpu_busy"] is None


def test_every_query_is_bounded_in_time():
    influx = Answers()
    for ask in (reported.hosts, reported.health, reported.clocks):
        ask(influx, T0)
    reported.own_power(influx, T0, {("h", "d"): {"reported_watts": 4.0, "age_seconds": 1.0}})
    assert len(influx.queries) == 5
    assert all(" WHERE time >= " in query for query in influx.queries)


def test_a_drives_own_power_stands_next_to_its_rails(tmp_path, lab_file):
    own = pl.DataFrame({"host": ["vhost1"], "drive": ["nvme-plp"], "time": [T0], "reported_watts": [4.2]})
    rails = pl.DataFrame({"meter": ["tap1a", "tap1b"], "rail": ["12v", "3v3"], "watts": [3.5, 0.5]})
    influx = Answers(drive_health=own, power=rails)
    drives = {one["name"]: one for one in read(tmp_path, lab_file, influx=influx)["drives"]}
    assert drives["nvme-plp"]["own_power"] == {"watts": 4.2, "rails_watts": 4.0, "age_seconds": 60.0}
    assert drives["hdd-1"]["own_power"] is None
    asked = next(query for query in influx.queries if "FROM power" in query)
    assert f"time >= {T0 - SECOND} AND time < {T0}" in asked


def test_what_a_drive_reported_of_its_power_is_its_power_for_ten_minutes():
    seen = {
        ("h", name): {"reported_watts": 4.0, "age_seconds": age}
        for name, age in (("new", 599.0), ("old", 601.0))
    }
    assert list(reported.own_power(Answers(), T0, seen)) == [("h", "new")]


def test_rails_that_were_not_measured_are_not_zero(tmp_path, lab_file):
    own = pl.DataFrame({"host": ["vhost1"], "drive": ["nvme-plp"], "time": [T0], "reported_watts": [4.2]})
    found = read(tmp_path, lab_file, influx=Answers(drive_health=own))
    assert found["drives"][0]["own_power"]["rails_watts"] is None


def test_a_drives_health_and_a_hosts_clock_have_their_age(tmp_path, lab_file):
    health = pl.DataFrame(
        {"host": ["vhost1"], "drive": ["nvme-plp"], "time": [T0], "temperature_celsius": [41.0]}
    )
    clock = pl.DataFrame(
        {"host": ["vhost1"], "time": [T0], "clock_offset_ns": [-2_000_000], "clock_error_ns": [150_000]}
    )
    found = read(tmp_path, lab_file, influx=Answers(drive_health=health, phase=clock))
    assert found["drives"][0]["health"]["temperature_celsius"] == 41.0
    assert found["drives"][0]["health"]["media_errors"] is None
    assert found["drives"][0]["health"]["age_seconds"] == 60.0
    assert found["hosts"][0]["clock"] == {
        "offset_seconds": -0.002, "error_seconds": 0.00015, "age_seconds": 60.0,
    }  # fmt: skip


def settings(journal: WritableJournal, run: str, **content: Any) -> None:
    folder = journal.folder / "runs" / run
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(content))


def test_a_drive_is_as_its_last_run_saw_it(tmp_path, lab_file, journal):
    runs = journal.plan()
    for number, run in enumerate(runs[:2]):
        journal.end(run, T0 + (number + 1) * SECOND)
        drive = {"serial": "JR1", "model": "X", "firmware": f"1.{number}", "wwn": None, "size_bytes": 4096}
        settings(journal, run, host={"kernel": f"6.{number}", "cpus": 2}, drive=drive)
    found = read(tmp_path, lab_file)
    drive = found["drives"][0]
    assert (drive["model"], drive["firmware"], drive["seen"]["run"]) == ("X", "1.1", runs[1])
    assert drive["seen"]["age_seconds"] == 58.0
    assert (found["hosts"][0]["kernel"], found["hosts"][0]["kernel_age_seconds"]) == ("6.1", 58.0)


def test_a_drive_is_as_the_newest_campaign_saw_it(results, journal):
    earlier = WritableJournal(results, "demo-0", T0 - 9 * SECOND)
    for number, one in enumerate((earlier, journal)):
        run = one.plan()[0]
        one.end(run, T0 + number * SECOND)
        settings(one, run, drive={"serial": "JR1", "firmware": f"1.{number}"})
    earlier.close()
    found = recorded.by_runs(results, [NAME, "demo-0"])
    assert found["vhost1"]["drives"]["nvme-plp"]["firmware"] == "1.1"


def test_a_failed_run_is_no_witness(tmp_path, lab_file, journal):
    run = journal.plan()[0]
    journal.end(run, T0, "failed", "gone")
    settings(journal, run, host={"kernel": "6.1"}, drive={"serial": "JR1", "firmware": "1"})
    assert read(tmp_path, lab_file)["drives"][0]["seen"] is None


def test_members_of_an_array_are_seen_by_name(tmp_path, lab_file, journal):
    run = journal.plan(drives=("array",))[0]
    journal.end(run, T0)
    settings(journal, run, drive={"hdd-1": {"serial": "JR2", "firmware": "7"}, "hdd-2": {"serial": "JR3"}})
    assert read(tmp_path, lab_file)["drives"][1]["firmware"] == "7"


STATES = [{"max_watts": 8.0}, {"max_watts": 4.5}]
OF_ONE = {"drive": {"power_state": 1, "power_states": STATES}}
OF_MEMBER = {"drive": {"hdd-1": {"power_state": 0, "power_states": STATES}, "hdd-2": {}}}


@pytest.mark.parametrize(
    ("power", "found"),
    [
        (OF_ONE, {"number": 1, "most_watts": 4.5}),
        (None, None),  # of a run before power was recorded
        ({"drive": {"apm": 128}}, None),
        ({"drive": {"power_state": 7, "power_states": STATES}}, None),
        ("x", None),
    ],
)
def test_a_drive_is_in_the_power_state_that_its_last_run_recorded(tmp_path, lab_file, journal, power, found):
    run = journal.plan()[0]
    journal.end(run, T0)
    settings(journal, run, drive={"serial": "JR1"}, power=power)
    assert read(tmp_path, lab_file)["drives"][0]["seen"]["power_state"] == found


def test_members_of_an_array_have_power_states_by_name(tmp_path, lab_file, journal):
    run = journal.plan(drives=("array",))[0]
    journal.end(run, T0)
    settings(journal, run, drive={"hdd-1": {"serial": "JR2"}, "hdd-2": {"serial": "JR3"}}, power=OF_MEMBER)
    assert read(tmp_path, lab_file)["drives"][1]["seen"]["power_state"] == {"number": 0, "most_watts": 8.0}


@pytest.mark.parametrize("text", ["[1, 2]", "{", '{"drive": 3}', '{"drive": {"hdd-1": "x"}}', ""])
def test_settings_that_are_no_settings_are_passed_over(tmp_path, lab_file, journal, text):
    run = journal.plan()[0]
    journal.end(run, T0)
    settings(journal, run)
    (journal.folder / "runs" / run / "settings.json").write_text(text)
    assert read(tmp_path, lab_file)["drives"][0]["seen"] is None


def test_a_run_that_goes_on_holds_its_drives(tmp_path, lab_file, journal):
    run = journal.plan(drives=("array",))[0]
    journal.begin(run, T0)
    held = read(tmp_path, lab_file, executed=[NAME])
    assert held["drives"][1]["lease"] == {"campaign": NAME, "run": run, "since_ns": T0}
    assert held["hosts"][0]["runs"] == [run]
    assert held["drives"][0]["lease"] is None
    assert read(tmp_path, lab_file)["drives"][1]["lease"] is None


def events_file(tmp_path: Path, name: str, age: float, *events: dict[str, Any] | str) -> None:
    path = tmp_path / "log" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in events))
    os.utime(path, (time.time() - age, time.time() - age))


def contents(**drive: Any) -> dict[str, Any]:
    return {"event": "contents", "host": "vhost1", "reply": {"found": {"nvme-plp": drive}}}


def test_what_a_drive_may_be_wiped_for_is_what_a_playbook_found_last(tmp_path, lab_file):
    events_file(tmp_path, "contents.events", 900, contents(holds="ext4", free=""))
    events_file(tmp_path, "plan.events", 90, contents(holds="ext4", free="adopted by ada"))
    adopted = read(tmp_path, lab_file)["drives"][0]["adopted"]
    assert (adopted["may_be_wiped"], adopted["why"], adopted["holds"]) == (True, "adopted by ada", "ext4")
    assert adopted["age_seconds"] == pytest.approx(90, abs=30)


def test_a_drive_with_a_problem_may_not_be_wiped_whatever_else_is_said(tmp_path, lab_file):
    events_file(tmp_path, "contents.events", 9, contents(free="blank", problem="is mounted at /"))
    adopted = read(tmp_path, lab_file)["drives"][0]["adopted"]
    assert (adopted["may_be_wiped"], adopted["why"]) == (False, "is mounted at /")


def test_who_has_a_host_is_shown_without_what_is_nobodys_business(tmp_path, lab_file):
    entry = {"owner": "ada@boss", "machine": "m2", "process": "p", "purpose": "x", "campaign": "", "made": 1.0,
             "expires": 2.0, "created_ns": 0}  # fmt: skip
    event = {"event": "reservation", "host": "vhost1", "reply": {"held": [entry], "now": 1.5}}
    events_file(tmp_path, "reservations.events", 9, event)
    (held,) = read(tmp_path, lab_file)["hosts"][0]["reservation"]["held"]
    assert held == {"owner": "ada@boss", "purpose": "x", "campaign": "", "made": 1.0, "expires": 2.0}


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", '{"event": "contents"}', '{"event": "contents", "host": 3, "reply": {}}',
     '{"event": "contents", "host": "vhost1", "reply": []}',
     '{"event": "contents", "host": "vhost1", "reply": {"found": {"nvme-plp": "none"}}}',
     '{"event": "reservation", "host": "vhost1", "reply": {"held": "none"}}', '{"event": "failed", "host": "vhost1"}'],
)  # fmt: skip
def test_lines_that_are_no_such_events_are_passed_over(tmp_path, lab_file, line):
    events_file(tmp_path, "contents.events", 9, line, contents(free="blank"))
    assert read(tmp_path, lab_file)["drives"][0]["adopted"]["why"] == "blank"


def test_a_meter_says_what_powerd_says_and_whether_its_ledger_balances(tmp_path, lab_file):
    powerd = Powerd(
        tmp_path / "status.sock",
        [meter("tap1a", expected=100_010), meter("unknown", lost=5, expected=100_005)],
    )
    try:
        first, spare, other = read(tmp_path, lab_file)["meters"]
    finally:
        powerd.stop()
    assert (first["name"], first["driver"], first["state"]) == ("tap1a", "hameg-hmo", "streaming")
    assert (first["received"], first["unaccounted"], first["balanced"]) == (100_000, 10, False)
    assert (first["rate_hz"], first["observed_rate_hz"]) == (1000.0, 1000.02)
    assert first["calibration"]["state"] == "valid"
    assert (spare["name"], spare["state"]) == ("spare", None)
    assert (other["name"], other["balanced"]) == ("unknown", True)
    assert other["lost_percent"] == pytest.approx(100 * 5 / 100_005)


def test_only_so_many_campaigns_are_looked_through(tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr(recorded, "_rows", lambda folder, query, *values: looked.append(folder.name) or [])
    recorded.by_runs(tmp_path, [str(number) for number in range(100)])
    assert looked == [str(number) for number in range(recorded.MOST_CAMPAIGNS)]
