# SPDX-License-Identifier: GPL-3.0-or-later
"""Have every destructive module of a test host try one real block device, in a situation.

    python -m tests.support.hostile_drive SITUATION.json

The device is a loop device, behind a copy of /sys in which it has a serial, as a drive has. The
program runs in private PID and mount namespaces (`unshare`), so that the processes and mounts of
the situation are all that the modules see, and all end with it. It prints, as JSON and by record of
drives (`RECORDS`), what each module came to and how many bytes were written to the device (and
discarded) meanwhile, as the kernel counted them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ansible.module_utils
from tests.support import ROOT

ansible.module_utils.__path__.append(str(ROOT / "ansible" / "module_utils"))
sys.path.insert(0, str(ROOT / "ansible" / "modules"))

SERIAL, OTHER = "HOSTILE-1", "HOSTILE-2"
TOKEN = "0123456789abcdef" * 2
CLOCK = {"at_ns": 1, "offset_ns": 0, "error_ns": 1, "exchanges": 1}
EXT4 = {
    "name": "ext4",
    "type": "ext4",
    "mkfs": ["mkfs.ext4", "-q", "-F", "-U", "{uuid}"],
    "mount_options": [],
}
JOURNALED = {
    **EXT4,
    "external_journal": {
        "make": ["mke2fs", "-q", "-F", "-U", "{uuid}", "-O", "journal_dev", "{journal}"],
        "mkfs": ["-J", "device={journal}"],
        "mount_options": [],
    },
}
# They write where they are reached: what refuses them is the modules' work alone.
STAND_INS = {
    "mdadm": "for word; do case $word in /proc/self/fd/*) dd if=/dev/urandom of=$(readlink $word) bs=4k count=1 conv=notrunc,fsync;; esac; done",  # noqa: E501
    "pvcreate": "for word; do case $word in /dev/*) dd if=/dev/urandom of=$word bs=4k count=1 conv=notrunc,fsync;; esac; done",  # noqa: E501
    "vgchange": "exit 5",
    "lvcreate": "exit 5",
    "cryptsetup": "for word; do case $word in /dev/loop*) dd if=/dev/urandom of=$word bs=4k count=1 conv=notrunc,fsync;; esac; done",  # noqa: E501
    "ndctl": """case $1 in
