# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host is reserved by one owner at a time, by its own clock."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import joulerig_reservation
import pytest
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import reservation
from ansible.module_utils.joulerig.detached import calls
from ansible.module_utils.joulerig.reservation import Asker, Reserved
from ansible.module_utils.joulerig.tools import Failed, Refused
from tests.support import ROOT

ADA = Asker("ada@boss", "m1", "bench1")
BOB = Asker("bob@lab2", "m2", "rack7")
DEMO = Asker("ada@boss", "m1", "bench1", "demo-1", 17, "boss boot-1 5 9")
OTHER = Asker("ada@boss", "m1", "bench1", "other-2", 18, "boss boot-1 6 9")
HOUR = 3600.0
NOON = 1_764_072_000.0  # 2025-11-25 12:00 UTC


@pytest.fixture(autouse=True)
def host(fake, monkeypatch):
    fake.stand_in(monkeypatch)
    return fake.sys.parent


@pytest.fixture(autouse=True)
def set_clock(monkeypatch):
    """set_clock(SECONDS) sets the host's clock to so long after noon."""

    def to(seconds: float) -> None:
        monkeypatch.setattr(reservation.time, "time", lambda: NOON + seconds)

    to(0)
    return to


ENTRY = {
    "owner": "ada@boss", "machine": "m1", "purpose": "x", "campaign": "demo-1", "created_ns": 1, "process": "p",
    "made": NOON, "expires": NOON + HOUR,
}  # fmt: skip
BROKEN = {"campaigns": [["demo-1", 1]], "by": "ada", "at": NOON}
# Values of every kind, and what JSON alone has.
ODD_VALUES = [
    None, True, 3, -1, 1.5, 1e400, float("nan"), 10**400, "x", "x" * 5000, "\x1b[2J", "{{ 7*7 }}", [], [1], {}, {"a": 1},
]  # fmt: skip


def odd_files() -> list[object]:
    """The file with each of its parts replaced by each odd value, left out, or added to."""
    whole = {"version": 1, "held": [ENTRY], "broken": BROKEN}
    found: list[object] = [*ODD_VALUES]
    for key in whole:
        found += [{**whole, key: odd} for odd in ODD_VALUES]
        found += [{name: one for name, one in whole.items() if name != key}]
    for key in ENTRY:
        found += [{**whole, "held": [{**ENTRY, key: odd}]} for odd in ODD_VALUES]
        found += [{**whole, "held": [{name: one for name, one in ENTRY.items() if name != key}]}]
    for key in BROKEN:
        found += [{**whole, "held": [], "broken": {**BROKEN, key: odd}} for odd in ODD_VALUES]
        found += [{**whole, "broken": {name: one for name, one in BROKEN.items() if name != key}}]
    found += [{**whole, "held": [odd]} for odd in ODD_VALUES]
    found += [{**whole, "broken": {**BROKEN, "campaigns": [odd]}} for odd in ODD_VALUES]
    return [
        *found,
        {**whole, "more": 1},
        {**whole, "held": [{**ENTRY, "more": 1}]},
        {**whole, "held": [ENTRY] * 99},
    ]


