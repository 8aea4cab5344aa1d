# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig hosts show`, `reserve` and `free`: what a person sees of reservations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from joulerig.rig.campaign import events, playbook
from joulerig.rig.campaign.reservations import asking
from joulerig.rig.cli.hosts import command as hosts
from joulerig.rig.common import process
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model

NOW = 1_764_072_000.0  # 2025-11-25 12:00 UTC


def entry(**more):
    found = {
        "owner": "bob@lab2", "machine": "m2", "purpose": "firmware [3.1]", "campaign": "", "created_ns": 0,
        "process": "", "made": NOW, "expires": NOW + 5400, "over": False,
    }  # fmt: skip
    return {**found, **more}


def stale(**more):
    own = {
        "owner": asking.owner(),
        "machine": process.machine(),
        "process": f"{process.identity(os.getpid())}0",
    }
    return entry(**own, campaign="demo-1", **more)


@pytest.fixture
def lab(lab_files, state, monkeypatch):
    drive = {"interface": "hdd", "serial": "SERIAL-E", "size_bytes": 10**12}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"other": drive}}
    lab_files.inventory_text = "[controller]\nboss\n\n[test_hosts]\nbench1\nbench2\n"
    described = model.load(lab_files.write())
    monkeypatch.setattr(hosts, "load_lab", lambda: described)


@pytest.fixture
def ansible(lab, monkeypatch):
    """ansible(HOST=REPLY or ERROR) gives what hosts return; returns what they were asked."""
    calls: list[tuple[str, dict]] = []
    outcome: dict[str, dict | str] = {}

    def run(path: Path, inventory: Path, *, log: Path, hosts: Iterable[str], data: dict) -> int:
        assert list(hosts) == list(data)
        calls.append((path.name, data))
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("")
        lines = []
        for host, reply in outcome.items():
            if isinstance(reply, str):
                lines.append({"event": events.FAILED, "host": host, "message": reply})
            else:
                lines.append({"event": events.RESERVATION, "host": host, "reply": {"now": NOW, **reply}})
        playbook.events_file(log).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return 0

    monkeypatch.setattr(playbook, "ansible", run)

    def answer(**replies):
        outcome.update(replies)
        return calls

    return answer


def rig(*words: str) -> list[str]:
    done = CliRunner().invoke(hosts.app, words)
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_a_table_shows_who_has_each_host(ansible, capsys):
    calls = ansible(bench1={"held": [entry()], "runs": ["demo-1-0003.1"]}, bench2={"held": []})
    text = "\n".join(rig("show"))
    assert calls == [("reservations.yml", {host: {"state": "show"} for host in ("bench1", "bench2")})]
    rows = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    for word in (
        "reserved",
        "bob@lab2",
        "firmware [3.1]",
        "2025-11-25 13:30, in 1 h 30 min",
        "demo-1-0003.1",
    ):
        assert word in rows["bench1"]
    assert "free" in rows["bench2"]


def test_a_host_that_does_not_answer_is_named_with_the_reason(ansible):
    ansible(bench1={"held": []}, bench2="Failed to connect to the host via ssh")
    text = rig("show")
    assert "bench2: Failed to connect to the host via ssh" in text
    assert any("unknown" in line for line in text)


def test_a_reservation_that_is_over_is_explained(ansible):
    ansible(bench1={"held": [entry(over=True, expires=NOW - 60)]}, bench2={"held": []})
    text = rig("show")
    assert "bench1: the reservation for firmware [3.1] is over: the host is free" in text
    assert any("expired" in line and "0 h 1 min ago" in line for line in text)


def test_a_campaign_whose_process_ended_is_explained(ansible):
    ansible(bench1={"held": [stale()]}, bench2={"held": []})
    text = rig("show")
    assert any("stale" in line for line in text)
    assert text[-1].startswith(
        "bench1: the process that executed campaign demo-1 has ended: 'rig run --resume"
    )


def test_json_has_the_same(ansible):
    ansible(bench1={"held": [stale()]}, bench2="away")
    found = json.loads("\n".join(rig("show", "--json")))
    assert [(one["host"], one["problem"]) for one in found] == [("bench1", ""), ("bench2", "away")]
    assert [(one["campaign"], one["state"]) for one in found[0]["held"]] == [("demo-1", "stale")]


def test_a_person_reserves_a_host_for_a_purpose_and_hours(ansible):
    calls = ansible(bench1={"held": [entry()], "changed": True})
    lines = rig("reserve", "bench1", "--for", "firmware\n[3.1]", "--hours", "1.5")
    asked = {"state": "reserve", "purpose": "firmware [3.1]", "seconds": 5400.0}
    assert calls == [("reservations.yml", {"bench1": asked})]
    assert lines == ["bench1: reserved by bob@lab2 until 2025-11-25 13:30, in 1 h 30 min (UTC)"]


def test_a_refusal_is_the_hosts_own_line(ansible):
    ansible(bench1="bench1: is reserved by bob@lab2")
    with pytest.raises(UserError, match=r"^bench1: is reserved by bob@lab2$"):
        rig("reserve", "bench1")


def test_a_purpose_has_a_length(ansible):
    with pytest.raises(UserError, match=r"^--for: has 201 characters; allowed: at most 200$"):
        rig("reserve", "bench1", "--for", "x" * 201)


def test_a_host_that_the_inventory_does_not_have_is_refused(ansible):
    calls = ansible()
    with pytest.raises(UserError, match=r"^'nosuch' is not a test host; allowed: bench1, bench2$"):
        rig("free", "nosuch")
    assert calls == []


@pytest.mark.parametrize(("words", "state"), [([], "free"), (["--break"], "break")])
def test_a_host_is_freed_and_what_stays_is_said(ansible, words, state):
    kept = entry(campaign="demo-1", owner="ada@boss")
    calls = ansible(bench1={"held": [kept], "ended": [entry()]})
    assert rig("free", "bench1", *words) == [
        "bench1: ended the reservation by bob@lab2 for firmware [3.1]",
        "bench1: stays reserved by ada@boss for campaign demo-1",
    ]
    assert calls[0][1] == {"bench1": {"state": state}}


def test_freeing_a_free_host_says_so(ansible):
    ansible(bench1={"held": []})
    assert rig("free", "bench1") == ["bench1: was not reserved"]
