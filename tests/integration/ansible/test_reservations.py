# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers and one test host, by Ansible and the shipped playbooks.

Each host is this machine in a mount namespace, with what it keeps in a folder of the test.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from joulerig.analysis.results.schema import Status
from joulerig.rig.campaign import events
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.launch import handed
from joulerig.rig.common import process
from tests.support import ROOT
from tests.support.planned_runs import CAMPAIGN, row

can_unshare = subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0
pytestmark = pytest.mark.skipif(not can_unshare, reason="needs root: a mount namespace")

BIN = Path(sys.executable).parent
ME = f"{getpass.getuser()}@{socket.gethostname()}"
BOB = {
    "owner": "bob@lab2", "machine": "m2", "purpose": "a repair", "campaign": "", "created_ns": 0, "process": "",
    "made": 1.0, "expires": 4e9,
}  # fmt: skip


class Lab:
    """Test hosts one and two, and the folder of each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = [
            "[controller]",
            f"localhost ansible_connection=local ansible_python_interpreter={sys.executable}",
        ]
        lines += ["[test_hosts]"]
        for host in ("one", "two"):
            for place in ("state", "run"):
                (folder / host / place).mkdir(parents=True)
            interpreter = folder / host / "python"
            binds = (
                f"mount --bind {folder}/{host}/state /var/lib; mount --bind {folder}/{host}/run /run; exec "
            )
            command = ["unshare", "--mount", "sh", "-ec", f'{binds} {sys.executable} "$@"', "-"]
            interpreter.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            interpreter.chmod(0o755)
            lines += [f"{host} ansible_connection=local ansible_python_interpreter={interpreter}"]
        self.inventory = folder / "inventory.ini"
        self.inventory.write_text("\n".join(lines) + "\n")

    def file(self, host: str) -> Path:
        return self.folder / host / "state/joulerig/reservation.json"

    def put(self, host: str, *entries: dict) -> None:
        self.file(host).parent.mkdir(parents=True, exist_ok=True)
        self.file(host).write_text(json.dumps({"version": 1, "held": entries, "broken": None}))

    def held(self, host: str) -> list[dict]:
        return json.loads(self.file(host).read_text())["held"] if self.file(host).exists() else []

    def start(
        self, playbook: Path | list, *words: str, data: handed.Handed | None = None
    ) -> subprocess.Popen[str]:
        if isinstance(playbook, list):
            path = self.folder / "play.yml"
            path.write_text(yaml.safe_dump(playbook))
            playbook = path
        self.events.unlink(missing_ok=True)
        handing = self.folder / "handed.json"
        handing.write_text(json.dumps(data or {}))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"),
            "ANSIBLE_REMOTE_TEMP": str(self.folder / "remote"),
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "ansible/callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "joulerig_events",
            "PYTHONPATH": str(ROOT),
            events.ENVIRONMENT: str(self.events),
            handed.ENVIRONMENT: str(handing),
        }
        command = [str(BIN / "ansible-playbook"), "-i", str(self.inventory), str(playbook), *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)

    def play(self, playbook: Path | list, *words: str, data: handed.Handed | None = None) -> tuple[int, str]:
        started = self.start(playbook, *words, data=data)
        output, _ = started.communicate(timeout=300)
        return started.returncode, output

    @property
    def events(self) -> Path:
        return self.folder / "events"

    def failures(self) -> list[str]:
        found = next(events.follow(self.events))
        return [event["message"] for event in found if event["event"] == events.FAILED]


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


@pytest.fixture
def journal(state):
    from joulerig.rig.common import paths

    made = Journal.create(paths.results() / "study-1", CAMPAIGN, [row(1, "one"), row(2, "two")])
    made.claim(process.identity(os.getpid()))
    return made


def campaigns_part(*, before: str, folder: Path) -> list[dict]:
    """The plays of campaign.yml up to one, without the opening: its facts are given."""
    plays = yaml.safe_load((ROOT / "playbooks/campaign.yml").read_text())
    names = [play["name"] for play in plays]
    used = plays[1 : names.index(before)]
    facts = {
        "campaign_folder": str(folder), "campaign_hosts": ["one", "two"],
        "campaign_executor": process.identity(os.getpid()),
    }  # fmt: skip
    opening = {"hosts": "controller", "gather_facts": False, "tasks": [{"ansible.builtin.set_fact": facts}]}
    for play in used:
        for block in play["tasks"]:
            # What is on drives is looked at elsewhere: here it is what a test says.
            block["block"][1] = {
                "ansible.builtin.fail": {"msg": "a drive holds data"},
                "when": "inventory_hostname in foreign | default([])",
            }
    return [opening, *used]


@pytest.mark.long
def test_a_person_reserves_shows_and_frees_a_host(lab):
    reserve = {"one": {"state": "reserve", "purpose": "a repair", "seconds": 3600}}
    assert lab.play(ROOT / "playbooks/reservations.yml", "--limit", "one", data=reserve)[0] == 0
    [mine] = lab.held("one")
    assert (mine["owner"], mine["machine"], mine["purpose"]) == (ME, process.machine(), "a repair")
    assert lab.held("two") == []
    lab.play(ROOT / "playbooks/reservations.yml")
    shown = {event["host"]: event["reply"]["held"] for event in next(events.follow(lab.events))}
    assert [one["purpose"] for one in shown["one"]] == ["a repair"]
    assert shown["two"] == []
    free = {"one": {"state": "free"}}
    assert lab.play(ROOT / "playbooks/reservations.yml", "--limit", "one", data=free)[0] == 0
    assert lab.held("one") == []


def test_of_two_controllers_that_ask_at_once_one_gets_the_host(lab):
    """Two ansible-playbooks, as of two machines, many times over one host's file."""
    task = {
        "joulerig_reservation": {"state": "reserve", "purpose": "race", "seconds": 600, "machine": "{{ me }}"}
    }
    play = {"hosts": "one", "gather_facts": False, "tasks": [{"name": "Reserve", **task}]}
    (lab.folder / "race.yml").write_text(yaml.safe_dump([play]))
    racers = [lab.start(lab.folder / "race.yml", "-e", f"me={name}") for name in ("m1", "m2")]
    outputs = [racer.communicate(timeout=300)[0] for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0, 2], outputs
    [winner] = lab.held("one")
    assert winner["machine"] == ["m1", "m2"][[racer.returncode for racer in racers].index(0)]


