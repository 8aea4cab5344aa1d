# SPDX-License-Identifier: GPL-3.0-or-later
"""Text from elsewhere is data, by whichever way it enters: nothing of it is executed.

The tables are made from the code: modules and what they return, models and their text. A new module
without a model, or a text that a model takes without bounds, fails here.
"""

from __future__ import annotations

import datetime
import json
import os
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from joulerig.rig.campaign import contents, hosts, opening, playbook
from joulerig.rig.campaign.execution import kernels, outcome, preconditioning
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.campaign.powercut import host as powercut
from joulerig.rig.campaign.reservations import asking, by_hand
from joulerig.rig.cli.measure import measured
from joulerig.rig.common import bounded
from joulerig.rig.common.errors import UserError
from joulerig.rig.doctor import asking as facts
from joulerig.rig.doctor import discover
from joulerig.rig.lab import model
from tests.support import ROOT, hostile_text
from tests.support.host_facts import disk, machine
from tests.support.planned_runs import CAMPAIGN, row

MODULES = sorted(path.stem for path in (ROOT / "ansible/modules").glob("**/joulerig_*.py"))
# What each module returns to the controller's own code.
RETURNED: dict[str, type[BaseModel]] = {
    "joulerig_calls": hosts.Stopped,
    "joulerig_command": measured.Reply,
    "joulerig_contents": contents.Reply,
    "joulerig_facts": facts.Reply,
    "joulerig_kernel": kernels.Reply,
    "joulerig_powercut": powercut.Reply,
    "joulerig_precondition": preconditioning.Reply,
    "joulerig_release": hosts.Released,
    "joulerig_reservation": asking.Reply,
    "joulerig_run": outcome.RunOutcome,
}
# Of these only Ansible reads what they return, or the controller whether they failed, and why.
UNREAD = {
    "joulerig_array", "joulerig_drives", "joulerig_files", "joulerig_memory_drives", "joulerig_nvdimm",
    "joulerig_packages", "joulerig_quiet", "joulerig_record",
}  # fmt: skip
TEXTS = hostile_text.texts(Path("/tmp"))
ODD = [
    None,
    True,
    -1,
    10**400,
    1e308,
    float("inf"),
    float("nan"),
    [],
    {},
    [[]],
    {"a": {"b": []}},
    "",
    *TEXTS.values(),
]


def test_every_module_has_a_model_of_what_it_returns():
    assert sorted([*RETURNED, *UNREAD]) == MODULES


