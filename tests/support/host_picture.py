# SPDX-License-Identifier: GPL-3.0-or-later
"""A picture of a test host: what two of them differ in was changed in between."""

from __future__ import annotations

import json
from typing import Any

from tests.support.lab_driver import Lab

Picture = dict[str, dict[str, Any]]
# What may differ, and why.
ALLOWED = {
    "modules ": "the kernel loads the modules of file systems and arrays itself when they are used",
    "active units ": "a boot's jobs end, and timers start theirs, in between",
}
CHANGED_BY_RIG = ("chrony.service", "iod.service", "joulerig-kernel-guard.service")
CHANGED_BY_RIG += ("e2scrub_all.timer", "dpkg-db-backup.timer", "smartmontools.service", "fstrim.timer")
OWN_MODULES = {"bfq", "kyber_iosched", "brd", "scsi_debug"}
# Runs on the host. Each part maps names to what can be compared.
SCRIPT = r"""
import hashlib, json, os, stat, subprocess

os.environ["SYSTEMD_BUS_TIMEOUT"] = "300s"  # an emulated host that does other things is slow

def output(*command, check=True):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=check).stdout

def files(*roots):
    found = {}
    for root in roots:
        for folder, folders, names in os.walk(root):
            for path in [folder, *(os.path.join(folder, name) for name in folders + names)]:
                state = os.lstat(path)
                what = ""
                if stat.S_ISLNK(state.st_mode):
                    what = os.readlink(path)
                elif stat.S_ISREG(state.st_mode):
                    with open(path, "rb") as file:
                        what = hashlib.sha256(file.read()).hexdigest()
                found[path] = [stat.filemode(state.st_mode), state.st_uid, state.st_gid, what]
    return found

FORMAT = "${binary:Package} ${Version} ${db:Status-Abbrev}\n"

def pairs(text):
    return {line.split(None, 1)[0]: line.split(None, 1)[1:] for line in text.splitlines() if line.strip()}

names = pairs(output("systemctl", "list-unit-files", "--no-legend", "--no-pager"))
timers = [name for name in names if name.endswith((".timer", ".service")) and "@" not in name]
active = output("systemctl", "is-active", *timers, check=False).split()  # fails where one is not
print(json.dumps({
    "etc": files("/etc"),
    "files": files("/usr/local", "/boot", "/var/lib/joulerig"),
    "kernels": dict.fromkeys(os.listdir("/lib/modules"), ""),
    "unit files": names,
    "active units": dict(zip(timers, active)),
    "modules": dict.fromkeys((line.split()[0] for line in open("/proc/modules")), ""),
    "arguments": {"/proc/cmdline": open("/proc/cmdline").read()},
    "packages": pairs(output("dpkg-query", "--show", "--showformat=" + FORMAT)),
    "dependencies": dict.fromkeys(output("apt-mark", "showauto").split(), ""),
}))
"""


def take_picture(lab: Lab) -> Picture:
    picture: Picture = json.loads(lab.ssh(f"python3 - <<'PICTURE'\n{SCRIPT}\nPICTURE"))
    return picture


def differences(before: Picture, after: Picture) -> dict[str, Any]:
    """What differs, as {"etc /etc/chrony/chrony.conf": [before, after]}."""
    found = {}
    for part in before:
        for name in sorted({*before[part], *after[part]}):
            pair = [picture[part].get(name) for picture in (before, after)]
            if pair[0] != pair[1]:
                found[f"{part} {name}"] = pair
    return found


def left_behind(before: Picture, after: Picture) -> dict[str, Any]:
    """What the rig left on a host that it gave back; as `differences` has it."""
    mine = {f"active units {name}" for name in CHANGED_BY_RIG} | {f"modules {name}" for name in OWN_MODULES}
    return {
        name: pair
        for name, pair in differences(before, after).items()
        if name in mine or not name.startswith(tuple(ALLOWED))
    }
