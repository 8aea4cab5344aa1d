# SPDX-License-Identifier: GPL-3.0-or-later
"""The password that an ATA disk has while it erases itself, noted on the host before it is set.

A secure erase that is killed, or loses power, leaves a disk that is locked from its next power-on.
The note outlives a boot, as the password does: the next lease of the disk takes the password away,
or is refused with the commands that do.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from typing import TYPE_CHECKING

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes.brief import alone_with
from ansible.module_utils.joulerig.changes.contents import replace
from ansible.module_utils.joulerig.tools import Refused

if TYPE_CHECKING:
    from ansible.module_utils.joulerig.drives.system_calls import SystemCalls

NAME = "ata_passwords.json"  # in the folder of what the rig keeps: passwords by the disk's serial
PASSWORD = "joulerig"
SECURITY, ENABLED, LOCKED = 128, 1 << 1, 1 << 2  # word of IDENTIFY DEVICE, and its bits


def note(serial: str) -> None:
    """Note that a disk is about to get PASSWORD; it is on the host's disk afterwards."""
    with alone_with(NAME):
        _write({**noted(), serial: PASSWORD})


def forget(serial: str) -> None:
    """Drop the note of a disk that has no password any more."""
    with alone_with(NAME):
        left = noted()
        if left.pop(serial, None) is not None:
            _write(left)


def noted() -> dict[str, str]:
    """Return the passwords that disks may have, by serial. Raises Refused for odd content."""
    path = _path()
    try:
        with open(path, errors="replace") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise Refused(
            f"{path}: is not an object of passwords by serial; the rig sets only {PASSWORD!r}: remove the"
            " file once no disk of this host is locked by it"
        )
    return found


def explain(what: str, path: str, password: str) -> str:
    """Return what a disk has, and the way out."""
    return (
        f"{what}: {path} has the password {password!r} of a secure erase that did not end:"
        f" 'hdparm --user-master u --security-unlock {password} {path}', then"
        f" 'hdparm --user-master u --security-disable {password} {path}'; where its security is frozen, cut"
        " its power and restore it first"
    )


def refuse_locked(what: str, path: str, descriptor: int, serial: str, calls: SystemCalls) -> None:
    """Refuse a disk that is locked by a noted password. Raises Refused."""
    password = noted().get(serial)
    if password is None:
        return
    with contextlib.suppress(OSError):  # what cannot be asked is refused when it is read
        if _state(descriptor, calls) & LOCKED:
            raise Refused(explain(what, path, password) + "; a run on it does so itself")


def take_away(what: str, path: str, descriptor: int, serial: str, calls: SystemCalls) -> None:
    """Take a noted password away from a claimed disk. Raises Refused where that fails."""
    password = noted().get(serial)
    if password is None:
        return
    try:
        state = _state(descriptor, calls)
        if state & LOCKED:
            calls.unlock_ata(descriptor, password)
        if state & ENABLED:
            calls.disable_ata_password(descriptor, password)
            state = _state(descriptor, calls)
    except OSError as error:
        raise Refused(f"{explain(what, path, password)} ({error})") from None
    if state & ENABLED:
        raise Refused(explain(what, path, password))
    forget(serial)


def _state(descriptor: int, calls: SystemCalls) -> int:
    (word,) = struct.unpack_from("<H", calls.ata_identity(descriptor), 2 * SECURITY)
    return int(word)


def _path() -> str:
    return os.path.join(paths.STATE, NAME)


def _write(left: dict[str, str]) -> None:
    if left:
        os.makedirs(paths.STATE, mode=0o755, exist_ok=True)
        replace(_path(), json.dumps(left).encode(), 0o600)
    else:
        os.unlink(_path())