def unwrapped(kind: Any) -> Any:
    """A type without what annotates it, and without None."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return unwrapped(next(one for one in typing.get_args(kind) if one is not type(None)))
    return kind


def sample(kind: Any) -> Any:
    """A value of a type as JSON has it; of a mapping or a list, with one entry."""
    kind = unwrapped(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: sample(field.annotation) for name, field in kind.model_fields.items()}
    if origin is dict:
        return {"a": sample(arguments[1])}
    if origin in (list, tuple):
        return [sample(one) for one in arguments if one is not Ellipsis]
    if origin is typing.Literal:
        return arguments[0]
    if kind is dict:
        return {"a": "b"}
    if isinstance(kind, type) and issubclass(kind, str) and kind is not str:
        return str(next(iter(kind)))  # type: ignore[call-overload]
    return {bool: True, int: 1, float: 1.0, str: "a", Any: {"a": "b"}}[kind]


def whole(module: str) -> dict[str, Any]:
    """A reply of a module with every field."""
    reply = sample(RETURNED[module])
    if module == "joulerig_run":
        reply["made"]["a"] = {"signatures": [["ext4", "0a1b-2c3d"]], "digest": "0" * 64}
    return repaired(reply)


def repaired(value: Any, key: str = "") -> Any:
    """The sample with what a pattern asks for."""
    if isinstance(value, dict):
        fixed = {"/": 1} if key == "space" else value
        return {name: repaired(one, name) for name, one in fixed.items()}
    if isinstance(value, list):
        return [repaired(one, key) for one in value] * (2 if key in ("clock", "python") else 1)
    return "0" * 64 if key == "digest" else value


def texts_of(value: Any) -> Iterator[str]:
    """The texts of a model's values that are not kept as JSON."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            kept_as_json = "_json" in repr(field) or "dict[str, Any], AfterValidator" in repr(field)
            if not kept_as_json:
                yield from texts_of(getattr(value, name))
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from texts_of(key)
            yield from texts_of(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_of(one)
    elif isinstance(value, str):
        yield value


def taken(module: str, reply: Any) -> BaseModel | None:
    """Return the controller's reading of a reply; None: one line refuses it."""
    try:
        if module == "joulerig_run" and isinstance(reply, dict):
            return outcome.RunOutcome.from_reply(reply)
        return bounded.read(RETURNED[module], reply, "h1")
    except UserError as error:
        text = str(error)
        assert len(text.splitlines()) == 1
        assert len(text) < 700
        assert text == bounded.printable(text)
        return None


@pytest.mark.parametrize("module", RETURNED)
def test_a_whole_reply_is_taken(module):
    assert taken(module, whole(module)) is not None


# What a writer or a command printed has lines: it is written to files, or shown printable.
OF_LINES = {"joulerig_command": ("output",), "joulerig_powercut": ("survey",)}


@pytest.mark.parametrize("module", RETURNED)
def test_whatever_a_module_returns_is_taken_in_bounds_or_refused_in_a_line(module):
    reply = whole(module)
    for name in OF_LINES.get(module, ()):
        del reply[name]
    cases = 0
    for odd in ODD:
        for one in hostile_text.with_each(reply, odd):
            cases += 1
            found = taken(module, one)
            for text in texts_of(found) if found else ():
                assert text == bounded.printable(text)
                assert len(text) <= bounded.LONGEST_LINE
    assert cases > 2 * len(ODD)


def test_a_reply_that_is_too_deep_or_too_large_is_refused():
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    large = {"a": ["x" * 1000] * 200_000}
    for odd in (deep, large, 10**400):
        assert taken("joulerig_run", {"status": "ok", "report": {"jobs": odd}}) is None


# --- through Ansible itself


class Clock:
    """Answers where a host asks for the controller's time (NTP)."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            asked, sender = self._socket.recvfrom(256)
            now = time.time()
            stamp = struct.pack("!II", int(now) + 2208988800, int(now % 1 * 2**32))
            self._socket.sendto(struct.pack("!B23x", 0x24) + asked[40:48] + stamp + stamp, sender)


@pytest.fixture(scope="module")
def executed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture
def lab(executed_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> model.Lab:
    """A lab whose test host is this machine in a mount namespace; its drives have hostile names."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root: a mount namespace")
    interpreter = tmp_path / "python"
    for place in ("state", "run"):
        (tmp_path / place).mkdir()
    binds = f"mount --bind {tmp_path}/state /var/lib; mount --bind {tmp_path}/run /run; exec "
    command = ["unshare", "--mount", "sh", "-ec", f'{binds} {sys.executable} "$@"', "-"]
    interpreter.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    interpreter.chmod(0o755)
    (tmp_path / "inventory.ini").write_text(
        "[controller]\nboss\n[test_hosts]\nh1\n[all:vars]\nansible_connection=local\nansible_user=root\n"
        f"ansible_python_interpreter={interpreter}\n"
    )
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/boss.yml").write_text("clock_listen: 0.0.0.0:12300\n")
    disks = [
        disk(f"sd{chr(97 + number)}", model=text, serial=f"{text[:40]}-{number}", transport="ata", wwn=None)
        for number, text in enumerate(hostile_text.texts(executed_in).values())
    ]
    usb = [disk("sdz", removable=True, serial=text) for text in hostile_text.texts(executed_in).values()]
    reply = {"machine": machine(), "disks": [*disks, *usb], "declared": {}, "nvdimms": []}
    given = facts.Reply.model_validate(reply).model_dump(exclude_unset=True)
    found = discover.described("h1", facts.Facts(**given), datetime.date(2026, 1, 1))
    assert len(found.drives) >= 10, found.left_out
    (tmp_path / "host_vars/h1.yml").write_text(found.text)
    monkeypatch.setenv("JOULERIG_INVENTORY", str(tmp_path / "inventory.ini"))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("JOULERIG_RESULTS", str(tmp_path / "results"))
    return model.load(tmp_path / "inventory.ini")


