# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes by Ansible's own modules, recorded and undone on this machine in a mount namespace."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT

BIN = Path(sys.executable).parent
# What the rig keeps on a host lies on tmpfs, so that nothing of this machine is read or changed.
NAMESPACE = [
    "unshare",
    "--mount",
    "sh",
    "-ec",
    'mount -t tmpfs none /var/lib; mount -t tmpfs none /run; exec "$@"',
    "-",
]


def can_unshare() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
    )


pytestmark = pytest.mark.skipif(not can_unshare(), reason="needs root: a mount namespace")


def play(*tasks: dict) -> list[dict]:
    numbered = [{"name": f"Task {number}", **task} for number, task in enumerate(tasks)]
    return [{"name": "Play", "hosts": "localhost", "gather_facts": False, "tasks": numbered}]


@pytest.fixture
def ansible(tmp_path):
    """Return ansible(PLAY...): each is run by itself, one after the other; gives their outputs."""
    folder = tmp_path / "plays"
    (folder / "templates").mkdir(parents=True)
    (folder / "templates/chrony.conf.j2").write_text("server {{ 40 + 2 }}\n")
    inventory = folder / "inventory.ini"
    inventory.write_text(
        f"[controller]\nlocalhost ansible_connection=local ansible_python_interpreter={sys.executable}\n"
    )
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
        "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
    }

    def run(*plays: list[dict]) -> list[str]:
        lines = []
        for number, one in enumerate(plays):
            path = folder / f"{number}.yml"
            path.write_text(yaml.safe_dump(one))
            command = [str(BIN / "ansible-playbook"), "-i", str(inventory), str(path)]
            lines.append(" ".join(f"'{word}'" for word in command) + f" > '{folder}/{number}.log' 2>&1")
        done = subprocess.run(
            [*NAMESPACE, "sh", "-c", "; ".join(lines)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        outputs = [(folder / f"{number}.log").read_text() for number in range(len(plays))]
        assert done.stderr == "", done.stderr
        return outputs

    return run


def picture(folder: Path) -> dict[str, tuple]:
    found = {}
    for path in sorted(folder.rglob("*")):
        what = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        found[str(path.relative_to(folder))] = (stat.filemode(path.lstat().st_mode), what)
    return found


def packed(folder: Path) -> Path:
    """An archive of kernel/k."""
    (folder / "packed/kernel").mkdir(parents=True)
    (folder / "packed/kernel/k").write_text("kernel")
    with tarfile.open(folder / "kernel.tar", "w") as archive:
        archive.add(folder / "packed/kernel", "kernel")
    return folder / "kernel.tar"


def counts(output: str) -> dict[str, int]:
    [recap] = re.findall(r"localhost +: (.*)", output)
    return {key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", recap)}


RELEASE = play({"joulerig_release": None})


@pytest.mark.long
def test_what_ansibles_modules_change_is_as_before_after_a_release(ansible, tmp_path):
    etc = tmp_path / "etc"
    (etc / "chrony").mkdir(parents=True)
    (etc / "chrony/chrony.conf").write_text("pool debian\n")
    (etc / "chrony/chrony.conf").chmod(0o640)
    before = picture(etc)
    changes = play(
        {"joulerig_change": {"ansible.builtin.file": {"path": f"{etc}/own", "state": "directory", "owner": "{{ 'root' if false else omit }}", "mode": "0750"}}},
        {
            "joulerig_change": {
                "ansible.builtin.copy": {"content": "{{ item }}", "dest": f"{etc}/own/{{{{ item }}}}", "mode": "0600"}
            },
            "loop": ["one", "two"],
            "no_log": True,
        },
        {
            "joulerig_change": {
                "ansible.builtin.template": {
                    "src": "chrony.conf.j2", "dest": f"{etc}/chrony/chrony.conf", "mode": "0644",
                }
            },
            "register": "written",
        },
        {
            "joulerig_change": {
                "ansible.builtin.shell": {"cmd": f"mkdir -p {etc}/tree/a && touch {etc}/tree/a/b", "creates": f"{etc}/tree"},
                "trees": [f"{etc}/tree"],
            },
        },
        {"ansible.builtin.copy": {"content": "{{ written is changed }}", "dest": f"{tmp_path}/seen", "mode": "0644"}},
    )  # fmt: skip
    changes[0]["tasks"].append(
        {
            "name": "Unpack",
            "joulerig_change": {
                "ansible.builtin.unarchive": {
                    "src": str(packed(tmp_path)),
                    "dest": str(etc),
                    "creates": f"{etc}/kernel/k",
                },
                "trees": [f"{etc}/kernel"],
            },
        }
    )
    look = play(
        {"ansible.builtin.command": f"cp -a {etc} {tmp_path}/provisioned"},
        {"ansible.builtin.command": f"cp /var/lib/joulerig/changes.json {tmp_path}/changes.json"},
    )
    outputs = ansible(changes, look, changes, RELEASE, RELEASE)
    assert counts(outputs[0])["failed"] == 0, outputs[0]
    assert counts(outputs[0])["changed"] == 6
    assert (tmp_path / "provisioned/kernel/k").read_text() == "kernel"
    provisioned = tmp_path / "provisioned"
    assert (provisioned / "chrony/chrony.conf").read_text() == "server 42\n"
    assert (provisioned / "own/two").read_text() == "two"
    assert stat.S_IMODE((provisioned / "own").stat().st_mode) == 0o750
    assert (tmp_path / "seen").read_text() == "False"  # of the second time
    assert counts(outputs[2]) == {**counts(outputs[0]), "ok": 5, "changed": 1, "skipped": 1}
    assert counts(outputs[3])["failed"] == 0, outputs[3]
    assert counts(outputs[3])["changed"] == 1
    assert f"note: localhost: restored {etc}/chrony/chrony.conf" in outputs[3]
    assert f"note: localhost: removed {etc}/tree" in outputs[3]
    assert picture(etc) == before
    assert counts(outputs[4])["changed"] == 0
    assert "note: localhost: nothing to give back" in outputs[4]


def test_a_change_that_cannot_be_recorded_is_not_made(ansible, tmp_path):
    odd = tmp_path / "odd"
    os.mkfifo(odd)
    [output] = ansible(
        play({"joulerig_change": {"ansible.builtin.file": {"path": str(odd), "mode": "0777"}}}),
    )
    assert "cannot record what is there before a change" in output
    assert counts(output)["failed"] == 1
    assert stat.S_IMODE(odd.stat().st_mode) != 0o777


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            {"ansible.builtin.command": {"cmd": "touch /nowhere/x"}},
            "has to say what it changes; allowed: files, trees",
        ),
        ({"files": ["/etc/a"]}, "has to name one module of Ansible's in full"),
    ],
)
def test_a_change_that_does_not_say_what_it_changes_is_refused(ansible, arguments, expected):
    [output] = ansible(play({"joulerig_change": arguments}))
    assert expected in " ".join(output.split())
