# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and look at the virtual lab: twins, power taps, test hosts."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from joulerig.rig.common import files, paths, supervisor, wait
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.model import Drive, Lab, TestHost
from joulerig.virtuallab import accelerator, image, machine, profile, twin_parameters

BOOT_SECONDS = 300.0  # TCG on a busy machine; about 20 s where it is idle
# A kernel writes to its console all the way up, on a busy machine every few seconds. Rarely a guest under TCG
# hangs before its first word; it is started once more, instead of being waited for in vain.
SILENT_SECONDS = 90.0
SHUTDOWN_SECONDS = 40.0


def folder() -> Path:
    """Where the virtual lab keeps its drives, disks and keys."""
    return paths.var() / "lab"


def twin_name(host: str, drive: str) -> str:
    return f"twin-{host}-{drive}"


def truth_socket(host: str, drive: str) -> Path:
    """The truth socket of a drive's twin (docs/interfaces.md)."""
    return paths.run() / f"{host}-{drive}.truth"


def nbd_socket(host: str, drive: str) -> Path:
    return paths.run() / f"{host}-{drive}.nbd"


def twinned(host: TestHost) -> dict[str, Drive]:
    """The drives of a virtual host that have a twin; those of memory have none."""
    if not host.virtual:
        return {}
    return {name: drive for name, drive in host.drives.items() if not drive.of_memory}


def tap_ports(lab: Lab) -> dict[str, dict[str, int]]:
    """TCP port of each port of each virtual tap."""
    taps = sorted({meter.virtual.tap for meter in lab.controller.meters.values() if meter.virtual})
    return {tap: {port: files.kept_port(f"{tap}-{port}") for port in "ab"} for tap in taps}


def connection(lab: Lab, meter: str) -> str:
    """libsigrok's conn of a meter, virtual or not."""
    spec = lab.controller.meters[meter]
    if spec.virtual:
        return f"tcp-raw/127.0.0.1/{tap_ports(lab)[spec.virtual.tap][spec.virtual.port]}"
    return spec.connection


def up(lab: Lab, report=print) -> None:
    """Start the virtual lab and wait until its hosts answer over SSH. Does nothing to what runs already."""
    hosts = {name: host for name, host in lab.hosts.items() if host.virtual}
    if not hosts:
        raise UserError(f"{paths.short(lab.inventory)}: describes no virtual host; there is nothing to start")
    for program in ("nbdkit", "qemu-system-x86_64", "qemu-img"):
        if not shutil.which(program):
            raise UserError(f"{program}: not found; 'make setup' gets it")
    for built in ("nbdkit-twin-plugin.so", "power_tap"):
        if not paths.program(built).exists():
            raise UserError(f"{paths.short(paths.program(built))}: not built; 'make build' builds it")
    guest = image.build([name for host in hosts.values() for name in host.virtual.guest_packages], report)
    _make_keys()
    supervisor.start(
        _twin(name, key, drive) for name, host in hosts.items() for key, drive in twinned(host).items()
    )
    supervisor.start(_tap(lab, tap) for tap in tap_ports(lab))
    how = accelerator.choose(guest)
    booting = [name for name in hosts if supervisor.states().get(f"host-{name}") != "RUNNING"]
    if booting:
        report(f"booting {', '.join(booting)} under {how.upper()} (kernel {guest.release})")
    supervisor.start(_host(name, host, guest, how) for name, host in hosts.items())
    _write_ssh_config(hosts)
    for name in hosts:
        _await_host(name, report)


def down() -> list[str]:
    """Stop the virtual lab; its drives keep their data.

    Hosts are shut down, not cut: what was provisioned must be on their disks. One that does not end within
    SHUTDOWN_SECONDS is cut.
    """
    running = [
        n.removeprefix("host-")
        for n, s in supervisor.states().items()
        if n.startswith("host-") and s == "RUNNING"
    ]
    for host in running:
        command = [*ssh_command(host), "-o", "ConnectTimeout=5", "-o", "BatchMode=yes", "systemctl poweroff"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)

    def ended() -> bool:
        states = supervisor.states()
        return all(states.get(f"host-{host}") != "RUNNING" for host in running)

    wait.until(ended, SHUTDOWN_SECONDS)
    return supervisor.stop(lambda name: name.startswith(("host-", "tap-", "twin-")))


def status(lab: Lab) -> dict[str, dict]:
    """State of each part, and of each twin its truth."""
    states = {n: s for n, s in supervisor.states().items() if n.startswith(("host-", "tap-", "twin-"))}
    truths = {}
    for host, spec in lab.hosts.items():
        for drive in twinned(spec):
            try:
                truths[f"{host}/{drive}"] = truth(host, drive, "state")
            except UserError:
                truths[f"{host}/{drive}"] = None
    return {"processes": states, "twins": truths}


