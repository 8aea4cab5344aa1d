# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything of a lab that can die while it executes a campaign, and how it is made to."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from joulerig.rig.common import supervisor
from tests.support.lab_driver import Lab
from tests.support.programs import wait_for
from tests.support.ssh_proxy import SshProxy

BOOT_SECONDS = 400.0
# On the host: the interpreter that waits for a call (it reads its module from its input), and the
# process that does the work of one.
WAITS, WORKS = r"^/usr/bin/python3$", "detached import child"
# What the command lines of a campaign's processes on its controller have.
RIG, ANSIBLE, SSH = "bin/rig run", "ansible_playbook", "ssh_config"
OF_CAMPAIGN = (RIG, ANSIBLE, SSH)
HEARTBEAT = "claims.heartbeat"  # of a campaign's executor: it ends by itself once that has
# Shell commands for the host: what a campaign left there, a line each, and what it may have set.
LEFT = """
ls /var/lib/joulerig/calls
systemctl list-units --all --plain --no-legend 'joulerig-*' | awk '{print $1}'
pgrep -ax 'fio|flowop|mkfs.*'
grep /run/joulerig/mnt /proc/mounts
"""
# By what a drive is known: its letter may be another one after a boot.
SETTINGS = r"""
for drive in /sys/block/nvme* /sys/block/sd*; do
    known=$(cat "$drive/wwid" "$drive/device/wwid" 2>/dev/null)
    for file in "$drive"/queue/*; do
        [ -f "$file" ] && echo "$known ${file##*/} $(cat "$file" 2>/dev/null)"
    done
done
grep -H . /proc/sys/vm/dirty_* /proc/sys/vm/swappiness
systemctl list-units --state=active --type=timer --plain --no-legend | awk '{print $1}'
"""


def controllers(lab: Lab, what: str = "") -> list[psutil.Process]:
    """The processes of a lab's campaigns: `rig run`, ansible-playbook, its workers, SSH.

    `what`: those whose command line has it, HEARTBEAT for example.
    """
    mark = lab.environment["JOULERIG_VAR"]
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            sought = any(one in words for one in ([what] if what else OF_CAMPAIGN))
            if sought and process.environ().get("JOULERIG_VAR") == mark:
                found.append(process)
    return sorted(found, key=lambda one: one.create_time())


def end(number: signal.Signals, processes: list[psutil.Process]) -> None:
    """Send a signal to processes, of which some may have ended."""
    for one in processes:
        with contextlib.suppress(psutil.Error):
            one.send_signal(number)


class Kills:
    """Kills by name. Each returns once what it stands for is over: a host has booted, say.

    `lab` is reached through `proxy`; `direct` is an SSH configuration without it.
    """

    def __init__(self, lab: Lab, proxy: SshProxy, direct: Path, chance: random.Random) -> None:
        self._lab, self._proxy, self._direct, self._chance = lab, proxy, direct, chance
        self._kinds: dict[str, Callable[[], None]] = {
            "rig run": lambda: end(signal.SIGKILL, controllers(self._lab, RIG)),
            "terminal": self._close_terminal,
            "ansible-playbook": lambda: end(signal.SIGKILL, controllers(self._lab, ANSIBLE)[:1]),
            "worker": self._end_worker,
            "controller's machine": lambda: end(signal.SIGKILL, controllers(self._lab)),
            "module": lambda: self.on_host(f"pkill -KILL -f '{WAITS}'"),
            "call": lambda: self.on_host(f"pkill -KILL -f '{WORKS}'"),
            "load": lambda: self.on_host("pkill -KILL -x 'fio|flowop'"),
            "agent": lambda: self.on_host("pkill -KILL -x iod"),
            "powerd": lambda: self._end_service("powerd"),
            "InfluxDB": lambda: self._end_service("influxd"),
            "host": self._reset_host,
            "host's power": self._cut_host,
            "SSH reset": lambda: self._proxy.break_all(reset=True),
            "SSH closed": lambda: self._proxy.break_all(reset=False),
            "network late": lambda: self.silence(chance.uniform(5, 40), same=True),
            "network gone": lambda: self.silence(chance.uniform(5, 40), same=False),
            "disk full": self._fill_disk,
        }

    @property
    def kinds(self) -> list[str]:
        return list(self._kinds)

    def kill(self, kind: str) -> None:
        self._kinds[kind]()

    def on_host(self, command: str) -> str:
        """Return what a command on the test host prints, past the proxy; its failure is none."""
        done = subprocess.run(
            ["ssh", "-F", str(self._direct), "-o", "ConnectTimeout=20", "vhost1", f"{command} || true"],
            capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.stdout

    def _close_terminal(self) -> None:
        """Signal what the terminal's closing does: the process group of `rig run`."""
        for one in controllers(self._lab, RIG):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(one.pid), signal.SIGHUP)

    def _end_worker(self) -> None:
        if workers := controllers(self._lab, ANSIBLE)[1:]:
            end(signal.SIGKILL, [self._chance.choice(workers)])

    def _end_service(self, name: str) -> None:
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == name and self._lab.environment["JOULERIG_VAR"] in " ".join(
                    process.cmdline()
                ):
                    process.kill()

    def _reset_host(self) -> None:
        from joulerig.rig.lab import virtual

        with self._lab.state():
            virtual.stop_host("vhost1")
            virtual.reset_host("vhost1")
        self._await_boot()

    def _cut_host(self) -> None:
        with self._lab.state():
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if process.name().startswith("qemu-system") and str(self._lab.folder) in " ".join(
                        process.cmdline()
                    ):
                        process.kill()
            wait_for(lambda: supervisor.states()["host-vhost1"] not in ("RUNNING",), 20, "QEMU has ended")
            supervisor.restart("host-vhost1")
        self._await_boot()

    def _await_boot(self) -> None:
        wait_for(lambda: self.on_host("systemctl is-active iod").strip() == "active", BOOT_SECONDS, "a host")

    def silence(self, seconds: float, *, same: bool) -> None:
        """Take the network away for a time; the connections from before come back, or not."""
        self._proxy.go_away()
        time.sleep(seconds)  # how long it is away
        self._proxy.come_back(same=same)

    def _fill_disk(self) -> None:
        filler = self._lab.results / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(max(4096, min(2**20, shutil.disk_usage(self._lab.results).free))))
        time.sleep(self._chance.uniform(2, 20))  # how long a disk is full
        filler.unlink()
