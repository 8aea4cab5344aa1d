# SPDX-License-Identifier: GPL-3.0-or-later
"""Make and mount a file system on a leased drive, and take it down again."""

import os
import shutil

from ansible.module_utils.joulerig.tools import Failed, Refused, run


def known_to_kernel(fstype):
    """Whether the kernel has `fstype`, loading its module if need be."""
    for attempt in (False, True):
        if attempt:
            try:
                run(["modprobe", "--quiet", fstype])
            except Failed:
                return False
        with open("/proc/filesystems") as file:
            if fstype in file.read().split():
                return True
    return False


def check(definition):
    """Refuse a file system that this host cannot make or mount.

    `definition`: {name, type, mkfs, mount_options}.
    """
    if not known_to_kernel(definition["type"]):
        raise Refused(f"{definition['name']}: this kernel has no file system {definition['type']!r}")
    if not shutil.which(definition["mkfs"][0]):
        raise Refused(f"{definition['name']}: {definition['mkfs'][0]}: not found on this host")


def make(lease, definition):
    """mkfs on the leased drive; gives the command that was run."""
    command = [*definition["mkfs"], lease.device()]
    run(command)
    return command


def mount(undo, device, definition, place):
    """Mount; `undo` (an ExitStack) unmounts. Gives the mount options in effect."""
    os.makedirs(place, exist_ok=True)
    if os.path.ismount(place):  # of a run that was killed: a second mount would hide it, and its drive
        raise Refused(f"{place}: something is mounted there already; umount it")
    command = ["mount", "-t", definition["type"]]
    if definition["mount_options"]:
        command += ["-o", ",".join(definition["mount_options"])]
    run([*command, device, place])
    undo.callback(run, ["umount", place])
    with open("/proc/self/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[1] == place:
                return fields[3]
    raise Failed(f"{place}: mounted, but not in /proc/self/mounts")


def drop_caches():
    """Write back and drop the page cache, dentries and inodes through the kernel's interface."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")
