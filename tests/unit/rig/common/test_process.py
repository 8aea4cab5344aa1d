# SPDX-License-Identifier: GPL-3.0-or-later
"""A process is known from every other one, on whichever machine, in whichever container."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from joulerig.rig.common import process
from tests.support.programs import wait_for

OTHER_BOOT = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """machine(ID) makes this one of that id; None: it has none. `namespace`: of its pids."""

    def is_(number: str | None, namespace: str = process.OF_THE_MACHINE) -> None:
        file = tmp_path / "machine-id"
        file.unlink(missing_ok=True)
        if number is not None:
            file.write_text(number)
        monkeypatch.setattr(process, "MACHINE_ID", file)
        monkeypatch.setattr(process, "_namespace", lambda: namespace)

    is_("a" * 32 + "\n")
    return is_


@pytest.fixture
def other():
    with subprocess.Popen(["sleep", "60"]) as found:
        yield found
        found.kill()


def changed(identity: str, **parts: str) -> str:
    """An identity with other parts."""
    names = ("host", "machine", "boot", "namespace", "pid", "start")
    return " ".join((dict(zip(names, identity.split(), strict=True)) | parts).values())


def test_a_process_is_alive_until_it_ends(machine, other):
    found = process.identity(other.pid)
    assert process.is_alive(found) is True
    other.kill()
    other.wait()
    assert process.is_alive(found) is False
    with pytest.raises(ProcessLookupError):
        process.identity(other.pid)


def test_a_later_process_with_its_pid_is_another_one(machine):
    assert process.is_alive(f"{process.identity(os.getpid())}0") is False


def test_a_host_name_says_nothing(machine, monkeypatch):
    found, name = process.identity(os.getpid()), process.machine()
    monkeypatch.setattr(socket, "gethostname", lambda: "dhcp-17")
    assert process.is_alive(found) is True
    assert process.machine() == name


def test_two_machines_of_one_name_are_two(machine):
    found, name = process.identity(os.getpid()), process.machine()
    machine("b" * 32)
    assert process.is_alive(found) is None
    assert process.pid_here(found) is None
    assert not process.may_be_here(found)
    assert not process.is_of_earlier_boot(found)
    assert process.machine() != name


def test_a_machine_that_booted_ended_its_processes(machine):
    found = changed(process.identity(os.getpid()), boot=OTHER_BOOT)
    assert process.is_of_earlier_boot(found)
    assert process.may_be_here(found)


@pytest.mark.parametrize("number", [None, "", "uninitialized\n", "a" * 31, "0"])
def test_without_a_machine_id_nothing_is_known_of_another_boot(machine, number):
    machine(number)
    found = process.identity(os.getpid())
    assert process.is_alive(found) is True
    for there in (changed(found, boot=OTHER_BOOT), changed(found, namespace="7")):
        assert process.is_alive(there) is None
        assert not process.is_of_earlier_boot(there)
        assert process.may_be_here(there)


def test_containers_of_one_image_are_not_taken_for_one_machine(machine):
    machine("a" * 32, "4026532001")
    found = process.identity(os.getpid())
    machine("a" * 32, "4026532002")
    assert process.is_alive(found) is None
    assert not process.is_of_earlier_boot(changed(found, boot=OTHER_BOOT))
    machine("a" * 32)  # the machine that has them
    assert process.is_alive(found) is None


def test_the_machine_id_itself_is_nowhere(machine):
    assert "a" * 8 not in process.identity(os.getpid()) + process.machine()


@pytest.mark.parametrize(
    "odd", ["", "oldbox boot-1 17 9", "\x1b[31m a b c 1 2", "h - " + "x" * 36 + " 1 ² 3"]
)
def test_what_is_no_identity_is_unknown(machine, odd):
    assert process.is_alive(odd) is None
    assert process.pid_here(odd) is None
    assert process.may_be_here(odd)
    assert process.shown(odd) == "an unknown process"


def test_a_process_that_a_signal_stopped_is_seen(machine, other):
    assert not process.is_stopped(other.pid)
    other.send_signal(signal.SIGSTOP)
    wait_for(lambda: process.is_stopped(other.pid), 10, "it is stopped")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a PID namespace")
def test_a_process_of_a_container_is_seen_there_and_not_here():
    program = (
        "import os; from joulerig.rig.common import process; me = process.identity(os.getpid());"
        "print(me, process.is_alive(me), sep='|')"
    )
    command = ["unshare", "--pid", "--fork", "--mount-proc", os.sys.executable, "-c", program]
    said = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[4], check=True)
    found, alive = said.stdout.strip().split("|")
    assert alive == "True"
    assert process.is_alive(found) is None