list) cat $(dirname $0)/ndctl.json;;
*) dd if=/dev/urandom of=/dev/$NAME bs=4k count=1 conv=notrunc,fsync;;
esac""",
    "durawriter": "[ $1 = survey ] && exit; shift $(($# - 1)); dd if=/dev/urandom of=/proc/self/fd/$1 bs=4k count=1 oflag=direct",  # noqa: E501
    "fio": "dd if=/dev/urandom of=$JOULERIG_DEVICE bs=4k count=1 conv=notrunc,fsync; exit 1",
}


def copy_sys(folder: Path, serials: dict[str, str], nvdimm: str = "") -> None:
    """Make a /sys in `folder` whose loop devices (by name) are drives with these serials.

    `nvdimm`: the one that is an NVDIMM too.
    """
    drives: dict[str, Path] = {}
    for name, serial in serials.items():
        parent = "region0" if name == nvdimm else "port"
        real, place = Path("/sys/block") / name, folder / "devices" / parent / name
        place.mkdir(parents=True)
        for entry in real.iterdir():
            (place / entry.name).symlink_to(entry.resolve())
        (place / "device").mkdir()
        (place / "device/serial").write_text(serial + "\n")
        (place / "removable").unlink()
        (place / "removable").write_text("0\n")
        (folder / "devices" / name).symlink_to(place)
        drives[name] = place
    for kind in ("block", "class/block", "dev/block", "bus"):
        (folder / kind).mkdir(parents=True)
        for entry in (Path("/sys") / kind).iterdir():
            target = entry.resolve()
            (folder / kind / entry.name).symlink_to(drives.get(target.name, target))
    for kind in ("kernel", "power", "module"):
        (folder / kind).symlink_to(Path("/sys") / kind)
    if nvdimm:
        _copy_nvdimm(folder, drives[nvdimm], serials[nvdimm])


def _copy_nvdimm(folder: Path, drive: Path, serial: str) -> None:
    """Make the region of one DIMM that `drive` lies in."""
    region, dimm = drive.parent, folder / "devices/nmem0"
    (dimm / "nfit").mkdir(parents=True)
    (dimm / "nfit/id").write_text(f"{serial}\n")
    size = 512 * int((drive / "size").read_text())
    for attribute, text in (("size", str(size)), ("mappings", "1"), ("mapping0", f"nmem0,0,{size},0")):
        (region / attribute).write_text(f"{text}\n")
    bus = folder / "bus/nd"
    bus.unlink(missing_ok=True)
    (bus / "devices").mkdir(parents=True)
    for device in (region, dimm):
        (bus / "devices" / device.name).symlink_to(device)


def counted(name: str) -> int:
    """Return the bytes written to and discarded on a device since it was made."""
    fields = [int(word) for word in Path(f"/sys/block/{name}/stat").read_text().split()]
    return 512 * (fields[6] + fields[13])


def flushes(name: str) -> int:
    """Return how often a device was asked to empty its cache."""
    return int(Path(f"/sys/block/{name}/stat").read_text().split()[15])


def swapped_out(name: str) -> int:
    """Return the bytes that the kernel has swapped out, if a device or its partition is used so."""
    spaces = [line.split()[0] for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    if not any(f"{space}p".startswith(f"/dev/{name}p") for space in spaces):
        return 0
    counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counters["pswpout"]) * os.sysconf("SC_PAGE_SIZE")


def answer(module: Any, **arguments: Any) -> dict[str, Any]:
    """Return what a module's main answers."""
    from ansible.module_utils.testing import patch_module_args

    text = io.StringIO()
    with patch_module_args(arguments), contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        module.main()
    return json.loads(text.getvalue())


