# SPDX-License-Identifier: GPL-3.0-or-later
"""The rig's own InfluxDB: where it listens, from when on, and who may do what there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from joulerig.rig.common import files, paths, supervisor
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import influxdb, services
from joulerig.rig.doctor import controller
from joulerig.rig.doctor.finding import Severity
from joulerig.rig.lab.model import Lab
from tests.support.influxd import Influxd, servers
from tests.support.lab_files import LabFiles

LAB_ADDRESS = "127.0.0.9"  # an address of this machine that is not where the controller asks by itself


@pytest.fixture(params=servers())
def lab(
    lab_files: LabFiles, state: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LabFiles]:
    monkeypatch.setattr(influxdb, "influxd_program", lambda: request.param)
    lab_files.host["controller_address"] = LAB_ADDRESS
    lab_files.hosts["bench2"] = {
        "controller_address": LAB_ADDRESS,
        "drives": {"other": {"interface": "hdd", "serial": "SERIAL-X", "size_bytes": 10**12}},
    }
    lab_files.inventory_text += "bench2\n"
    yield lab_files
    supervisor.stop(lambda name: True)


def ask(access: influxdb.Access, statement: str) -> httpx.Response:
    return httpx.get(
        f"{access.url}/query",
        params={"db": access.database, "q": statement},
        auth=(access.username, access.password),
        trust_env=False,
    )


def write(access: influxdb.Access, database: str = "") -> int:
    return httpx.post(
        f"{access.url}/write",
        params={"db": database or access.database},
        content="power,meter=m watts=1",
        auth=(access.username, access.password),
        trust_env=False,
    ).status_code


def test_it_listens_at_the_labs_address_alone(lab: LabFiles) -> None:
    described = lab.load()
    influxdb.start(described)
    assert httpx.get(f"{influxdb.access(described, 'reader').url}/ping", trust_env=False).status_code == 204
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{files.kept_port('influxdb')}/ping", trust_env=False)


def test_each_host_has_its_own_user_that_can_only_write(lab: LabFiles) -> None:
    described = lab.load()
    influxdb.start(described)
    hosts = {name: influxdb.host_access(described, name) for name in ("bench1", "bench2")}
    assert len({one.password for one in hosts.values()}) == 2
    for one in hosts.values():
        assert one.url == f"http://{LAB_ADDRESS}:{files.kept_port('influxdb')}"
        assert write(one) == 204
        assert ask(one, "SELECT * FROM power").status_code == 403
        assert ask(one, f'DROP DATABASE "{one.database}"').status_code == 403
        assert ask(one, "SHOW USERS").status_code == 403


@pytest.mark.long
def test_each_database_has_one_account_that_writes_it(lab: LabFiles) -> None:
    described = lab.load()
    influxdb.start(described)
    users = (*influxdb.WRITERS, *influxdb.READERS)
    accounts = {user: influxdb.access(described, user) for user in users}
    accounts |= {host: influxdb.host_access(described, host) for host in described.hosts}
    writers = {
        database: [name for name, account in accounts.items() if write(account, database) == 204]
        for database in influxdb.databases(described)
    }
    assert writers == {
        "joulerig_power": ["powerd"],
        "joulerig_results": ["campaign"],
        "joulerig_host_bench1": ["bench1"],
        "joulerig_host_bench2": ["bench2"],
    }
    readers = {
        name
        for name, account in accounts.items()
        for database in writers
        if "watts" in ask(dataclasses.replace(account, database=database), "SELECT * FROM power").text
    }
    assert readers == set(influxdb.READERS)


def administer(lab: Lab, statement: str) -> None:
    admin = dataclasses.replace(
        influxdb.access(lab, "reader"), username="admin", password_file=files.secret("influxdb-admin")
    )
    assert (
        '"error"'
        not in httpx.post(
            f"{admin.url}/query",
            data={"q": statement},
            auth=("admin", admin.password),
            trust_env=False,
        ).text
    )


@pytest.mark.long
def test_a_right_that_an_account_has_too_many_is_taken_away(lab: LabFiles) -> None:
    described = lab.load()
    influxdb.start(described)
    host = influxdb.host_access(described, "bench1")
    administer(described, 'GRANT WRITE ON "joulerig_power" TO "iod-bench1"')
    assert write(host, "joulerig_power") == 204
    assert list(influxdb.wrong_rights(described)) == [
        f"InfluxDB at {host.url} lets the account of test host bench1 write to 'joulerig_power' (HTTP 204);"
        " allowed: one that can write to 'joulerig_host_bench1' alone (influxdb.host_token_file)"
    ]
    [finding] = controller.CHECKS["accounts"](controller.Seen(described))
    assert (finding.severity, finding.remedy) == (Severity.ERROR, "rig up")
    influxdb.start(described)
    assert write(host, "joulerig_power") == 403
    assert list(influxdb.wrong_rights(described)) == []


@pytest.mark.long
def test_doctor_reports_points_of_a_session_that_powerd_has_not_had(lab: LabFiles) -> None:
    described = lab.load()
    assert list(controller.CHECKS["accounts"](controller.Seen(described))) == [], "nothing is made yet"
    influxdb.start(described)
    powerd = influxdb.access(described, "powerd")
    for session in ("ours", "another"):
        written = httpx.post(
            f"{powerd.url}/write",
            params={"db": powerd.database},
            content=f'power,rail={session} joules=1,session="{session}"',
            auth=(powerd.username, powerd.password),
            trust_env=False,
        )
        assert written.status_code == 204
    sessions = paths.var() / "powerd" / "sessions"
    sessions.parent.mkdir()
    sessions.write_text("ours\n")
    [finding] = controller.CHECKS["accounts"](controller.Seen(described))
    assert finding.severity == Severity.WARNING
    assert finding.text == "power has points of session 'another', which powerd has not had here"


def test_who_reads_can_delete_nothing(lab: LabFiles) -> None:
    described = lab.load()
    influxdb.start(described)
    for name in influxdb.READERS:
        account = dataclasses.replace(influxdb.access(described, name), database="joulerig_power")
        assert ask(account, "DROP MEASUREMENT power").status_code == 403


@pytest.mark.long
def test_a_host_that_has_left_the_lab_has_a_user_no_more(lab: LabFiles) -> None:
    left = influxdb.host_access(before := lab.load(), "bench2")
    influxdb.start(before)
    assert write(left) == 204
    del lab.hosts["bench2"]
    lab.inventory_text = lab.inventory_text.replace("bench2\n", "")
    influxdb.start(lab.load())
    assert write(left) == 401


@pytest.mark.long
def test_the_network_reaches_it_only_once_there_are_users(
    lab: LabFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []
    starts = supervisor.start

    def start(programs: Any) -> None:
        [program] = programs
        address = program.environment["INFLUXDB_HTTP_BIND_ADDRESS"].rpartition(":")[0]
        seen.append((address, (Path(program.command[2]).parent / "meta" / "meta.db").exists()))
        starts(programs)

    monkeypatch.setattr(supervisor, "start", start)
    influxdb.start(lab.load())
    assert seen == [("127.0.0.1", False), (LAB_ADDRESS, True)]
    influxdb.start(lab.load())
    assert seen[2:] == [(LAB_ADDRESS, True)], "and never again without a reason"


@pytest.mark.long
@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/debug/requests"])
def test_what_goes_on_inside_is_not_shown_to_the_network(lab: LabFiles, path: str) -> None:
    if (
        influxdb.influxd_version(influxdb.influxd_program()) < influxdb.DEBUG_WITH_PASSWORD
        and "pprof" not in path
    ):
        pytest.skip("this influxd has no setting for it")
    described = lab.load()
    influxdb.start(described)
    url = f"{influxdb.access(described, 'reader').url}{path}"
    assert httpx.get(url, trust_env=False).status_code in (401, 403, 404)
    host = influxdb.host_access(described, "bench1")
    answer = httpx.get(url, auth=(host.username, host.password), trust_env=False)
    assert answer.status_code in (403, 404)


def test_the_first_to_come_is_no_administrator(lab: LabFiles) -> None:
    described = lab.load()
    influxdb.start(described)
    answer = httpx.post(
        f"{influxdb.access(described, 'reader').url}/query",
        data={"q": "CREATE USER me WITH PASSWORD 'me' WITH ALL PRIVILEGES"},
        trust_env=False,
    )
    assert answer.status_code in (401, 403)


# ---------------------------------------------------------------- which address


def refused(lab: Lab) -> str:
    with pytest.raises(UserError) as complaint:
        influxdb.listen_address(lab)
    return str(complaint.value)


def test_where_hosts_have_several_the_inventory_says_which(lab: LabFiles) -> None:
    lab.hosts["bench2"]["controller_address"] = "127.0.0.8"
    assert refused(lab.load()) == (
        "influxdb.listen: missing; allowed: an address of this machine that all test hosts reach, or 0.0.0.0;"
        " they reach the controller at 127.0.0.8, 127.0.0.9"
    )
    lab.controller["influxdb"] = {"listen": "0.0.0.0"}
    assert influxdb.listen_address(lab.load()) == "0.0.0.0"
    assert influxdb.access(lab.load(), "reader").url.startswith("http://127.0.0.1:")


def test_an_address_of_another_machine_is_refused(lab: LabFiles) -> None:
    for host in lab.hosts.values():
        host["controller_address"] = "192.0.2.1"
    assert "influxdb.listen: '192.0.2.1' is no address of this machine" in refused(lab.load())


# ---------------------------------------------------------------- a server that is there already


def external(lab: LabFiles, folder: Path, **more: Any) -> Lab:
    token = folder / "token"
    token.write_text("can-read")
    lab.controller["influxdb"] = {"url": "http://192.0.2.7:8086", "token_file": str(token), **more}
    return lab.load()


def test_hosts_never_get_the_controllers_token(lab: LabFiles, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"influxdb\.host_token_file: missing; .*not given the controller's"):
        services.deployment(external(lab, tmp_path), "bench1")


def test_each_host_gets_the_token_that_the_inventory_has_for_it(lab: LabFiles, tmp_path: Path) -> None:
    for host in ("bench1", "bench2"):
        (tmp_path / f"token-{host}").write_text(f"of {host}\n")
    described = external(
        lab, tmp_path, host_token_file=str(tmp_path / "token-{host}"), host_username="agent-{host}"
    )
    for host in ("bench1", "bench2"):
        agent = services.deployment(described, host)["rig_agent"]
        assert agent["password"] == f"of {host}"
        assert agent["config"]["influx"]["username"] == f"agent-{host}"
        assert "can-read" not in str(agent)


def by_url(lab: LabFiles, influxd: Influxd, folder: Path, user: tuple[str, str]) -> Lab:
    """Return a lab on a server that is there already, where hosts write as `user`."""
    for name, (_, password) in {"token": influxd.reader, "host-token": user}.items():
        (folder / name).write_text(password)
    lab.controller["influxdb"] = {
        "url": influxd.url,
        "username": influxd.reader[0],
        "token_file": str(folder / "token"),
        "host_username": user[0],
        "host_token_file": str(folder / "host-token"),
    }
    return lab.load()


def test_a_lab_whose_hosts_can_write_power_is_refused(
    lab: LabFiles, influxd: Influxd, tmp_path: Path
) -> None:
    described = by_url(lab, influxd, tmp_path, influxd.writer)
    with pytest.raises(UserError, match="lets the account of test host bench1 write to 'joulerig_power'"):
        influxdb.start(described)


def test_a_lab_whose_hosts_can_write_nothing_is_refused(
    lab: LabFiles, influxd: Influxd, tmp_path: Path
) -> None:
    described = by_url(lab, influxd, tmp_path, influxd.stranger)
    with pytest.raises(UserError, match=r"does not let .* bench1 write to 'joulerig_host_bench1' \(HTTP 403"):
        influxdb.start(described)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ({"host_token_file": "x"}, "influxdb.host_token_file: only with 'url'"),
        (
            {"url": "http://a:1", "token_file": "t", "listen": "127.0.0.1"},
            "influxdb.listen: only of the rig's",
        ),
        ({"listen": "nowhere"}, "influxdb.listen: 'nowhere'"),
    ],
)
def test_a_mistake_is_one_line(lab: LabFiles, written: dict[str, str], complaint: str) -> None:
    lab.controller["influxdb"] = written
    with pytest.raises(UserError, match=complaint):
        lab.load()