def test_a_host_that_was_discovered_is_data_to_ansible_and_to_the_rig(lab, executed_in):
    expected = {name: drive.model for name, drive in lab.hosts["h1"].drives.items()}
    assert "{{ 7*7 }}" in expected.values()
    command = [sys.executable, "-m", "ansible", "inventory", "-i", str(lab.inventory), "--list"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    drives = listed["_meta"]["hostvars"]["h1"]["drives"]
    shown = {name: one["model"] for name, one in drives.items()}
    plain = {name: one["__ansible_unsafe"] if isinstance(one, dict) else one for name, one in shown.items()}
    assert plain == expected
    show = {"ansible.builtin.debug": {"msg": "{{ drives }} {{ hostvars.h1 }}"}}
    check = {"ansible.builtin.import_role": {"name": "drives"}}
    play = [
        {
            "hosts": "test_hosts",
            "gather_facts": False,
            "tasks": [{"name": "Show", **show}, {"name": "Check", **check}],
        }
    ]
    path, log = lab.folder / "show.yml", lab.folder / "var/log/show.log"
    path.write_text(yaml.safe_dump(play))
    assert playbook.ansible(path, lab.inventory, log=log) == 2  # none of them is there
    assert "no drive with serial" in playbook.failure(log)
    assert "{{ 7*7 }}" in log.read_text()
    assert hostile_text.executed(executed_in) == []


def test_the_words_of_a_command_reach_it_as_they_are(lab, executed_in, monkeypatch):
    """`{{.Names}}` as docker takes it, and a number as text."""
    words = ["{{.Names}}", "7", "true", "-e", "", *hostile_text.texts(executed_in).values()]
    monkeypatch.setattr(
        measured.services, "deployment", lambda lab, host: {"rig_clock_server": Clock().address}
    )
    command = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words]
    done = measured.on_host(command, lab, "h1")
    assert (done.code, json.loads(done.output)) == (0, words)
    assert hostile_text.executed(executed_in) == []


def test_what_a_host_is_asked_is_never_a_template(lab, executed_in):
    """Each field of the questions that go by a playbook: of drives, reservations, facts."""
    texts = hostile_text.texts(executed_in)
    declared = {"interface": "hdd", "wwn": None, "size_bytes": 1 << 30, "wipe_blank": True}
    drives = {
        kind.replace(" ", "-"): {
            **declared,
            "serial": text,
            "model": text,
            "known": {"signatures": [[text, text]], "digest": text},
        }
        for kind, text in texts.items()
    }
    found = contents.ask(lab, {"h1": {"names": list(drives), "drives": drives, "arrays": {}}})["h1"]
    asked = {"units": list(texts.values()), "addresses": list(texts.values()), "drives": {}}
    seen = facts.ask(lab.inventory, {"h1": asked})["h1"]
    reserved = by_hand.act(
        lab, "h1", {"state": "reserve", "purpose": " ".join(texts.values()), "seconds": 60}
    )
    by_hand.act(lab, "h1", {"state": "break"})
    assert hostile_text.executed(executed_in) == []
    assert isinstance(seen, facts.Facts), seen
    assert isinstance(found, dict), found
    assert {"no drive with serial" in one.problem for one in found.values()} == {True}
    [entry] = reserved.held
    assert "{{ 7*7 }}" in entry.purpose
    assert entry.purpose == bounded.printable(entry.purpose)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(UserError) as problem:
        act()
    return str(problem.value)


def resumed(folder: Path, campaign: dict[str, Any], runs: list[dict[str, Any]], lab: model.Lab) -> None:
    Journal.create(folder, campaign, runs).close()
    opening.resume_campaign(folder.name, lab, take_over=True)


@pytest.mark.parametrize("kind", TEXTS)
def test_a_results_folder_names_nothing_that_is_executed_removed_or_limited(
    lab, executed_in, kind, monkeypatch
):
    text = hostile_text.texts(executed_in)[kind]
    results = Path(os.environ["JOULERIG_RESULTS"])
    monkeypatch.setattr(opening.services, "check", lambda lab: None)
    for table, column in (
        ("campaign", "id"),
        ("run", "id"),
        ("run", "host"),
        ("run", "drive"),
        ("campaign", "executor"),
    ):
        folder = results / "study-1"
        given = [row(1, "h1")]
        campaign = {**CAMPAIGN, "provenance": json.dumps({"playbook": text})}
        (given[0] if table == "run" else campaign)[column] = text
        problem = refusal(lambda: resumed(folder, campaign, given, lab))  # noqa: B023
        assert len(problem.splitlines()) == 1
        assert len(problem) < 900
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    for wrong in (
        lambda: opening.resume_campaign(text, lab),
        lambda: playbook.ansible(
            ROOT / "playbooks/stop.yml", lab.inventory, log=lab.folder / "log", hosts=[text]
        ),
    ):
        with pytest.raises(UserError):
            wrong()
    assert hostile_text.executed(executed_in) == []


def test_a_resumption_by_ansible_takes_an_id_as_text(lab, executed_in):
    """The id is handed over, so that no template of Ansible's is made of it."""
    log = lab.folder / "var/log/resume.log"
    text = hostile_text.texts(executed_in)["lookup"]
    data = {"controller": {"resume": text, "short": False, "take_over": True}}
    assert playbook.ansible(ROOT / "playbooks/demo.yml", lab.inventory, log=log, data=data) == 2
    assert hostile_text.executed(executed_in) == []
