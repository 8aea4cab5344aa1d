# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host answers: by real connections and pings, in a network of the test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.powercut import reach
from joulerig.rig.powercut.reach import Network
from tests.support import ROOT, hostile_text
from tests.support.lab_files import LabFiles

# What is sent to 192.0.2.0/24 goes nowhere, as to a host that is down.
NOWHERE = "ip link set lo up && ip route add 192.0.2.0/24 dev lo src 127.0.0.1"


def test_a_kernel_that_accepts_or_refuses_a_connection_is_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert Network("127.0.0.1", port).answers() == f"port {port} of 127.0.0.1"
    assert Network("127.0.0.1", port).answers() == f"port {port} of 127.0.0.1"


@pytest.mark.skipif(not shutil.which("ping"), reason="needs ping")
def test_a_kernel_whose_port_says_nothing_is_up_where_it_replies_to_ping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Network, "_connects", lambda self: False)
    assert Network("127.0.0.1", 22).answers() == "ping of 127.0.0.1"


def test_a_host_that_is_down_answers_nothing() -> None:
    code = "from joulerig.rig.powercut.reach import Network; print(repr(Network('192.0.2.9', 22).answers()))"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", f'{NOWHERE} && exec "$0" -c "$1"', sys.executable, code],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == "''\n", done.stderr


def ssh_says(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> Path:
    """Have an ssh report these settings; return the file of its calls."""
    (folder / "bin").mkdir()
    calls = folder / "ssh.calls"
    said = "\n".join(lines)
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncat <<END\n{said}\nEND\n')
    (folder / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    return calls


def test_a_host_is_where_ssh_connects_to(
    lab_files: LabFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = ssh_says(tmp_path, monkeypatch, "hostname 192.0.2.77", "port 2222")
    lab_files.host["ansible_host"] = "bench.lab"
    lab_files.host["ansible_port"] = 2222
    found = reach.of_host(lab_files.load(), "bench1")
    assert (found._address, found._port) == ("192.0.2.77", 2222)
    assert calls.read_text() == "-G -p 2222 -- bench.lab\n"


def test_a_hosts_address_is_no_option_of_ssh(lab_files: LabFiles, tmp_path: Path) -> None:
    """Give ssh `-E`, by which it would write a file."""
    lab_files.host["ansible_host"] = f"-E{tmp_path}/executed-option"
    found = reach.of_host(lab_files.load(), "bench1")
    assert not found.answers()
    assert hostile_text.executed(tmp_path) == []


def test_a_host_behind_another_cannot_be_seen_to_go(
    lab_files: LabFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_says(tmp_path, monkeypatch, "hostname 192.0.2.77", "port 22", "proxyjump bastion")
    with pytest.raises(UserError, match="bench1: SSH reaches it through bastion: the controller cannot see"):
        reach.of_host(lab_files.load(), "bench1")
