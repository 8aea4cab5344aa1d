# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether anything on a host uses a block device or stands upon it."""

import os
import stat

from ansible.module_utils.joulerig.tools import Failed, Refused, run

# Signatures of a part of something bigger: wiping one would tear that apart. Vendors' RAIDs end so,
# too.
MEMBER_ENDINGS = ("_member", "_LUKS", "BitLocker", "bcache", "drbd", "bluestore", "cow", "stratis")


def check_unused(what, name, host):
    """Refuse a device that anything on this host uses or stands upon."""
    numbers = host.numbers(name)
    for number, source, point in host.mounts():
        if number in numbers.values() or os.path.basename(os.path.realpath(source)) in numbers:
            raise Refused(f"{what}: /dev/{name} is mounted at {point}")
        if point in ("/", "/boot", "/usr", "/var", "/home") and name in host.ancestors(number):
            raise Refused(f"{what}: /dev/{name} carries {point}")
    for swap in host.swaps():
        if os.path.basename(os.path.realpath(swap)) in numbers:
            raise Refused(f"{what}: /dev/{name} is in use as swap")
    if holders := host.holders(name):
        raise Refused(f"{what}: /dev/{name} is in use: {holders[0]}")
    parts = sorted(set(numbers) - {name})
    if parts:
        raise Refused(f"{what}: /dev/{name} has partitions ({', '.join(parts)}); a drive under test has none")
    device = f"{host.dev}/{name}"
    for signature in _signatures(what, device):
        if signature.endswith(MEMBER_ENDINGS):
            raise Refused(f"{what}: {device} is marked as {signature}")
    _check_exclusive(what, device)


def _signatures(what, device):
    """List the types of all signatures on a device. blkid reports none where it finds two."""
    try:
        listing = run(["wipefs", "--no-act", "--noheadings", "--output", "TYPE", device], timeout=60)
    except Failed as error:
        raise Refused(f"{what}: {device} cannot be probed: {error}") from None
    return listing.split()


def _check_exclusive(what, device):
    """Refuse a device that the kernel does not let us open exclusively.

    This is the kernel's own word: an exclusive open fails while a file system, md, dm or swap has
    the device.
    """
    try:
        handle = os.open(device, os.O_RDONLY | os.O_EXCL)
    except OSError as error:
        raise Refused(f"{what}: {device} cannot be opened exclusively: {error.strerror}") from None
    try:
        if not stat.S_ISBLK(os.fstat(handle).st_mode):
            raise Refused(f"{what}: {device} is no block device")
    finally:
        os.close(handle)
