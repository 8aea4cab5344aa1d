# SPDX-License-Identifier: GPL-3.0-or-later
"""Make and mount a file system on a leased drive; take it down again.

Its journal is on another drive if so asked. A definition is {name, type, module, mkfs,
mount_options, external_journal: {make, mkfs, mount_options}}.
"""

import os
import shutil

from ansible.module_utils.joulerig.tools import Failed, Refused, Unable, run

JOURNAL = "{journal}"  # stands for the journal's device in a definition


def known_to_kernel(fstype, module=None):
    """Check whether the kernel has `fstype`, loading its module if need be.

    The module is of that name if no other is given.
    """
    for attempt in (False, True):
        if attempt:
            try:
                run(["modprobe", "--quiet", module or fstype])
            except Failed:
                return False
        with open("/proc/filesystems") as file:
            if fstype in file.read().split():
                return True
    return False


def check(definition):
    """Refuse a file system that this host cannot make or mount."""
    if not known_to_kernel(definition["type"], definition.get("module")):
        raise Unable(f"{definition['name']}: this kernel has no file system {definition['type']!r}")
    journal = definition.get("external_journal") or {}
    for tool in (definition["mkfs"][:1], journal.get("make", [])[:1]):
        if tool and not shutil.which(tool[0]):
            raise Unable(f"{definition['name']}: {tool[0]}: not found on this host")


def _with_journal(definition, words, device):
    """Return `words` of a definition's external journal, its device put in.

    Raises Unable where the definition has none.
    """
    if not definition.get("external_journal"):
        raise Unable(f"{definition['name']}: has no external journal")
    return [word.replace(JOURNAL, device) for word in definition["external_journal"][words]]


def make(lease, definition, journal_lease=None):
    """Run mkfs on the leased drive, after what its journal's leased drive needs.

    Gives the commands that were run: {"mkfs"} and, where there was one, {"make_journal"}. Where a
    definition has no mkfs, mounting makes the file system: no command, but the lease must hold.
    """
    commands, more = {}, []
    if journal_lease:
        more = _with_journal(definition, "mkfs", journal_lease.device())
        if command := _with_journal(definition, "make", journal_lease.device()):
            run(command)
            commands["make_journal"] = command
    device = lease.device()
    commands["mkfs"] = [*definition["mkfs"], *more, device] if definition["mkfs"] else []
    if commands["mkfs"]:
        run(commands["mkfs"])
    return commands


def mount(undo, device, definition, place, journal_device=None):
    """Mount a file system and return the mount options in effect.

    `undo` (an ExitStack) unmounts it.
    """
    os.makedirs(place, exist_ok=True)
    if os.path.ismount(place):  # of a run that was killed: a second mount would hide it, and its drive
        raise Refused(f"{place}: something is mounted there already; umount it")
    options = list(definition["mount_options"])
    if journal_device:
        options += _with_journal(definition, "mount_options", journal_device)
    command = ["mount", "-t", definition["type"]]
    if options:
        command += ["-o", ",".join(options)]
    run([*command, device, place])
    undo.callback(run, ["umount", place])
    with open("/proc/self/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[1] == place:
                return fields[3]
    raise Failed(f"{place}: mounted, but not in /proc/self/mounts")