def truth(host: str, drive: str, request: str) -> dict:
    """What a drive's twin answers to a request of its truth socket (`state`, `history T1 T2`).

    Raises UserError.
    """
    return ask(truth_socket(host, drive), request)


def ask(path: Path, request: str) -> dict:
    """What the twin whose truth socket is `path` answers to a request. Raises UserError."""
    try:
        with socket.socket(socket.AF_UNIX) as connection_:
            connection_.settimeout(5)
            connection_.connect(str(path))
            connection_.sendall(request.encode() + b"\n")
            with connection_.makefile("rb") as stream:
                answer = json.loads(stream.readline())
    except (OSError, ValueError) as error:
        raise UserError(f"{paths.short(path)}: the twin does not answer: {error}") from None
    if "error" in answer:
        raise UserError(f"{paths.short(path)}: {request.split()[0]}: {answer['error']}")
    return answer


def ssh_command(host: str) -> list[str]:
    return ["ssh", "-F", str(folder() / "ssh_config"), host]


def twin_command(
    model: profile.Profile, nbd: Path, truth_path: Path, backing: Path, size_bytes: int, serial: str
) -> list[str]:
    """The command that runs a drive's twin."""
    return [
        "nbdkit", "--foreground", "--exit-with-parent", "--threads", str(twin_parameters.THREADS),
        "--unix", str(nbd),
        str(paths.program("nbdkit-twin-plugin.so")), f"file={backing}", f"size={size_bytes}",
        f"serial={serial}", f"truth={truth_path}", *twin_parameters.of(model),
    ]  # fmt: skip


def twin_listens(nbd: Path, truth_path: Path) -> bool:
    """Whether who connects to a drive's twin now is answered, on either socket."""
    return wait.listens(truth_path) and wait.listens(nbd)


def _twin(host: str, key: str, drive: Drive) -> supervisor.Program:
    model = profile.load(drive.profile, f"host_vars/{host}.yml: drives.{key}.profile")
    if set(drive.rails) - set(model.rails):
        missing = min(set(drive.rails) - set(model.rails))
        raise UserError(
            f"host_vars/{host}.yml: drives.{key}.rails: profile {drive.profile!r} has no rail {missing!r};"
            f" allowed: {', '.join(model.rails)}"
        )
    if _profile_interface(drive) != model.interface or drive.plp != model.plp:
        raise UserError(
            f"host_vars/{host}.yml: drives.{key}: interface {drive.interface!r}, plp {drive.plp}: profile"
            f" {drive.profile!r} is {model.interface}, plp {model.plp}"
        )
    backing = folder() / "drives" / f"{host}-{key}.img"
    backing.parent.mkdir(parents=True, exist_ok=True)
    truth_path, nbd = truth_socket(host, key), nbd_socket(host, key)
    command = twin_command(model, nbd, truth_path, backing, drive.size_bytes, drive.serial)
    if supervisor.states().get(twin_name(host, key)) not in ("RUNNING", "STARTING"):
        nbd.unlink(missing_ok=True)  # of a twin that was killed: nbdkit refuses an existing socket
        truth_path.unlink(missing_ok=True)
    return supervisor.Program(
        twin_name(host, key),
        command,
        ready=lambda: twin_listens(nbd, truth_path),
        priority=100,
        restart=False,
    )


def _profile_interface(drive: Drive) -> str:
    return "nvme" if drive.interface == "nvme" else "sata"


def _tap(lab: Lab, tap: str) -> supervisor.Program:
    ports = tap_ports(lab)[tap]
    first = {"a": 1, "b": 3}
    words = [str(paths.program("power_tap")), "--listen", f"127.0.0.1:{ports['a']},127.0.0.1:{ports['b']}"]
    meters = [m for m in lab.controller.meters.values() if m.virtual and m.virtual.tap == tap]
    words += ["--rate", f"{_equal(tap, 'sample_rate_hz', {m.sample_rate_hz for m in meters}):g}"]
    if dropped := _equal(tap, "virtual.drop_blocks", {m.virtual.drop_blocks for m in meters}):
        words += ["--drop-blocks", f"{dropped:g}"]
    for host, spec in lab.hosts.items():
        for drive in twinned(spec):
            for name, rail in spec.drives[drive].rails.items():
                meter = lab.controller.meters[rail.meter]
                if meter.virtual and meter.virtual.tap == tap:
                    number = first[meter.virtual.port] + _rail_of_channels(f"{host}/{drive}/{name}", rail)
                    words += ["--rail", f"{number}={truth_socket(host, drive)}:{name}"]

    def ready() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", ports["a"]), 1):
                return True
        except OSError:
            return False

    return supervisor.Program(f"tap-{tap}", words, ready=ready, priority=200)


