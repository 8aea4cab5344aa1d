# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual test hosts: disks and keys, QEMU processes, and the wait for one that boots."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from joulerig.rig.common import files, paths, supervisor, wait
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import TestHost
from joulerig.virtuallab import image, machine, nvme, qmp, twins
from joulerig.virtuallab.clock import shared
from joulerig.virtuallab.profile import Profile

BOOT_SECONDS = 300.0  # TCG on a busy machine; about 20 s where it is idle
# A kernel writes to its console all the way up, on a busy machine every few seconds. Rarely a guest
# under TCG hangs at boot; it is restarted then. It writes nothing more, or only that a processor of
# its own is stuck: one loops for ever over an instruction that another one has just patched.
HUNG_SECONDS = 90.0
STUCK = re.compile(r"soft lockup - CPU#\d+ stuck for (\d+)s")
SHUTDOWN_SECONDS = 40.0


def process_name(host: str) -> str:
    """Return the name under which the supervisor keeps a host's QEMU."""
    return f"host-{host}"


def ssh_command(folder: Path, host: str) -> list[str]:
    """Return the command that logs in to `host` with the keys in `folder`."""
    return ["ssh", "-F", str(folder / "ssh_config"), host]


def clock_socket(host: str) -> Path:
    """Return the socket at which a host asks for the lab's clock to be slowed down."""
    return paths.run() / f"{host}.clock"


def stop(host: str) -> None:
    """Stop a host's processors at once, as a power failure does. Raises UserError."""
    qmp.execute(_qmp_socket(host), "stop")


def reset(host: str) -> None:
    """Reset a host that was stopped, and let it boot. Raises UserError."""
    qmp.execute(_qmp_socket(host), "system_reset", "cont")


def process(
    name: str,
    host: TestHost,
    guest: image.Image,
    accelerator: str,
    folder: Path,
    profiles: Mapping[str, Profile] | None = None,
) -> supervisor.Program:
    """Prepare a host's files below `folder` and describe its process. Raises UserError."""
    own = paths.private(folder / name)
    files.replace(own / "hostname", name + "\n")
    files.replace(own / "authorized_keys", (folder / "ssh" / "id_ed25519.pub").read_text())
    files.replace(own / "ssh_host_key", (folder / "ssh" / "host_ed25519").read_text(), mode=0o600)
    if connections := nvme.connections(name, host):
        files.replace(own / machine.DRIVES, "".join(line + "\n" for line in connections), mode=0o600)
    overlay = own / "root.qcow2"
    marker = own / "image"
    if not overlay.exists() or not marker.exists() or marker.read_text() != str(guest.root):
        overlay.unlink(missing_ok=True)
        backing = ["-b", str(guest.root), "-F", "raw"]
        create = ["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(overlay)]
        done = subprocess.run(create, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"qemu-img: {done.stderr.strip()}")
        files.replace(marker, str(guest.root))
    for key, drive in host.drives.items():
        if drive.interface == "nvdimm":
            with open(own / f"{key}.img", "ab") as memory:
                memory.truncate(machine.nvdimm_bytes(drive))
    for kept in (overlay, own / "console.log", *own.glob("*.img")):
        if kept.exists():
            kept.chmod(0o600)
    sockets = {key: twins.nbd_socket(name, key) for key in host.twins}
    command = machine.command(
        name,
        host,
        guest,
        accelerator,
        own,
        sockets,
        _ssh_port(name),
        _qmp_socket(name),
        clock_socket(name),
        profiles,
    )
    return supervisor.Program(
        process_name(name),
        command,
        priority=300,
        restart=False,
        private=True,
        environment=shared.environment(),
    )


def make_keys(folder: Path) -> None:
    """Make the lab's SSH keys in `folder`, where they are missing."""
    for key in ("id_ed25519", "host_ed25519"):
        path = folder / "ssh" / key
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "joulerig virtual lab"]
            command += ["-f", str(path)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def write_ssh_config(folder: Path, hosts: Iterable[str]) -> None:
    """Write the SSH configuration by which `hosts` are reached."""
    hosts = list(hosts)
    host_key = (folder / "ssh" / "host_ed25519.pub").read_text().split()[:2]
    files.replace(folder / "known_hosts", "".join(f"{name} {' '.join(host_key)}\n" for name in hosts))
    sections = [
        f"""Host {name}
  HostName 127.0.0.1
  Port {_ssh_port(name)}
  HostKeyAlias {name}
  User root
  IdentityFile {folder}/ssh/id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
  LogLevel ERROR
"""
        for name in hosts
    ]
    files.replace(folder / "ssh_config", "".join(sections))


def shut_down(folder: Path) -> None:
    """Shut down the hosts that run, and wait at most SHUTDOWN_SECONDS for their end.

    They are not cut: what was provisioned must be on their disks.
    """
    prefix = process_name("")
    running = [n for n, s in supervisor.states().items() if n.startswith(prefix) and s == "RUNNING"]
    for name in running:
        command = ssh_command(folder, name.removeprefix(prefix))
        command += ["-o", "ConnectTimeout=5", "-o", "BatchMode=yes", "systemctl poweroff"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)

    def ended() -> bool:
        states = supervisor.states()
        return all(states.get(name) != "RUNNING" for name in running)

    wait.until(ended, SHUTDOWN_SECONDS)


def await_ssh(folder: Path, host: str, report: Callable[[str], object]) -> None:
    """Wait until a host answers over SSH; restart it once if it hangs at boot. Raises UserError."""
    program = process_name(host)
    console = folder / host / "console.log"
    command = [*ssh_command(folder, host), "-o", "ConnectTimeout=5", "-o", "BatchMode=yes", "true"]

    def answers() -> bool:
        if supervisor.states().get(program) not in ("RUNNING", "STARTING"):
            raise UserError(f"{host}: QEMU ended: {supervisor.last_words(program)}")
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    outcome = await_boot(answers, console)
    if outcome == "hung":
        kept = console.with_suffix(".hung.log")
        console.replace(kept)
        report(f"{host}: hung at boot (its console: {kept}); restarting it")
        supervisor.restart(program)
        outcome = await_boot(answers, console)
    if outcome != "up":
        why = "hung at boot, twice" if outcome == "hung" else f"gave up after {BOOT_SECONDS:.0f} s"
        raise UserError(f"{host}: does not answer over SSH: {why}; its console: {console}")


def await_boot(
    answers: Callable[[], bool],
    console: Path,
    seconds: float = BOOT_SECONDS,
    hung_seconds: float = HUNG_SECONDS,
) -> str:
    """Wait for a guest that boots.

    Returns "up" once it answers; "hung" when for `hung_seconds` its console has not grown or one of
    its processors was stuck; "slow" after `seconds`.
    """
    last_length, since = -1, time.monotonic()

    def outcome() -> str | None:
        nonlocal last_length, since
        if answers():
            return "up"
        text = console.read_text(errors="replace") if console.exists() else ""
        if len(text) != last_length:
            last_length, since = len(text), time.monotonic()
        stuck = max(map(int, STUCK.findall(text)), default=0)
        return "hung" if max(time.monotonic() - since, stuck) >= hung_seconds else None

    return wait.until(outcome, seconds, min(0.5, hung_seconds / 4)) or "slow"


def _ssh_port(host: str) -> int:
    return files.kept_port(f"ssh-{host}")


def _qmp_socket(host: str) -> Path:
    return paths.run() / f"{host}.qmp"
