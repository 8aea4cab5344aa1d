# SPDX-License-Identifier: GPL-3.0-or-later
"""Make and mount a file system on a leased drive; take it down again.

Its journal is on another drive if so asked. A definition is {name, type, module, mkfs,
mkfs_bounded, mount_options, external_journal: {make, mkfs, mount_options}}. What it makes is known
by an identifier that is chosen, and recorded, before. IDENTIFIERS in the definition's commands are
forms of it.
"""

import contextlib
import ctypes
import os
import shutil
import uuid

from ansible.module_utils.joulerig import limits
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable, run

JOURNAL = "{journal}"  # stands for the journal's device in a definition
# Digits of the 32 that each has: JFS's label has room for 16, FAT's volume ID for 8.
IDENTIFIERS = {"{uuid}": 32, "{label}": 16, "{volume_id}": 8}
BLOCK_BYTES, SECTOR_BYTES = 4096, 512
# What a file system of a given size does not give to files: tables, logs, spare segments. ext4 of
# 256 MiB keeps 32 MiB (13 %), XFS of 300 MiB 64 MiB, ext4 of 1 TB 2.5 %.
METADATA_FRACTION, METADATA_BYTES = 0.05, 96 << 20
_libc = ctypes.CDLL(None, use_errno=True)


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


class _Identifier:
    """An identifier chosen for what a command makes. `forms`: those that commands were given."""

    def __init__(self):
        self._chosen = uuid.uuid4()
        self.forms = set()

    def put_into(self, command):
        """Return a command with the identifier in place of IDENTIFIERS."""
        for name, digits in IDENTIFIERS.items():
            text = self._chosen.hex[:digits]
            if any(name in word for word in command):
                self.forms.add(text)
            shown = str(self._chosen) if name == "{uuid}" else text
            command = [word.replace(name, shown) for word in command]
        return command


def check_free(place):
    """Refuse a mount point that is taken: a second mount would hide the first one's drive."""
    if os.path.ismount(place):
        raise Refused(f"{place}: something is mounted there already; umount it")


def check_journal(definition, journal_lease):
    """Refuse an external journal of a file system that can have none."""
    if journal_lease:
        _with_journal(definition, "mkfs", journal_lease.path)


def _bounded(definition, device, use_bytes, pool=()):
    """Return the end of a mkfs command that makes the file system on a device's first bytes.

    `pool`: further devices that it takes. Raises Unable where the definition has no way to.
    """
    if not use_bytes:
        return [device, *pool]
    if pool or not definition.get("mkfs_bounded"):
        raise Unable(f"{definition['name']}: cannot be made smaller than its drive")
    meant = {
        "{device}": device,
        "{bytes}": str(use_bytes),
        "{blocks}": str(use_bytes // BLOCK_BYTES),
        "{sectors}": str(use_bytes // SECTOR_BYTES),
    }
    end = definition["mkfs_bounded"]
    for name, value in meant.items():
        end = [word.replace(name, value) for word in end]
    return end


def make(lease, definition, journal_lease=None, seconds=limits.METADATA.least_seconds, use_bytes=0, pool=()):
    """Run mkfs on the leased drive, after what its journal's leased drive needs.

    Gives the commands that were run: {"mkfs"} and, where there was one, {"make_journal"}. Where a
    definition has no mkfs, mounting makes the file system: no command, but the lease must hold.
    The end of the lease records what is there then as this rig's. `seconds`: after which a command
    counts as hung. `use_bytes`: size of the file system, from the drive's beginning; 0: as large as
    the drive. `pool`: leases of further drives that it takes.
    """
    leases = [one for one in (journal_lease, lease, *pool) if one]
    for one in leases:
        one.check()
    own, of_journal = _Identifier(), _Identifier()
    commands = {}
    end = _bounded(definition, lease.path, use_bytes, [one.path for one in pool])
    more = []
    if journal_lease:
        more = _with_journal(definition, "mkfs", journal_lease.path)
        if command := _with_journal(definition, "make", journal_lease.path):
            commands["make_journal"] = of_journal.put_into(command)
    commands["mkfs"] = own.put_into([*definition["mkfs"], *more, *end]) if definition["mkfs"] else []
    for one in leases:
        # A journal may have the identifier of its file system, as XFS's log does.
        one.begin(*own.forms, *(of_journal.forms if one is journal_lease else ()))
    with contextlib.ExitStack() as lent:
        for one in leases:
            lent.enter_context(one.lent())
        for command in filter(None, commands.values()):
            run(command, timeout=seconds)
    return commands


def mount(undo, lease, definition, place, journal_lease=None, seconds=limits.METADATA.least_seconds, pool=()):
    """Mount the file system of a leased drive and return the mount options in effect.

    `undo` (an ExitStack) unmounts it. The file system has the drive's claim meanwhile. `seconds`:
    after which mounting, or unmounting, counts as hung. `pool`: leases of further drives that it is
    on.
    """
    check_free(place)
    os.makedirs(place, exist_ok=True)
    options = list(definition["mount_options"])
    if journal_lease:
        options += _with_journal(definition, "mount_options", journal_lease.path)
    options += [f"device={one.path}" for one in pool]
    command = ["mount", "-t", definition["type"]]
    if options:
        command += ["-o", ",".join(options)]
    for one in filter(None, (journal_lease, lease, *pool)):
        one.check_same()
        one.lend()
        undo.callback(one.reclaim)
    run([*command, lease.path, place], timeout=seconds)
    undo.callback(run, ["umount", place], timeout=seconds)
    with open("/proc/self/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[1] == place:
                return fields[3]
    raise Failed(f"{place}: mounted, but not in /proc/self/mounts")


def sync(place):
    """Write what the mounted file system has in memory to its drive, and nothing else of the host.

    Raises OSError.
    """
    descriptor = os.open(place, os.O_RDONLY)
    try:
        if _libc.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), place)
    finally:
        os.close(descriptor)


def check_size(definition, place, use_bytes=0):
    """Return the size that a mounted file system has: {"asked": or None, "bytes": for files}.

    Raises Failed where that is not what was asked for, less what metadata take.
    """
    stat = os.statvfs(place)
    found = stat.f_blocks * stat.f_frsize
    least = use_bytes * (1 - METADATA_FRACTION) - METADATA_BYTES
    if use_bytes and not least <= found <= use_bytes:
        raise Failed(
            f"{definition['name']}: was made for {use_bytes} bytes; mounted, it has room for {found} bytes"
        )
    return {"asked": use_bytes or None, "bytes": found}
