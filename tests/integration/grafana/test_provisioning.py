# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook that provisions a Grafana: twice, after changes of others, undone, refused.

Grafana is a stand-in of its HTTP API in front of a real InfluxDB (tests/support/fake_grafana.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.grafana import provision
from tests.support import ROOT
from tests.support.fake_grafana import TOKEN, FakeGrafana
from tests.support.influxd import Influxd
from tests.support.lab_files import LabFiles

UIDS = {"joulerig-lab", "joulerig-campaign", "joulerig-meters"}


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    with FakeGrafana() as server:
        yield server


@pytest.fixture
def lab(lab_files: LabFiles, grafana: FakeGrafana, influxd: Influxd, tmp_path: Path, state: Path) -> LabFiles:
    """A lab with an InfluxDB that was there before, whose dashboards a Grafana is to show."""
    for name, text in {
        "writer": Influxd.writer[1],
        "reader": Influxd.reader[1],
        "grafana": TOKEN,
    }.items():
        (tmp_path / name).write_text(f"{text}\n")
    lab_files.controller["influxdb"] = {
        "url": influxd.url, "database": Influxd.database, "username": Influxd.writer[0],
        "token_file": str(tmp_path / "writer"), "host_token_file": str(tmp_path / "writer"),
    }  # fmt: skip
    lab_files.controller["grafana"] = {
        "url": grafana.url, "token_file": str(tmp_path / "grafana"),
        "influxdb_username": Influxd.reader[0], "influxdb_token_file": str(tmp_path / "reader"),
    }  # fmt: skip
    lab_files.controller |= {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    return lab_files


def play(lab: LabFiles, *words: str) -> tuple[int, str]:
    """Run the playbook; return how many tasks changed something, and what it printed."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            "-i", lab.write(), ROOT / "playbooks" / "grafana.yml", "-v", *words,
        ],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "NO_COLOR": "1"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    [changed] = re.findall(r"changed=(\d+)", printed)
    return int(changed), printed


@pytest.mark.long
def test_the_playbook_provisions_once_and_undoes_it(lab: LabFiles, grafana: FakeGrafana) -> None:
    changed, printed = play(lab, "--check")
    assert (changed, grafana.wrote) == (1, [])
    assert "made dashboard Campaign" in printed
    changed, printed = play(lab)
    assert changed == 1
    assert set(grafana.dashboards) == UIDS
    assert TOKEN not in printed
    assert Influxd.reader[1] not in printed
    grafana.wrote.clear()
    assert play(lab)[0] == 0
    assert grafana.wrote == []
    assert play(lab, "-e", "grafana_state=absent")[0] == 1
    assert (grafana.dashboards, grafana.sources, grafana.folders) == ({}, {}, {})
    assert play(lab, "-e", "grafana_state=absent")[0] == 0


def test_an_unknown_state_is_refused(lab: LabFiles) -> None:
    with pytest.raises(AssertionError, match="value of state must be one of: present, absent"):
        play(lab, "-e", "grafana_state=gone")


def test_no_secret_is_in_a_dashboard_or_can_be_read_back(lab: LabFiles, grafana: FakeGrafana) -> None:
    provision.present(lab.load())
    kept = json.dumps([grafana.dashboards, grafana.sources, grafana.folders])
    assert json.dumps(Influxd.reader[1])[1:-1] not in kept
    assert TOKEN not in kept
    [source] = grafana.sources.values()
    assert source["access"] == "proxy", "else each browser is given the password"


def test_what_others_changed_is_put_back(lab: LabFiles, grafana: FakeGrafana) -> None:
    provision.present(lab.load())
    grafana.dashboards["joulerig-lab"]["dashboard"]["panels"][1]["targets"][0]["query"] = "SELECT 1"
    grafana.dashboards["joulerig-meters"]["folder"] = "elsewhere"
    grafana.sources["joulerig"]["jsonData"]["dbName"] = "another"
    grafana.folders["joulerig"]["title"] = "Mine"
    assert provision.present(lab.load()) == [
        "named folder", "changed data source", "changed dashboard Lab", "changed dashboard Meters",
    ]  # fmt: skip
    assert provision.present(lab.load()) == []


def test_what_grafana_adds_is_no_change(lab: LabFiles, grafana: FakeGrafana) -> None:
    provision.present(lab.load())
    for one in grafana.dashboards.values():
        one["dashboard"] |= {"schemaVersion": 41, "liveNow": False}
        one["dashboard"]["panels"][1] |= {"pluginVersion": "11.3.1"}
        one["dashboard"]["panels"][1].pop("transformations")  # it was empty
    assert provision.present(lab.load()) == []


def test_a_password_that_changed_is_sent_again(
    lab: LabFiles, grafana: FakeGrafana, influxd: Influxd, tmp_path: Path
) -> None:
    provision.present(lab.load())
    influxd.statement("CREATE USER later WITH PASSWORD 'later'")
    influxd.statement(f"GRANT READ ON {Influxd.power} TO later")
    (tmp_path / "reader").write_text("later")
    lab.controller["grafana"]["influxdb_username"] = "later"
    assert provision.present(lab.load()) == ["changed data source"]
    influxd.statement("SET PASSWORD FOR later = 'latest'")
    (tmp_path / "reader").write_text("latest")
    assert provision.present(lab.load()) == ["changed data source"], "only InfluxDB shows that it is wrong"
    assert provision.present(lab.load()) == []
    influxd.statement("DROP USER later")


def test_a_user_that_can_write_is_refused(lab: LabFiles, grafana: FakeGrafana, tmp_path: Path) -> None:
    (tmp_path / "reader").write_text(Influxd.writer[1])
    lab.controller["grafana"]["influxdb_username"] = Influxd.writer[0]
    with pytest.raises(
        UserError,
        match=r"user 'writer' can write to 'joulerig_power'; allowed for Grafana: one that can only read",
    ):
        provision.present(lab.load())
    assert grafana.wrote == []


def test_the_controllers_token_is_not_given_away(lab: LabFiles, grafana: FakeGrafana) -> None:
    del lab.controller["grafana"]["influxdb_token_file"]
    with pytest.raises(UserError, match=r"^grafana.influxdb_token_file: missing; Grafana is not given"):
        provision.present(lab.load())
    assert grafana.wrote == []


def test_a_folder_that_holds_what_others_made_stays(lab: LabFiles, grafana: FakeGrafana) -> None:
    provision.present(lab.load())
    grafana.dashboards["theirs"] = {"dashboard": {"uid": "theirs"}, "folder": "joulerig"}
    assert "deleted folder" not in provision.absent(lab.load())
    assert set(grafana.dashboards) == {"theirs"}
    assert set(grafana.folders) == {"joulerig"}


def test_two_labs_on_one_grafana_do_not_touch_each_other(lab: LabFiles, grafana: FakeGrafana) -> None:
    provision.present(lab.load())
    lab.controller["grafana"] |= {"uid": "second", "title": "Second"}
    provision.present(lab.load())
    assert len(grafana.dashboards) == 2 * len(UIDS)
    provision.absent(lab.load())
    assert set(grafana.dashboards) == UIDS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "http://127.0.0.1:1"}, r"^Grafana at http://127.0.0.1:1 does not answer: "),
        ({"token_file": "/nonexistent"}, r"^grafana.token_file: /nonexistent: No such file or directory$"),
        ({"influxdb_url": "http://127.0.0.1:1"}, r"cannot read InfluxDB at http://127.0.0.1:1: HTTP 502: "),
        (
            {"influxdb_username": "unknown"},
            r"does not know user 'unknown' with this password; 'rig up' makes",
        ),
    ],
)
def test_what_is_wrong_is_one_line(lab: LabFiles, change: dict[str, Any], message: str) -> None:
    lab.controller["grafana"] |= change
    with pytest.raises(UserError, match=message) as caught:
        provision.present(lab.load())
    assert "\n" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_token_that_grafana_refuses_is_one_line(lab: LabFiles, tmp_path: Path) -> None:
    (tmp_path / "grafana").write_text("another")
    with pytest.raises(
        UserError, match=r"GET /api/health: HTTP 401: Invalid API key; grafana.token_file: "
    ) as e:
        provision.present(lab.load())
    assert "another" not in str(e.value)


def test_a_lab_without_grafana_is_refused(lab: LabFiles) -> None:
    del lab.controller["grafana"]
    with pytest.raises(UserError, match=r"the controller has no 'grafana'; allowed: a mapping with url and"):
        provision.present(lab.load())


def test_an_old_grafana_is_refused(lab: LabFiles, grafana: FakeGrafana) -> None:
    grafana.version = "8.5.27"
    with pytest.raises(UserError, match=r"is 8.5.27; allowed: 9.0 or later$"):
        provision.present(lab.load())


@pytest.mark.parametrize(
    ("version", "column"), [("9.5.2", "finish"), ("10.2.0", "phase.finish"), ("", "phase.finish")]
)
def test_the_end_of_a_region_is_named_as_the_version_names_it(
    lab: LabFiles, grafana: FakeGrafana, version: str, column: str
) -> None:
    grafana.version = version
    provision.present(lab.load())
    regions = grafana.dashboards["joulerig-campaign"]["dashboard"]["annotations"]["list"]
    assert [one["target"]["timeEndColumn"] for one in regions if one["name"] == "phases"] == [column]