@pytest.mark.long
def test_a_campaign_on_a_reserved_host_is_refused_and_frees_its_other_hosts(lab, journal):
    lab.put("one", BOB)
    code, _ = lab.play(campaigns_part(before="Execute its runs", folder=journal.folder))
    assert code == 2
    assert re.match(
        r"^one: is reserved by bob@lab2 for 'a repair' until 2096-10-02 07:06 UTC \(.* from now\);"
        r" ask bob@lab2, or end the reservation by 'rig hosts free one --break'$",
        lab.failures()[0],
    )
    assert [one["owner"] for one in lab.held("one")] == ["bob@lab2"]
    assert lab.held("two") == []
    assert journal.counts() == {"planned": 2}


def test_a_campaign_reserves_its_hosts(lab, journal):
    code, output = lab.play(campaigns_part(before="Execute its runs", folder=journal.folder))
    assert code == 0, output
    for host in ("one", "two"):
        [mine] = lab.held(host)
        assert (mine["campaign"], mine["process"]) == (journal.campaign["id"], process.identity(os.getpid()))


@pytest.mark.long
@pytest.mark.parametrize(("programs", "expected"), [([], 0), ("no list", 2)], ids=["executor", "role"])
def test_a_campaign_that_fails_on_its_hosts_frees_them(lab, journal, programs, expected):
    """There is no lab: the executor of each host says so, and the campaign goes on to its end."""
    plays = yaml.safe_load((ROOT / "playbooks/campaign.yml").read_text())
    [execute] = [play for play in plays if play["name"] == "Execute its runs"]
    facts = {
        "campaign_programs": programs, "campaign_packages": [], "campaign_kernels": {"one": {}, "two": {}},
        "campaign_holder": "test:/study-1",
    }  # fmt: skip
    part = campaigns_part(before="Execute its runs", folder=journal.folder)
    part[0]["tasks"][0]["ansible.builtin.set_fact"].update(facts)
    code, output = lab.play([*part, execute], "-e", json.dumps({"quiet_units": []}))
    assert code == expected, output
    assert len(lab.failures()) == 2, output
    assert lab.held("one") == lab.held("two") == []
    assert journal.counts() == {"planned": 2}


@pytest.mark.long
def test_a_campaign_that_a_drive_refuses_frees_its_hosts(lab, journal):
    part = campaigns_part(before="Execute its runs", folder=journal.folder)
    code, _ = lab.play(part, "-e", json.dumps({"foreign": ["two"]}))
    assert code == 2
    assert lab.failures()[0] == "a drive holds data"
    assert lab.held("one") == lab.held("two") == []


