# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab of many test hosts on this machine: contained hosts, reached by SSH over loopback.

The lab's programs are in namespaces, with a loopback network and process numbers of their own
(`run_inside`), and end with the first of them, however that ends; so do the loop devices.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from joulerig.rig.common import files, wait
from joulerig.rig.controller import services
from joulerig.rig.lab import model
from tests.support import ROOT

SIZE_BYTES = 96 << 20
START_SECONDS = 60.0
# bash, as sshd, takes over the children of processes that ended; of Python's they stay zombies.
REAPING = ["bash", "-c", '"$@" & wait $!', "bash"]
SSHD = """\
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
PidFile none
"""


ENTER = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", *REAPING]
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # <linux/sockios.h>, <linux/if.h>


def run_inside(command: Sequence[str]) -> int:
    """Run `command` in the namespaces of a lab; return its exit code.

    It ends with this process, however that ends.
    """

    def prepare() -> None:
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)

    return subprocess.run([*ENTER, *command], cwd=ROOT, preexec_fn=prepare, check=False).returncode


def raise_loopback() -> None:
    """Bring the loopback interface of a new network up."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


@dataclass
class Host:
    """A host by its name, where its files are, its address (empty: the controller itself)."""

    name: str
    folder: Path
    address: str
    loop: str
    size_bytes: int

    @property
    def serial(self) -> str:
        """The serial of its drive."""
        return f"CONTAINED-{self.name}"

    @property
    def drive(self) -> str:
        """The name of its drive."""
        return f"drive-{self.name}"


class ContainedLab:
    """Lab in `folder`, which is on a disk. `addresses`: of its hosts, by name.

    A host without an address is the machine of the controller: `execute` has what is to be executed
    there.
    """

    def __init__(self, folder: Path, addresses: Mapping[str, str]) -> None:
        self.folder, self.inventory = folder, folder / "inventory.ini"
        memory = folder / "memory"
        memory.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "lab", str(memory)], check=True)
        self._held: list[int] = []
        self.hosts = [self._make(name, address) for name, address in addresses.items()]
        for key in ("host_key", "user_key"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", str(folder / key)],
                check=True,
            )
        self._write()
        self._use()

    def _make(self, name: str, address: str) -> Host:
        """Make the files of a host and its drive, which goes with the last that has it open."""
        folder, disk = self.folder / "memory" / name, self.folder / "disks" / name
        (folder / "agent").mkdir(parents=True)
        disk.mkdir(parents=True)
        (folder / "disk").symlink_to(disk)
        image = self.folder / f"{name}.image"
        with image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        made = subprocess.run(
            ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
        )
        device = made.stdout.strip()
        self._held.append(os.open(device, os.O_RDONLY))
        subprocess.run(["losetup", "--detach", device], check=True)
        return Host(name, folder, address, Path(device).name, SIZE_BYTES)

    def _write(self) -> None:
        """Write inventory and host_vars, and what SSH needs."""
        lines = ["[controller]", "boss ansible_connection=local", "", "[test_hosts]"]
        lines += [
            f"{one.name} " + (f"ansible_host={one.address}" if one.address else "ansible_connection=local")
            for one in self.hosts
        ]
        lines += [
            "", "[all:vars]", "ansible_user=root", "ansible_python_interpreter=/usr/bin/python3",
            f"ansible_ssh_private_key_file={self.folder}/user_key",
            f'ansible_ssh_common_args="-F /dev/null -o UserKnownHostsFile={self.folder}/known_hosts"',
            f"ansible_control_path_dir={self.folder}/cp",
        ]  # fmt: skip
        self.inventory.write_text("\n".join(lines) + "\n")
        known = (self.folder / "host_key.pub").read_text()
        self._put("known_hosts", "".join(f"{one.address} {known}" for one in self.hosts if one.address))
        self._put("host_vars/boss.yml", yaml.safe_dump({"clock_listen": "0.0.0.0:12300", "meters": {}}))
        for one in self.hosts:
            rotates = Path(f"/sys/block/{one.loop}/queue/rotational").read_text().strip() == "1"
            interface = "hdd" if rotates else "sata-ssd"
            drive = {"interface": interface, "serial": one.serial, "size_bytes": one.size_bytes}
            described = {"controller_address": "127.0.0.1", "drives": {one.drive: drive}}
            self._put(f"host_vars/{one.name}.yml", yaml.safe_dump(described))

    def _put(self, name: str, text: str) -> None:
        files.replace(self.folder / name, text)

    def _use(self) -> None:
        """Have this process, and those that it starts, be of this lab."""
        os.environ |= {
            "JOULERIG_INVENTORY": str(self.inventory),
            "JOULERIG_VAR": str(self.folder / "var"),
            "JOULERIG_RESULTS": str(self.folder / "results"),
        }

    @contextlib.contextmanager
    def running(self, described: model.Lab) -> Iterator[None]:
        """Run the hosts, with their agents and SSH servers, during the block."""
        with contextlib.ExitStack() as undo:
            for one in self.hosts:
                server = one.folder / "sshd_config"
                server.write_text(SSHD.format(address=one.address, folder=self.folder))
                command = ["/usr/sbin/sshd", "-D", "-e", "-f", str(server)]
                undo.enter_context(self.started(one, described, command))
            for one in self.hosts:
                if not wait.until(partial(_answers, one.address), START_SECONDS, 0.1):
                    raise OSError(f"{one.name}: no SSH server on {one.address}: {self._log(one)}")
            yield

    @contextlib.contextmanager
    def started(
        self, host: Host, described: model.Lab, command: Sequence[str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run `command` as the first program of a host during the block."""
        agent = services.deployment(described, host.name)["rig_agent"]
        (host.folder / "agent/iod.json").write_text(json.dumps(agent["config"]))
        (host.folder / "agent/influx-password").write_text(agent["password"])
        place = ["unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child"]
        program = [sys.executable, "-m", "tests.support.contained_host", str(host.folder)]
        words = [*place, *program, host.name, host.loop, host.serial, *command]
        with (host.folder / "log").open("wb") as log:
            process = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _log(self, host: Host) -> str:
        lines = (host.folder / "log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "no output"


@contextlib.contextmanager
def serving(described: model.Lab) -> Iterator[None]:
    """Run InfluxDB, powerd and the dashboard during the block."""
    services.start(described)
    try:
        yield
    finally:
        services.stop()


def _answers(address: str) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, 22)) == 0


def write_playbook(path: Path, campaign: Mapping[str, Any]) -> Path:
    """Write a playbook that executes `campaign`; return its path."""
    play = {"import_playbook": str(ROOT / "playbooks/campaign.yml"), "vars": {"campaign": dict(campaign)}}
    path.write_text(yaml.safe_dump([play]))
    return path