def ways(drive: dict[str, Any], other: dict[str, Any]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield each way in which a module of the rig can destroy what is on `drive`."""
    import joulerig_array
    import joulerig_drives
    import joulerig_nvdimm
    import joulerig_powercut
    import joulerig_precondition
    import joulerig_run

    from ansible.module_utils.joulerig.clocks import offset

    named = {one["name"]: one for one in (drive, other)}
    options = ["--campaign", TOKEN, "--region-bytes", str(2 << 20)]
    after = {"before_mount": ["e2fsck", "-fy"], "repair": ["e2fsck", "-fy"], "check": []}
    run = {
        "run": "hostile-0001", "campaign": "hostile", "host": "bench1", "scheduler": "none", "seed": 1,
        "workload": {"name": "j", "tool": "fio", "job": "[j]\n"}, "clock_server": "127.0.0.1:1",
        "phases": {"rest": 0, "idle": 0, "workload": 1, "tail": 0}, "agent_socket": "/nonexistent",
    }  # fmt: skip
    precondition = {
        "run": "hostile-0001", "campaign": "hostile", "host": "bench1", "drive": drive["name"],
        "member": drive, "job": {"name": "j", "text": "[j]\n"}, "round_seconds": 1, "rounds": 1, "seed": 1,
        "clock_server": "127.0.0.1:1", "agent_socket": "/nonexistent",
    }  # fmt: skip
    offset.measure = lambda server: CLOCK
    yield (
        "run",
        lambda: answer(joulerig_run, drive=drive["name"], members=[drive], filesystem=EXT4, **run),
    )
    yield (
        "journal of a run",
        lambda: answer(
            joulerig_run, drive=other["name"], members=[other], journal=drive, filesystem=JOURNALED, **run
        ),
    )
    yield "purge", lambda: answer(joulerig_precondition, purge="discard", **precondition)
    yield "passes", lambda: answer(joulerig_precondition, passes=1, **precondition)
    for action, filesystem in (
        ("prepare", EXT4),
        ("prepare", {}),
        ("write", EXT4),
        ("write", {}),
        ("survey", EXT4),
    ):
        name = f"power cut: {action}{' of a bare drive' if not filesystem else ''}"
        yield (
            name,
            lambda action=action, filesystem=filesystem: answer(
                joulerig_powercut,
                action=action,
                member=drive,
                filesystem=filesystem,
                after=after,
                options=options,
            ),
        )
    for level, members in (("raid0", list(named)), ("lvm-linear", list(named)), ("crypt", [drive["name"]])):
        yield (
            f"array: {level}",
            lambda level=level, members=members: answer(
                joulerig_array, name="joulerig-hostile", level=level, members=members, drives=named
            ),
        )
    yield "provisioning", lambda: answer(joulerig_drives, drives={drive["name"]: drive})
    yield "namespace", lambda: answer(joulerig_nvdimm, nvdimm={**drive, "interface": "nvdimm"})


def attempt(way: Callable[[], dict[str, Any]], device: str, kill: Path | None = None) -> dict[str, Any]:
    """Try a way in a separate process; return its answer and the bytes that it wrote.

    The process is killed when the file `kill` appears. `swapped_out`: bytes that the kernel may
    have written there itself meanwhile.
    """
    before, flushed, swapped = counted(device), flushes(device), swapped_out(device)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        with os.fdopen(writer, "w") as file:
            try:
                json.dump(way(), file)
            except BaseException as error:  # the parent shows it
                json.dump({"crashed": repr(error)}, file)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        while kill is not None and not select.select([file], [], [], LOOK_SECONDS)[0]:
            if kill.exists():
                os.kill(child, signal.SIGKILL)
                kill.unlink()
                break
        said = json.loads(file.read() or '{"crashed": "it said nothing"}')
    os.waitpid(child, 0)
    flushed = flushes(device) - flushed
    settled = os.open(f"/dev/{device}", os.O_RDONLY)
    os.fsync(settled)
    os.close(settled)
    written, swapped = counted(device) - before, swapped_out(device) - swapped
    return {"said": said, "written": written, "flushes": flushed, "swapped_out": swapped}


def reason(said: dict[str, Any]) -> str:
    """Return why a module did nothing, or an empty text."""
    return str(said.get("crashed") or said.get("reason") or said.get("problem") or said.get("msg") or "")


# --- records of drives


@contextlib.contextmanager
def looked_at(name: str) -> Iterator[Any]:
    """Give what is on a device (Contents)."""
    from ansible.module_utils.joulerig.drives import contents, system_calls

    device = os.open(f"/dev/{name}", os.O_RDONLY)
    size = int(Path(f"/sys/block/{name}/size").read_text()) * 512
    rotates = Path(f"/sys/block/{name}/queue/rotational").read_text().strip() != "0"
    try:
        yield contents.look("drive", f"/dev/{name}", device, size, rotates, system_calls.CALLS)
    finally:
        os.close(device)


def killed(blank: Any, writer: str, token: str = "") -> dict[str, Any]:
    """Return a record of a change to a blank drive that was killed at any step."""
    return {
        "changing": {
            "to": ["0f1e2d3c4b5a46789abcdef012345678"],
            "writer": {"tool": writer, "token": token},
            "torn_at": 1080,
            "from": blank.shown(),
            "before": blank.hashes(),
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        }
    }


def adopted(contents: Any) -> dict[str, Any]:
    """Return a record that a person released the very content of a drive, more than a day ago."""
    then = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 24 * 3600 - 5))
    return {"adopted": {**contents.shown(), "at": then, "held": contents.describe()}}


def record(path: Path, entry: dict[str, Any]) -> None:
    path.write_text(json.dumps({"version": 1, "drives": {SERIAL: entry}}))


# --- changes that end otherwise than well (`CHANGES`)

# Each has the tools that its modules call, and what is left when they are over.
# A load cannot reach its call: it asks to be killed by a file where it may write.
KILL = "own=${0%/change/*}; : >/var/tmp/${own##*/}.kill; sleep 20"
LOOK_SECONDS = 0.02
PATIENT_WRITER = {"durawriter": "[ $1 = survey ] || exec sleep 60"}


def reboot(folder: Path) -> None:
    """End what is in progress as a power cut does; the modules then see another boot."""
    from ansible.module_utils.joulerig.drives.host import Host

    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().strip() == "sleep":
                os.kill(int(process), signal.SIGKILL)
    with contextlib.suppress(FileNotFoundError):
        (folder / "left.json").unlink()
    first = Host.boot_id
    Host.boot_id = lambda self: f"{first(self)}, the next"


def adopt(drive: dict[str, Any]) -> None:
    """Make a person's ext4 with files on a drive, and adopt it when it is shown."""
    import joulerig_contents

    store = (
        "mkfs.ext4 -q -F -L THESIS $DEV; mkdir $DIR/mnt; mount $DEV $DIR/mnt; echo 1 >$DIR/mnt/one;"
        " umount $DIR/mnt"
    )
    subprocess.run(["sh", "-ec", store], check=True)
    asked = {"names": ["drive"], "drives": {"drive": drive}}
    seen = answer(joulerig_contents, **asked)["found"]["drive"]["identity"]
    found = answer(joulerig_contents, adopt=seen, **asked)["found"]["drive"]
    assert found["free"] == "adopted", found


def change(
    what: str,
    folder: Path,
    name: str,
    drive: dict[str, Any],
    tried: dict[str, Callable[[], dict[str, Any]]],
) -> None:
    """Let the real modules begin a change, which is cut short or ends, or adopt the drive."""
    fio, mkfs = shutil.which("fio"), shutil.which("mkfs.ext4")
    tools = {
        "mkfs that is killed before it writes": {"mkfs.ext4": KILL},
        "mkfs that is killed while it writes": {
            "mkfs.ext4": f"dd if=/dev/zero of=$DEV bs=1M count=1 conv=fsync; {KILL}"
        },
        "run that is killed under load": {"fio": KILL},
        "precondition that is killed": {"fio": f'{fio} "$@" & sleep 0.7; kill -9 $!; {KILL}'},
        "precondition that is killed before it writes": {"fio": KILL},
        "array that fails before it writes": {"cryptsetup": "exit 1"},
        "array that fails": {"cryptsetup": STAND_INS["cryptsetup"] + "; exit 1"},
    }
    if what == "adoption":
        adopt(drive)
        return
    steps = {
        "mkfs": ["run"], "run": ["run"], "precondition": ["passes"], "array": ["array: crypt"],
        "power-cut campaign": ["power cut: prepare", "power cut: write", "cut", "power cut: survey"],
        "power cut": ["power cut: prepare", "power cut: write", "cut"],
        "bare": ["power cut: prepare of a bare drive", "power cut: write of a bare drive", "cut"],
    }  # fmt: skip
    install(folder / "change", tools.get(what, PATIENT_WRITER))
    words = next(ways for first, ways in steps.items() if what.startswith(first))
    assert mkfs
    with put_first(folder / "change"):
        for step in words:
            if step == "cut":
                reboot(folder)
                continue
            said = attempt(tried[step], name, Path(f"/var/tmp/{folder.name}.kill"))["said"]
            if "killed" in what and "said nothing" not in reason(said):
                raise AssertionError(f"{step}: was not killed: {said}")
            if what not in tools and reason(said):
                raise AssertionError(f"{step}: {said}")
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/comm").read_text().strip() in ("sleep", "fio"):
                os.kill(int(process), signal.SIGKILL)
    time.sleep(0.2)  # until the killed have closed their files


def install(folder: Path, scripts: dict[str, str]) -> None:
    """Put shell scripts in place of tools."""
    folder.mkdir()
    for tool, script in scripts.items():
        (folder / tool).write_text(f"#!/bin/sh\n{script}\n")
        (folder / tool).chmod(0o755)


@contextlib.contextmanager
def put_first(folder: Path) -> Iterator[None]:
    """Put the tools of a folder before others for the modules; the writer is one of them."""
    from ansible.module_utils.joulerig import powercut

    path, program = os.environ["PATH"], powercut.PROGRAM
    os.environ["PATH"] = f"{folder}:{path}"
    powercut.PROGRAM = str(folder / "durawriter")
    try:
        yield
    finally:
        os.environ["PATH"], powercut.PROGRAM = path, program


def main() -> None:
    situation = json.loads(Path(sys.argv[1]).read_text())
    folder, name, other = Path(situation["folder"]), situation["device"], situation["other"]
    import ansible.module_utils.testing  # noqa: F401  each way would import it again
    import joulerig_contents

    from ansible.module_utils.joulerig import paths, powercut
    from ansible.module_utils.joulerig.arrays import md
    from ansible.module_utils.joulerig.drives import usage, wipe_lease
    from ansible.module_utils.joulerig.drives.uses import stillness

    environment = {
        **os.environ, "DEV": f"/dev/{name}", "NAME": name, "OTHER": f"/dev/{other}", "DIR": str(folder),
        "IMG": str(folder / "image"), "ETC": str(folder / "etc"), "SYS": str(folder / "sys"),
    }  # fmt: skip
    os.environ.update(NAME=name, DEV=f"/dev/{name}", DIR=str(folder))
    with looked_at(name) as blank:
        records = {"killed": killed(blank, "fio"), "killed power cut": killed(blank, "durawriter", TOKEN)}

    def make(script: str) -> bool:
        made = subprocess.run(["sh", "-ec", script], env=environment, capture_output=True, text=True)
        if made.returncode:
            print(json.dumps({"not made": made.stderr.strip() or made.stdout.strip()}))
        return not made.returncode

    if not situation["change"] and not make(situation["make"]):
        return
    copy_sys(folder / "sys", {name: SERIAL, other: OTHER}, nvdimm=name)
    if arrange := situation["arrange"]:
        subprocess.run(["sh", "-ec", arrange], env=environment, check=True)
    for key, path in (
        ("SYS", folder / "sys"), ("ETC", folder / "etc"), ("RUN_LOCK", folder / "lock"),
        ("DRIVES", folder / "drives.json"), ("LEFTOVERS", folder / "left.json"),
    ):  # fmt: skip
        setattr(paths, key, str(path))
    usage.WRITER_SECONDS, stillness.PATIENCE_SECONDS = 0.0, 0.2
    tools = folder / "bin"
    install(tools, STAND_INS)
    size = int(Path(f"/sys/block/{name}/size").read_text()) * 512
    namespaces = [{"dev": "namespace0.0", "mode": "raw", "blockdev": name}]
    listing = {"regions": [{"dev": "region0", "size": size, "namespaces": namespaces}]}
    (tools / "ndctl.json").write_text(json.dumps(listing))
    md.check = lambda level, host: None  # what this machine's kernel can do is not at stake
    powercut.PLACE = str(folder / "place")
    rotates = Path(f"/sys/block/{name}/queue/rotational").read_text().strip() == "1"
    interface = "hdd" if rotates else "sata-ssd"
    drive = {"name": "drive", "interface": interface, "serial": SERIAL, "wwn": None, "size_bytes": size}
    drive.update(situation["declared"])
    second = {**drive, "name": "other", "serial": OTHER}
    # An NVDIMM is known by its id alone, and has none of a drive's other marks.
    left_out = {"namespace"} if situation["declared"] or "$SYS" in situation["arrange"] else set()
    tried = dict(ways(drive, second))
    if situation["change"]:
        wipe_lease.CLAIM_SECONDS = 5.0
        change(situation["change"], folder, name, drive, tried)
        if not make(situation["make"]):
            return
    wipe_lease.CLAIM_SECONDS = 0.0
    if situation["look"]:
        tried = {"look": lambda: answer(joulerig_contents, names=["drive"], drives={"drive": drive})}
    elif wanted := situation["ways"]:
        tried = {way: tried[way] for way in wanted}
    tried = {way: act for way, act in tried.items() if way not in left_out}
    found = {}
    with put_first(tools):
        for kind in situation["records"]:
            if kind == "adopted":
                with looked_at(name) as contents:
                    records[kind] = adopted(contents)
            if kind in records:
                record(Path(paths.DRIVES), records[kind])
            tries = {way: attempt(act, name) for way, act in tried.items()}
            found[kind] = {way: {"reason": reason(one["said"]), **one} for way, one in tries.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
