# SPDX-License-Identifier: GPL-3.0-or-later
"""Have every destructive module of a test host try one real block device, in a situation.

    python -m tests.support.hostile_drive SITUATION.json

The device is a loop device, behind a copy of /sys in which it has a serial, as a drive has. The
program runs in private PID and mount namespaces (`unshare`), so that the processes and mounts of
the situation are all that the modules see, and all end with it. It prints, as JSON, what each
module came to and how many bytes were written to the device (and discarded) meanwhile, as the
kernel counted them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ansible.module_utils
from tests.support import ROOT

ansible.module_utils.__path__.append(str(ROOT / "ansible" / "module_utils"))
sys.path.insert(0, str(ROOT / "ansible" / "modules"))

SERIAL, OTHER = "HOSTILE-1", "HOSTILE-2"
CLOCK = {"at_ns": 1, "offset_ns": 0, "error_ns": 1, "exchanges": 1}
EXT4 = {"name": "ext4", "type": "ext4", "mkfs": ["mkfs.ext4", "-q", "-F"], "mount_options": []}
JOURNALED = {
    **EXT4,
    "external_journal": {
        "make": ["mke2fs", "-q", "-F", "-O", "journal_dev", "{journal}"],
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
    "durawriter": "shift $(($# - 1)); dd if=/dev/urandom of=/proc/self/fd/$1 bs=4k count=1 oflag=direct",
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
    for action, filesystem in (("prepare", EXT4), ("write", EXT4), ("write", {}), ("survey", EXT4)):
        name = f"power cut: {action}{' of a bare drive' if not filesystem else ''}"
        yield (
            name,
            lambda action=action, filesystem=filesystem: answer(
                joulerig_powercut, action=action, member=drive, filesystem=filesystem, after=after
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


def attempt(way: Callable[[], dict[str, Any]], device: str) -> dict[str, Any]:
    """Try a way in a separate process; return its answer and the bytes that it wrote.

    `swapped_out`: bytes that the kernel may have written there itself meanwhile.
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


def main() -> None:
    situation = json.loads(Path(sys.argv[1]).read_text())
    folder, name, other = Path(situation["folder"]), situation["device"], situation["other"]
    import joulerig_contents

    from ansible.module_utils.joulerig import paths, powercut
    from ansible.module_utils.joulerig.arrays import md
    from ansible.module_utils.joulerig.drives import usage, wipe_lease

    environment = {
        **os.environ, "DEV": f"/dev/{name}", "NAME": name, "OTHER": f"/dev/{other}", "DIR": str(folder),
        "IMG": str(folder / "image"), "ETC": str(folder / "etc"), "SYS": str(folder / "sys"),
    }  # fmt: skip
    made = subprocess.run(["sh", "-ec", situation["make"]], env=environment, capture_output=True, text=True)
    if made.returncode:
        print(json.dumps({"not made": made.stderr.strip() or made.stdout.strip()}))
        return
    copy_sys(folder / "sys", {name: SERIAL, other: OTHER}, nvdimm=name)
    if arrange := situation["arrange"]:
        subprocess.run(["sh", "-ec", arrange], env=environment, check=True)
    for key, path in (
        ("SYS", folder / "sys"), ("ETC", folder / "etc"), ("RUN_LOCK", folder / "lock"),
        ("DRIVES", folder / "drives.json"), ("LEFTOVERS", folder / "left.json"),
    ):  # fmt: skip
        setattr(paths, key, str(path))
    wipe_lease.CLAIM_SECONDS = usage.WRITER_SECONDS = 0.2
    tools = folder / "bin"
    tools.mkdir()
    for tool, script in STAND_INS.items():
        (tools / tool).write_text(f"#!/bin/sh\n{script}\n")
        (tools / tool).chmod(0o755)
    size = int(Path(f"/sys/block/{name}/size").read_text()) * 512
    namespaces = [{"dev": "namespace0.0", "mode": "raw", "blockdev": name}]
    listing = {"regions": [{"dev": "region0", "size": size, "namespaces": namespaces}]}
    (tools / "ndctl.json").write_text(json.dumps(listing))
    md.check = lambda level, host: None  # what this machine's kernel can do is not at stake
    powercut.PROGRAM, powercut.PLACE = str(tools / "durawriter"), str(folder / "place")
    os.environ.update(PATH=f"{tools}:{os.environ['PATH']}", NAME=name)
    rotates = Path(f"/sys/block/{name}/queue/rotational").read_text().strip() == "1"
    interface = "hdd" if rotates else "sata-ssd"
    drive = {"name": "drive", "interface": interface, "serial": SERIAL, "wwn": None, "size_bytes": size}
    drive.update(situation["declared"])
    second = {**drive, "name": "other", "serial": OTHER}
    # An NVDIMM is known by its id alone, and has none of a drive's other marks.
    left_out = {"namespace"} if situation["declared"] or "$SYS" in situation["arrange"] else set()
    tried = dict(ways(drive, second))
    if situation["look"]:
        tried = {"look": lambda: answer(joulerig_contents, names=["drive"], drives={"drive": drive})}
    found = {way: attempt(act, name) for way, act in tried.items() if way not in left_out}
    print(json.dumps({way: {"reason": reason(one["said"]), **one} for way, one in found.items()}))


if __name__ == "__main__":
    main()