@pytest.mark.long
def test_a_host_that_may_be_in_a_run_of_the_campaign_is_not_freed(lab, journal):
    run = journal.take("one")
    journal.finish(run["id"], Status.LOST, "host gone", {})  # its attempt has no end yet
    journal.plan_again(run["id"], "a resumption")
    part = campaigns_part(before="Execute its runs", folder=journal.folder)
    code, _ = lab.play(part, "-e", json.dumps({"foreign": ["two"]}))
    assert code == 2
    assert [one["campaign"] for one in lab.held("one")] == [journal.campaign["id"]]
    assert lab.held("two") == []


TAKER = "newbox ffffffffffffffff 00000000-0000-0000-0000-000000000000 4026531836 17 9"


@pytest.mark.long
def test_a_campaign_that_was_taken_over_ends_and_leaves_its_hosts_to_the_one_that_took_it(lab, journal):
    part = campaigns_part(before="Execute its runs", folder=journal.folder)
    assert lab.play(part)[0] == 0
    journal.claim(TAKER, over=journal.claimed)
    theirs = {**lab.held("one")[0], "machine": "f" * 16, "process": TAKER}
    lab.put("one", theirs)
    code, _ = lab.play(part)
    assert code == -signal.SIGKILL
    # More than one task may find it out before the end.
    assert set(lab.failures()) == {
        f"{journal.folder}: process 17 of newbox has taken it over; this one does nothing more"
    }
    assert lab.held("one") == [theirs]


@pytest.mark.long
def test_a_host_that_a_campaign_does_not_use_may_be_anothers(lab, journal):
    lab.put("two", BOB)
    part = campaigns_part(before="Execute its runs", folder=journal.folder)
    part[0]["tasks"][0]["ansible.builtin.set_fact"]["campaign_hosts"] = ["one"]
    code, output = lab.play(part)
    assert code == 0, output
    assert [one["owner"] for one in lab.held("two")] == ["bob@lab2"]


@pytest.mark.parametrize("playbook", ["provision", "retire", "release"])
def test_what_changes_a_reserved_host_is_refused_before_it_does(lab, playbook):
    lab.put("one", BOB)
    code, output = lab.play(ROOT / f"playbooks/{playbook}.yml", "--limit", "one")
    assert code == 2
    assert "one: is reserved by bob@lab2 for 'a repair'" in " ".join(output.split())
    assert re.search(r"one +: ok=\d+ +changed=0 ", output)


@pytest.mark.long
def test_a_drive_of_a_reserved_host_is_looked_at_and_not_adopted(lab):
    lab.put("one", BOB)
    asked = {"names": [], "drives": {}, "arrays": {}}
    look, adopt = ({"one": one} for one in (asked, {**asked, "adopt": {"a": 1}}))
    assert lab.play(ROOT / "playbooks/contents.yml", "--limit", "one", data=look)[0] == 0
    assert lab.play(ROOT / "playbooks/adopt.yml", "--limit", "one", data=adopt)[0] == 2
    assert lab.failures()[0].startswith("one: is reserved by bob@lab2")


def own(process_: str) -> dict:
    return {
        **BOB, "owner": ME, "machine": process.machine(), "campaign": "old-1", "created_ns": 5,
        "process": process_,
    }  # fmt: skip


@pytest.mark.long
def test_a_release_waits_for_a_campaign_of_another_checkout_and_not_for_one_that_is_gone(lab):
    play = [{"hosts": "one", "gather_facts": False, "tasks": [{"name": "Release", "joulerig_release": None}]}]
    with subprocess.Popen(["sleep", "300"]) as other:
        lab.put("one", own(process.identity(other.pid)))
        assert lab.play(play)[0] == 2
        assert lab.failures()[0].startswith(f"one: is reserved by {ME} for campaign old-1 ")
        other.kill()
    code, output = lab.play(play)
    assert code == 0, output
    assert "note: one: ended the reservation" in output
    assert not lab.file("one").exists()


@pytest.mark.long
def test_a_killed_controllers_campaign_gives_way_to_its_owners_next(lab, journal):
    lab.put("one", own(f"{process.identity(os.getpid())}0"))
    code, output = lab.play(campaigns_part(before="Execute its runs", folder=journal.folder))
    assert code == 0, output
    assert [one["campaign"] for one in lab.held("one")] == [journal.campaign["id"]]