def _equal(tap: str, key: str, values: set[float]) -> float:
    """What the meters of a virtual tap say alike: it is one instrument."""
    if len(values) != 1:
        raise UserError(f"host_vars: meters of the virtual tap {tap}: {key}: {sorted(values)}: must be equal")
    return values.pop()


def _rail_of_channels(where: str, rail) -> int:
    pairs = [("CH1", "CH2"), ("CH3", "CH4")]
    if (rail.volts, rail.amps) not in pairs:
        raise UserError(
            f"{where}: channels {rail.volts}, {rail.amps}: a virtual tap has CH1, CH2 or CH3, CH4"
        )
    return pairs.index((rail.volts, rail.amps))


def _host(name: str, host: TestHost, guest: image.Image, how: str) -> supervisor.Program:
    place = folder() / name
    place.mkdir(parents=True, exist_ok=True)
    files.replace(place / "hostname", name + "\n")
    files.replace(place / "authorized_keys", (folder() / "ssh" / "id_ed25519.pub").read_text())
    files.replace(place / "ssh_host_key", (folder() / "ssh" / "host_ed25519").read_text(), mode=0o600)
    overlay = place / "root.qcow2"
    marker = place / "image"
    if not overlay.exists() or not marker.exists() or marker.read_text() != str(guest.root):
        overlay.unlink(missing_ok=True)
        backing = ["-b", str(guest.root), "-F", "raw"]
        command = ["qemu-img", "create", "-q", "-f", "qcow2", *backing, str(overlay)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"qemu-img: {done.stderr.strip()}")
        files.replace(marker, str(guest.root))
    for key, drive in host.drives.items():
        if drive.interface == "nvdimm":
            with open(place / f"{key}.img", "ab") as backing:
                backing.truncate(machine.nvdimm_bytes(drive))
    sockets = {key: nbd_socket(name, key) for key in twinned(host)}
    qmp = paths.run() / f"{name}.qmp"
    command = machine.command(name, host, guest, how, place, sockets, files.kept_port(f"ssh-{name}"), qmp)
    return supervisor.Program(f"host-{name}", command, priority=300, restart=False)


def _make_keys() -> None:
    for key in ("id_ed25519", "host_ed25519"):
        path = folder() / "ssh" / key
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "joulerig virtual lab"]
            command += ["-f", str(path)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _write_ssh_config(hosts: dict[str, TestHost]) -> None:
    host_key = (folder() / "ssh" / "host_ed25519.pub").read_text().split()[:2]
    files.replace(folder() / "known_hosts", "".join(f"{name} {' '.join(host_key)}\n" for name in hosts))
    sections = [
        f"""Host {name}
  HostName 127.0.0.1
  Port {files.kept_port(f"ssh-{name}")}
  HostKeyAlias {name}
  User root
  IdentityFile {folder()}/ssh/id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {folder()}/known_hosts
  StrictHostKeyChecking yes
  LogLevel ERROR
"""
        for name in hosts
    ]
    files.replace(folder() / "ssh_config", "".join(sections))


def _await_host(host: str, report) -> None:
    """Wait until a host answers over SSH; one that hangs at boot is started again, once. Raises UserError."""
    program = f"host-{host}"
    console = folder() / host / "console.log"
    command = [*ssh_command(host), "-o", "ConnectTimeout=5", "-o", "BatchMode=yes", "true"]

    def answers() -> bool:
        if supervisor.states().get(program) not in ("RUNNING", "STARTING"):
            raise UserError(f"{host}: QEMU ended: {supervisor.last_words(program)}")
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    outcome = await_boot(answers, console)
    if outcome == "silent":
        kept = console.with_suffix(".hung.log")
        console.replace(kept)
        report(f"{host}: hung at boot (its console: {kept}); starting it again")
        supervisor.restart(program)
        outcome = await_boot(answers, console)
    if outcome != "up":
        why = "hung at boot, twice" if outcome == "silent" else f"gave up after {BOOT_SECONDS:.0f} s"
        raise UserError(f"{host}: does not answer over SSH: {why}; its console: {console}")


def await_boot(
    answers: Callable[[], bool],
    console: Path,
    seconds: float = BOOT_SECONDS,
    silence: float = SILENT_SECONDS,
) -> str:
    """Wait for a guest that boots.

    "up" once it answers; "silent" when its console has not grown for `silence` seconds; "slow" after
    `seconds`.
    """
    said, since = -1, time.monotonic()

    def outcome() -> str | None:
        nonlocal said, since
        if answers():
            return "up"
        length = console.stat().st_size if console.exists() else 0
        if length != said:
            said, since = length, time.monotonic()
        return "silent" if time.monotonic() - since >= silence else None

    return wait.until(outcome, seconds, min(0.5, silence / 4)) or "slow"
