# SPDX-License-Identifier: GPL-3.0-or-later
"""Several connections of one action to one host at once: real Ansible, over SSH and without."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.programs import free_port, wait_for

ACTION = """
import contextvars, threading, time
from ansible.plugins.action import ActionBase
from joulerig.rig.campaign.execution.ansible_channel import AnsibleChannel
from joulerig.rig.campaign.execution.host_channel import HostGoneError

class ActionModule(ActionBase):
    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        channel = AnsibleChannel(self, task_vars)
        lanes = [channel.another() for _ in range(3)]
        answers = {}

        def call(number):
            try:
                if self._task.args["reconnect"] and number == 0:
                    time.sleep(1.0)
                    lanes[0].reconnect()
                began = time.monotonic()
                reply = lanes[number].call("stands", {"seconds": 3, "word": f"lane {number}"})
                answers[number] = [reply.get("word", str(reply)), began, time.monotonic()]
            except BaseException as error:
                answers[number] = [repr(error), 0.0, 0.0]

        for one in lanes:
            one.call("stands", {"seconds": 0, "word": "first"})
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(call, number)) for number in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = channel.call("stands", {"seconds": 0, "word": "the first connection"})
        return {**result, "answers": answers, "after": after["word"]}
"""
MODULE = """
import time
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"seconds": {"type": "int"}, "word": {"type": "str"}})
time.sleep(module.params["seconds"])
module.exit_json(word=module.params["word"])
"""
PLAYBOOK = """
- hosts: host
  gather_facts: false
  tasks:
    - lanes: {reconnect: %s}
      register: found
    - ansible.builtin.copy: {content: "{{ found | to_json }}", dest: %s}
      delegate_to: localhost
"""


@pytest.fixture(params=["local", "ssh"])
def connection(request, tmp_path: Path) -> Iterator[str]:
    """The inventory's variables of a host: this machine, by itself or over SSH."""
    if request.param == "local":
        yield "ansible_connection=local"
        return
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if not Path(server).exists():
        pytest.skip("no SSH server; apt install openssh-server")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for key in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / key)]
        subprocess.run(command, check=True)
    port = free_port()
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {tmp_path}/host_key\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/user_key.pub\nPidFile none\n"
    )
    process = subprocess.Popen(
        [server, "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_for(answers, 20, "the SSH server answers")
    yield (
        f"ansible_host=127.0.0.1 ansible_port={port} ansible_user={getpass.getuser()}"
        f" ansible_ssh_private_key_file={tmp_path}/user_key ansible_control_path_dir={tmp_path}/cp"
        ' ansible_ssh_common_args="-F /dev/null -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"'
    )
    process.terminate()
    process.wait()


def play(tmp_path: Path, connection: str, *, reconnect: bool) -> dict:
    for folder, name, text in (("action", "lanes", ACTION), ("library", "stands", MODULE)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text(text)
    (tmp_path / "inventory.ini").write_text(f"host {connection}\nlocalhost ansible_connection=local\n")
    (tmp_path / "play.yml").write_text(PLAYBOOK % (str(reconnect).lower(), tmp_path / "found.json"))
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_ACTION_PLUGINS": str(tmp_path / "action"), "ANSIBLE_LIBRARY": str(tmp_path / "library"),
        "ANSIBLE_PYTHON_INTERPRETER": shutil.which("python3") or "python3",
    }  # fmt: skip
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(tmp_path / "inventory.ini"), str(tmp_path / "play.yml")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads((tmp_path / "found.json").read_text()))


@pytest.mark.long
def test_calls_of_several_lanes_are_made_at_the_same_time(tmp_path, connection):
    found = play(tmp_path, connection, reconnect=False)
    assert {number: one[0] for number, one in found["answers"].items()} == {
        str(number): f"lane {number}" for number in range(3)
    }
    last_begin = max(one[1] for one in found["answers"].values())
    first_end = min(one[2] for one in found["answers"].values())
    assert last_begin < first_end
    assert found["after"] == "the first connection"


@pytest.mark.long
def test_a_reconnection_of_one_lane_breaks_no_other_ones_call(tmp_path, connection):
    found = play(tmp_path, connection, reconnect=True)
    assert {number: one[0] for number, one in found["answers"].items()} == {
        str(number): f"lane {number}" for number in range(3)
    }