def put(text: str) -> Path:
    path = Path(reservation._path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def outcome(act) -> str:
    """Return why the file was refused; empty where it was read."""
    try:
        act()
    except Failed as error:
        return str(error)
    except Refused:
        pass  # another's reservation, or an ended one
    return ""


ODD_TEXTS = [
    *map(json.dumps, odd_files()),
    "",
    "{",
    "[" * 100_000,
    " " * 70_000,
    "\ud800",
    '{"a": 1, "a": 2}',
]


def test_a_file_with_odd_content_is_one_line_with_the_way_out_and_break_always_ends_it(host):
    accepted = 0
    for text in ODD_TEXTS:
        path = put(text) if text != "\ud800" else put("")
        if text == "\ud800":
            path.write_bytes(b"\xff\xfe\x00")
        for act in (
            reservation.held,
            lambda: reservation.check(BOB),
            lambda: reservation.reserve(BOB, "x", HOUR),
            lambda: reservation.renew(BOB, "x", HOUR),
            lambda: reservation.free(BOB),
        ):
            said = outcome(act)
            accepted += not said
            assert not said or said.endswith("; 'rig hosts free HOST --break' ends what it has")
            assert len(said.splitlines()) <= 1
        reservation.break_off(BOB)
        assert reservation.held() == []
        reservation.reserve(BOB, "x", HOUR)
        assert owners() == ["bob@lab2"]
        path.unlink()
    assert 0 < accepted < len(ODD_TEXTS)


@pytest.mark.parametrize("kind", ["folder", "link", "loop"])
def test_break_also_ends_what_is_no_file(host, kind):
    path = put("")
    path.unlink()
    other = path.with_name("other")
    other.write_text("not the rig's")
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(other)
    else:
        path.symlink_to(path)  # a loop
    with pytest.raises(Failed):
        reservation.held()
    reservation.break_off(BOB)
    assert reservation.held() == []
    reservation.reserve(BOB, "x", HOUR)
    assert owners() == ["bob@lab2"]
    assert other.read_text() == "not the rig's"


def owners() -> list[str]:
    return [entry["owner"] for entry in reservation.held()]


def test_a_host_without_a_file_is_free_and_a_look_leaves_none(host):
    reservation.check(BOB)
    assert reservation.held() == []
    assert not (host / "var/lib/joulerig").exists()


def test_a_reservation_refuses_others_and_says_who_for_what_until_when_and_what_to_do(host):
    reservation.reserve(ADA, "firmware update", 3 * HOUR)
    expected = (
        "rack7: is reserved by ada@boss for 'firmware update' until 2025-11-25 15:00 UTC (3 h 0 min from now);"
        " ask ada@boss, or end the reservation by 'rig hosts free rack7 --break'"
    )
    for asking in (
        lambda: reservation.check(BOB),
        lambda: reservation.reserve(BOB, "x", HOUR),
        lambda: reservation.free(BOB),
    ):
        with pytest.raises(Reserved) as refusal:
            asking()
        assert str(refusal.value) == expected
    assert owners() == ["ada@boss"]


def test_a_user_of_the_same_name_on_a_controller_of_the_same_name_is_another():
    reservation.reserve(ADA, "x", HOUR)
    with pytest.raises(Reserved):
        reservation.check(Asker("ada@boss", "m9", "bench1"))


def test_a_change_of_the_controllers_name_changes_no_owner():
    reservation.reserve(ADA, "x", HOUR)
    renamed = Asker("ada@dhcp-17", "m1", "bench1")
    reservation.check(renamed)
    assert [entry["purpose"] for entry in reservation.free(renamed)] == ["x"]


def test_another_user_of_the_same_controller_is_another():
    reservation.reserve(ADA, "x", HOUR)
    with pytest.raises(Reserved):
        reservation.check(Asker("eve@boss", "m1", "bench1"))


def test_a_campaign_that_was_taken_over_neither_renews_nor_frees_what_the_taker_has():
    reservation.reserve(DEMO, "which?", HOUR)
    taker = Asker("eve@newbox", "m9", "rack7", "demo-1", 17, "newbox boot-2 7 9")
    assert not reservation.reserve(taker, "which?", HOUR)
    with pytest.raises(
        Reserved, match=r"^bench1: is reserved by eve@newbox for campaign demo-1 until .*resumed"
    ):
        reservation.renew(DEMO, "which?", HOUR)
    assert reservation.free(DEMO) == []
    reservation.renew(taker, "which?", HOUR)
    assert owners() == ["eve@newbox"]
    assert len(reservation.free(taker)) == 1


def test_it_ends_by_the_hosts_clock(set_clock):
    reservation.reserve(ADA, "x", HOUR)
    set_clock(HOUR - 1)
    with pytest.raises(Reserved):
        reservation.check(BOB)
    set_clock(HOUR)
    assert reservation.held()[0]["over"]
    assert reservation.reserve(BOB, "y", HOUR)
    assert owners() == ["bob@lab2"]


def test_asking_again_has_it_for_longer_from_now_and_keeps_when_it_was_made(set_clock):
    assert reservation.reserve(ADA, "x", HOUR)
    set_clock(1800)
    assert not reservation.reserve(ADA, "y", HOUR)
    [entry] = reservation.held()
    assert (entry["made"], entry["expires"], entry["purpose"]) == (NOON, NOON + 1800 + HOUR, "y")


def test_a_campaign_runs_under_its_owners_reservation_which_stays():
    reservation.reserve(ADA, "my week", HOUR)
    reservation.reserve(DEMO, "which?", HOUR)
    assert [entry["campaign"] for entry in reservation.held()] == ["", "demo-1"]
    reservation.free(DEMO)
    assert [entry["purpose"] for entry in reservation.held()] == ["my week"]


def test_two_campaigns_of_one_owner_exclude_each_other():
    reservation.reserve(DEMO, "which?", HOUR)
    with pytest.raises(Reserved, match=r"for campaign demo-1 until .*; end the campaign by 'rig stop', or"):
        reservation.reserve(OTHER, "how?", HOUR)


def test_a_campaign_whose_process_ended_is_replaced_by_its_owners():
    reservation.reserve(DEMO, "which?", HOUR)
    knows = Asker(**{**vars(OTHER), "gone": [DEMO.process]})
    reservation.reserve(knows, "how?", HOUR)
    assert [entry["campaign"] for entry in reservation.held()] == ["other-2"]


def test_what_another_knows_of_a_process_does_not_free_the_host():
    reservation.reserve(DEMO, "which?", HOUR)
    with pytest.raises(Reserved):
        reservation.check(Asker(**{**vars(BOB), "gone": [DEMO.process]}))


def test_a_campaign_that_another_controller_resumes_keeps_its_host():
    reservation.reserve(DEMO, "which?", HOUR)
    reservation.reserve(Asker("bob@lab2", "m2", "rack7", "demo-1", 17, "lab2 b 1 1"), "which?", HOUR)
    assert owners() == ["bob@lab2"]


def test_a_campaign_of_the_same_second_on_another_controller_is_another():
    reservation.reserve(DEMO, "which?", HOUR)
    with pytest.raises(Reserved):
        reservation.reserve(Asker("bob@lab2", "m2", "rack7", "demo-1", 99, "lab2 b 1 1"), "which?", HOUR)


def test_its_run_in_progress_keeps_a_campaigns_host_beyond_its_time(set_clock, monkeypatch):
    reservation.reserve(DEMO, "which?", HOUR)
    running = [{"name": "demo-1-0003.1", "runs": True}]
    monkeypatch.setattr(calls, "listed", lambda: running)
    set_clock(2 * HOUR)
    with pytest.raises(Reserved, match=r"\(over, but a run is in progress\)"):
        reservation.reserve(BOB, "x", HOUR)
    running[0]["runs"] = False
    reservation.reserve(BOB, "x", HOUR)


def test_a_person_frees_their_own_and_not_a_campaign_that_is_executed():
    reservation.reserve(ADA, "my week", HOUR)
    reservation.reserve(DEMO, "which?", HOUR)
    assert [entry["purpose"] for entry in reservation.free(ADA)] == ["my week"]
    with pytest.raises(Reserved, match="for campaign demo-1"):
        reservation.free(ADA)
    ended = reservation.free(Asker(**{**vars(ADA), "gone": [DEMO.process]}))
    assert [entry["campaign"] for entry in ended] == ["demo-1"]
    assert reservation.held() == []


def test_freeing_leaves_no_file_and_a_second_time_ends_nothing(host):
    reservation.reserve(ADA, "x", HOUR)
    reservation.free(ADA)
    assert not (host / "var/lib/joulerig/reservation.json").exists()
    assert reservation.free(ADA) == []


def test_a_campaign_frees_nothing_of_others():
    reservation.reserve(BOB, "x", HOUR)
    assert reservation.free(DEMO) == []
    assert owners() == ["bob@lab2"]


def test_a_campaign_whose_reservation_was_ended_learns_by_whom():
    reservation.reserve(DEMO, "which?", HOUR)
    assert [entry["campaign"] for entry in reservation.break_off(BOB)] == ["demo-1"]
    reservation.check(BOB)
    with pytest.raises(Refused, match=r"^bench1: bob@lab2 ended the reservation at 2025-11-25 12:00 UTC$"):
        reservation.renew(DEMO, "which?", HOUR)
    assert reservation.held() == []


def test_a_resumed_campaign_may_reserve_what_a_person_ended():
    reservation.reserve(DEMO, "which?", HOUR)
    reservation.break_off(BOB)
    reservation.reserve(DEMO, "which?", HOUR)
    reservation.renew(DEMO, "which?", HOUR)


def test_a_renewal_after_its_time_holds_where_no_other_came(set_clock):
    reservation.reserve(DEMO, "which?", HOUR)
    set_clock(2 * HOUR)
    reservation.renew(DEMO, "which?", HOUR)
    assert not reservation.held()[0]["over"]


def test_a_renewal_of_what_another_has_by_now_names_the_other(set_clock):
    reservation.reserve(DEMO, "which?", HOUR)
    set_clock(2 * HOUR)
    reservation.reserve(BOB, "x", HOUR)
    with pytest.raises(Reserved, match="by bob@lab2 for 'x'"):
        reservation.renew(DEMO, "which?", HOUR)


def test_a_release_is_held_up_by_the_owners_own_campaign():
    alone = Asker(**{**vars(ADA), "alone": True})
    reservation.reserve(ADA, "my week", HOUR)
    reservation.check(alone)
    reservation.reserve(DEMO, "which?", HOUR)
    with pytest.raises(Reserved):
        reservation.check(alone)


@pytest.mark.parametrize("text", ["{", '{"version": 2}', "[]"])
def test_a_file_that_cannot_be_read_reserves_the_host_until_a_person_ends_that(host, text):
    path = host / "var/lib/joulerig/reservation.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(Failed, match=r"reservation\.json: "):
        reservation.reserve(ADA, "x", HOUR)
    reservation.break_off(ADA)
    assert reservation.reserve(ADA, "x", HOUR)


RACE = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
import tests.support.fake_host
from ansible.module_utils.joulerig import paths, reservation
paths.STATE, paths.RUN_LOCK = {state!r}, {lock!r}
asker = reservation.Asker(sys.argv[1], sys.argv[1], "bench1")
Path(sys.argv[2]).touch()
while not Path({go!r}).exists():
    pass
for _ in range(200):
    try:
        reservation.reserve(asker, "race", 60)
    except reservation.Reserved:
        print("refused", flush=True)
        break
else:
    print("got it", flush=True)
"""


def test_of_two_that_ask_at_once_one_gets_it(tmp_path):
    go = tmp_path / "go"
    program = RACE.format(
        root=str(ROOT), state=str(tmp_path / "state"), lock=str(tmp_path / "run.lock"), go=str(go)
    )
    ready = [tmp_path / "one", tmp_path / "two"]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, path.name, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for path in ready
    ]
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in ready):
        assert time.monotonic() < deadline
    go.touch()
    assert sorted(racer.communicate(timeout=60)[0].strip() for racer in racers) == ["got it", "refused"]
    held = json.loads((tmp_path / "state/reservation.json").read_text())["held"]
    assert len(held) == 1


# --- the module as Ansible calls it


def call(capsys, asker=ADA, check=False, **arguments):
    asked = {**vars(asker), "gone": list(asker.gone), **arguments, "_ansible_check_mode": check}
    with patch_module_args(asked), pytest.raises(SystemExit):
        joulerig_reservation.main()
    reply = json.loads(capsys.readouterr().out)
    reply.pop("invocation", None)
    return reply


def test_a_reply_has_the_reservations_and_the_hosts_time(capsys):
    reply = call(capsys, state="reserve", purpose="x", seconds=60)
    assert (reply["changed"], reply["now"], reply["refused"]) == (True, NOON, "")
    assert [(one["owner"], one["over"]) for one in reply["held"]] == [("ada@boss", False)]


def test_a_refusal_is_a_reply_with_whose_reservation_it_is(capsys):
    call(capsys, state="reserve", purpose="x", seconds=60)
    reply = call(capsys, BOB, state="check")
    assert not reply.get("failed")
    assert reply["refused"].startswith("rack7: is reserved by ada@boss")
    assert reply["by"]["owner"] == "ada@boss"


def test_it_shows_which_runs_are_in_progress(capsys, monkeypatch):
    listed = [{"name": "demo-1-0003.1", "runs": True}, {"name": "demo-1-0002.1", "runs": False}]
    monkeypatch.setattr(calls, "listed", lambda: listed)
    assert call(capsys, state="show")["runs"] == ["demo-1-0003.1"]


def test_check_mode_reserves_nothing(capsys):
    assert call(capsys, check=True, state="reserve", purpose="x", seconds=60)["held"] == []


def test_breaking_returns_what_was_ended(capsys):
    call(capsys, state="reserve", purpose="x", seconds=60)
    reply = call(capsys, BOB, state="break")
    assert ([one["owner"] for one in reply["ended"]], reply["held"]) == (["ada@boss"], [])


def test_what_cannot_be_read_fails_the_call(capsys, host):
    path = Path(host / "var/lib/joulerig/reservation.json")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert call(capsys, state="show")["failed"]
