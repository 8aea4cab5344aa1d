# SPDX-License-Identifier: GPL-3.0-or-later
"""Points that a test host's account writes change no joule and destroy none: a real influxd."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from joulerig.analysis.results import power_points
from joulerig.rig.campaign import measure
from joulerig.rig.common import supervisor
from joulerig.rig.controller import influxdb
from joulerig.rig.lab.model import Lab
from tests.support.influxd import servers
from tests.support.lab_files import LabFiles

S = 1_000_000_000
BEGIN = 1_700_000_000 * S
SECONDS, WATTS = 10, 2.0
SESSION = "0a1b2c3d4e5f"
TAGS = "meter=m,rail=5v,host=bench1,drive=fast"


def point(
    at_ns: int, joules: float, samples: int, more: str = f'session="{SESSION}"', tags: str = TAGS
) -> str:
    return (
        f"power,{tags} volts=5,amps=0.4,watts={WATTS},watts_min={WATTS},watts_max={WATTS},joules={joules!r},"
        f"samples={samples}i,expected={samples}i,lost=0i,gap_seconds=0,{more} {at_ns}"
    )


MIDDLE = BEGIN + SECONDS * S // 2
TRUE = [point(BEGIN + k * S // 10, WATTS * k / 10, 100 * k) for k in range(10 * SECONDS + 1)]
FORGERIES = {
    "another session's point in the middle": [point(MIDDLE + 1, 1e6, 1, 'session="ffffffffffff"')],
    "the same session's counters, higher": [point(MIDDLE + 1, 1e6, 5001)],
    "counters below zero": [point(MIDDLE + 1, -50.0, -7)],
    "a true point overwritten": [point(MIDDLE, 0.0, 0)],
    "a gap that was none": [point(MIDDLE + 1, 10.0, 5000, f'gap_seconds=5,joules_low=-1e6,session="{SESSION}"')],
    "a point without a session": [point(MIDDLE + 1, 10.0, 5000, "lost=5i")],
    "the last joules raised, and a point after them": [
        point(BEGIN + SECONDS * S, 1e6, 100 * SECONDS * 10),
        point(BEGIN + SECONDS * S + 1, 2e6, 100 * SECONDS * 10 + 1),
    ],
    "a rail that is none, of the same drive": [
        point(BEGIN + k * S, 1e3 * k, k, tags=TAGS.replace("5v", "12v")) for k in range(SECONDS + 1)
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=servers())
def described(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(influxdb, "influxd_program", lambda: request.param)
        folder = tmp_path_factory.mktemp("forged")
        patch.setenv("JOULERIG_VAR", str(folder / "var"))
        files = LabFiles(folder)
        files.host["controller_address"] = "127.0.0.1"
        described = files.load()
        influxdb.start(described)
        sessions = folder / "var" / "powerd" / "sessions"
        sessions.parent.mkdir()
        sessions.write_text(f"{SESSION}\n")
        yield described
        supervisor.stop(lambda name: True)


def send(access: influxdb.Access, database: str, lines: list[str]) -> int:
    return httpx.post(
        f"{access.url}/write",
        params={"db": database},
        content="\n".join(lines),
        auth=(access.username, access.password),
        trust_env=False,
    ).status_code


def joules(lab: Lab) -> dict[tuple[str, str, str], float | None]:
    with measure.client(lab) as database:
        found, _ = measure.points(database, "bench1", ["fast"], BEGIN, BEGIN + SECONDS * S)
    energies = power_points.energy_by_rail(found, BEGIN, BEGIN + SECONDS * S)
    return {rail: one.joules for rail, one in energies.items()}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_hosts_account_changes_no_joule(described: Lab, what: str) -> None:
    powerd, host = influxdb.access(described, "powerd"), influxdb.host_access(described, "bench1")
    assert send(powerd, powerd.database, TRUE) == 204
    sent = [send(host, name, FORGERIES[what]) for name in influxdb.databases(described)]
    assert joules(described) == {("fast", "m", "5v"): pytest.approx(WATTS * SECONDS)}
    assert sent == [403, 403, 204], "its own database takes it, and nothing reads power there"


def test_who_gets_powerds_password_destroys_nothing_by_another_session(described: Lab) -> None:
    powerd = influxdb.access(described, "powerd")
    assert send(powerd, powerd.database, TRUE) == 204
    assert send(powerd, powerd.database, FORGERIES["another session's point in the middle"]) == 204
    assert joules(described) == {("fast", "m", "5v"): pytest.approx(WATTS * SECONDS)}
