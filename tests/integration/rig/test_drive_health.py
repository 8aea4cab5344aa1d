# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig drives show`: a twin's own page, or what a drive's host reported last."""

import json
import sys

import pytest

from joulerig.rig.cli import main
from joulerig.rig.cli.drives import command as drives
from joulerig.rig.common.errors import RIG_UP, UserError
from joulerig.virtuallab import twins
from tests.support.nbd_client import NbdClient
from tests.support.twins import Twin


@pytest.fixture
def described(lab_files, influxd, state, tmp_path):
    """A lab with a bench host and a virtual one with one twin; `reader` of a real InfluxDB."""
    token = tmp_path / "token"
    token.write_text(influxd.reader[1])
    lab_files.controller["influxdb"] = {
        "url": influxd.url, "database": influxd.database, "username": influxd.reader[0],
        "token_file": str(token),
    }  # fmt: skip
    lab_files.inventory_text += "vhost1\n"
    twinned = {"interface": "nvme", "serial": "JRTEST0001", "size_bytes": 1 << 26, "profile": "nvme-consumer"}
    lab_files.hosts["vhost1"] = {
        "virtual": {}, "controller_address": "10.0.2.2", "drives": {"twin": twinned}
    }  # fmt: skip
    return lab_files.load()


@pytest.fixture
def twin(tmp_path, state):
    running = Twin(tmp_path / "t")
    place = twins.control_socket("vhost1", "twin")
    running.command = [f"control={place}" if w.startswith("control=") else w for w in running.command]
    running.control = place
    with running:
        yield running


def test_a_twins_page_is_the_twins(described, twin):
    with NbdClient(twin.nbd) as client:
        client.write(0, bytes(8192))
    [found] = drives.health(described, "vhost1", "twin")
    assert (found.source, found.serial, found.reason) == ("twin", "JRTEST0001", "")
    assert found.figures["host_bytes_written"] == 8192
    assert found.figures["unsafe_shutdowns"] == 0
    assert found.figures["power_on_hours"] == pytest.approx(
        twin.state()["health"]["power_on_seconds"] / 3600, abs=10 / 3600
    )


def test_another_drives_page_is_what_its_host_reported_last(described, influxd):
    for time_ns, celsius in (1_000_000_000, 31), (2_000_000_000, 33):
        influxd.write(
            f"drive_health,host=bench1,drive=fast temperature_celsius={celsius},unsafe_shutdowns=4i,"
            f"data_units_written_bytes=512000i {time_ns}"
        )
    [found] = drives.health(described, "bench1", "fast")
    assert found.source == "host"
    assert found.figures == {
        "temperature_celsius": 33,
        "unsafe_shutdowns": 4,
        "host_bytes_written": 512000,
    }


def test_a_drive_without_reports_has_a_reason_and_no_figures(described):
    of = {f"{one.host}/{one.drive}": one for one in drives.health(described)}
    assert list(of) == ["bench1/fast", "bench1/hdd-1", "bench1/hdd-2", "bench1/bare", "vhost1/twin"]
    assert of["bench1/fast"].reason == "its host has reported nothing yet"
    assert of["vhost1/twin"].reason.endswith("the twin does not answer; 'rig up' starts it")
    assert not any(one.figures or one.source for one in of.values())


def test_without_the_rigs_own_database_the_reason_says_what_starts_it(lab_files, described):
    del lab_files.controller["influxdb"]
    [found] = drives.health(lab_files.load(), "bench1", "fast")
    assert found.reason.endswith(f"; {RIG_UP}")


def test_without_a_database_that_the_inventory_names_nothing_of_the_rig_starts_it(lab_files, described):
    lab_files.controller["influxdb"]["url"] = "http://127.0.0.1:1"
    [found] = drives.health(lab_files.load(), "bench1", "fast")
    assert "InfluxDB cannot be reached" in found.reason
    assert "rig up" not in found.reason


def test_the_command_prints_a_table_and_json(described, twin, monkeypatch, capsys):
    monkeypatch.setenv("JOULERIG_INVENTORY", str(described.inventory))
    for words in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["rig", "drives", "show", "vhost1", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert not ended.value.code
        said = capsys.readouterr().out
        if words:
            assert json.loads(said)[0]["figures"]["power_cycles"] == 1
        else:
            assert "vhost1/twin" in said
            assert "unsafe" in said


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("bench9", None), "allowed: bench1, vhost1"),
        (("vhost1", "fast"), "not a drive of vhost1; allowed: twin"),
    ],
)
def test_a_wrong_name_is_refused(described, asked, reason):
    with pytest.raises(UserError, match=reason):
        drives.health(described, *asked)
