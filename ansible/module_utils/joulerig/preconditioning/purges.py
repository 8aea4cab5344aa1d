# SPDX-License-Identifier: GPL-3.0-or-later
"""Have a leased drive forget its content, in a way that it says it can.

Each way has a function that returns why a drive cannot ("" where it can; nothing is changed), and
one that does it. `auto` takes the first one of AUTO that the drive can.

Sources: NVM Express Base Specification 2.0, "Format NVM" and "Sanitize"; NVM Command Set 1.0,
"Identify Namespace"; ATA8-ACS, "Security feature set"; SCSI Block Commands 4, "Logical Block
Provisioning".
"""

from __future__ import annotations

import contextlib
import glob
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible.module_utils.joulerig import limits
from ansible.module_utils.joulerig.drives.commands import ata_password, nvme
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.wipe_lease import Lease
from ansible.module_utils.joulerig.settings import features, places
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable, run

AUTO = ("format", "sanitize", "discard", "unmap", "secure-erase")
# Bytes of Identify Controller, and what they say.
OPTIONAL_COMMANDS, SANITIZES = 256, 328
CAN_FORMAT = 1 << 1
CRYPTO_ERASE, BLOCK_ERASE = 1 << 0, 1 << 1
# Sanitize: its actions, and the states of its log.
ACTIONS = {BLOCK_ERASE: 2, CRYPTO_ERASE: 4}
SANITIZED, SANITIZING, SANITIZE_FAILED, SANITIZED_UNMAPPED = 1, 2, 3, 4
POLL_SECONDS = 1.0
# Bytes of Identify Namespace.
FORMAT_IN_USE, PROTECTION = 26, 29
# Word 128 of IDENTIFY DEVICE.
SECURITY, ERASE_MINUTES = 128, 89
SUPPORTED, ENABLED, LOCKED, FROZEN, EXPIRED = (1 << bit for bit in range(5))
LONGEST_ERASE_MINUTES = 508  # what the word can say is "as long, or longer"
PROVISIONING_PAGE, CAN_UNMAP = 0xB2, 1 << 7  # bit of its byte 5


class Subject(NamedTuple):
    """A leased drive: its lease, host and declaration."""

    lease: Lease
    host: Host
    member: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.lease.name


class NotBegun(Failed):
    """A drive refused a purge that it said it can; nothing of it was changed."""


class Way(NamedTuple):
    cannot: Callable[[Subject], str]
    execute: Callable[[Subject], None]


def choose(
    lease: Lease,
    method: str,
    member: Mapping[str, Any],
    host: Host | None = None,
    refused: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return how a drive is purged: {method, passed_over}. Nothing is changed.

    `method`: "auto", or a way; `passed_over`: why it is none of those before it, by way; `refused`:
    ways that are passed over from the start, and why. Raises
    Unable, with the reasons, where the drive cannot; Refused where another namespace would be
    destroyed as well.
    """
    if method not in ("auto", *WAYS):
        raise Failed(f"purge: {method!r} is unknown; allowed: auto, {', '.join(WAYS)}")
    subject = Subject(lease, host or Host(), member)
    if method != "auto":
        if why := WAYS[method].cannot(subject):
            raise Unable(f"{lease.path}: {method}: {why}")
        return {"method": method, "passed_over": {}}
    passed_over = dict(refused or {})
    for one in AUTO:
        if one in passed_over:
            continue
        try:
            why = WAYS[one].cannot(subject)
        except Refused as refusal:
            why = str(refusal)
        if not why:
            return {"method": one, "passed_over": passed_over}
        passed_over[one] = why
    reasons = "; ".join(f"{one}: {why}" for one, why in passed_over.items())
    raise Unable(f"{lease.path}: cannot be purged: {reasons}")


def purge(
    lease: Lease, method: str, chosen: dict[str, Any], member: Mapping[str, Any], host: Host | None = None
) -> None:
    """Purge a drive in the way that `choose` returned for `method`.

    Where "auto" chose a way that the drive refuses after all, `chosen` becomes the next one. Raises
    Failed.
    """
    while True:
        lease.check_same()
        try:
            WAYS[chosen["method"]].execute(Subject(lease, host or Host(), member))
        except NotBegun as refusal:
            if method != "auto":
                raise
            refused = {**chosen["passed_over"], chosen["method"]: str(refusal)}
            chosen.update(choose(lease, method, member, host, refused))
        else:
            lease.check_same()  # still the drive that it was, and as large
            return


def _seconds(subject: Subject) -> float:
    return limits.seconds([subject.member], limits.PURGE)


# --------------------------------------------------------------- discard, unmap


def _cannot_discard(subject: Subject) -> str:
    most = subject.host.read(f"{subject.host.sys}/block/{subject.name}/queue/discard_max_bytes")
    return "the kernel cannot: the drive, or its adapter, does not say that it can" if most == "0" else ""


def _discard(subject: Subject) -> None:
    run(["blkdiscard", "--force", subject.lease.path], timeout=_seconds(subject))


def _provisioning(subject: Subject) -> str | None:
    """Return the path of how the kernel discards blocks of a SCSI disk; None of any other drive."""
    pattern = f"{subject.host.sys}/block/{subject.name}/device/scsi_disk/*/provisioning_mode"
    return next(iter(glob.glob(pattern)), None)


def _cannot_unmap(subject: Subject) -> str:
    if not _provisioning(subject):
        return "is no SCSI disk"
    try:
        page = subject.host.calls.scsi_page(subject.lease.descriptor, PROVISIONING_PAGE)
    except OSError as error:
        return f"does not say whether it has UNMAP: {error}"
    return "" if len(page) > 5 and page[5] & CAN_UNMAP else "has no UNMAP (SCSI)"


def _unmap(subject: Subject) -> None:
    """Discard by UNMAP, of which the kernel may have made no use, and put its choice back."""
    path = _provisioning(subject)
    assert path is not None
    before = subject.host.require(path)
    with open(path, "w") as file:
        file.write("unmap")
    try:
        _discard(subject)
    finally:
        with open(path, "w") as file:
            file.write(before)


# ------------------------------------------------------------------------- NVMe


def _controller(subject: Subject) -> bytes | str:
    """Return what an NVMe drive's controller says of itself, or why there is nothing."""
    if not subject.name.startswith("nvme"):
        return "is no NVMe drive"
    try:
        return subject.host.calls.nvme_controller(subject.lease.descriptor)
    except OSError as error:
        return f"gives no answer: {error}"


def _cannot_format(subject: Subject) -> str:
    controller = _controller(subject)
    if isinstance(controller, str):
        return controller
    (commands,) = struct.unpack_from("<H", controller, OPTIONAL_COMMANDS)
    if not commands & CAN_FORMAT:
        return "the drive has no such command"
    subject.lease.check_format()
    return ""


def _format(subject: Subject) -> None:
    """Format a namespace as it is: with its block size, its metadata and its protection."""
    namespace = subject.host.calls.nvme_namespace(subject.lease.descriptor)
    in_use, protection = namespace[FORMAT_IN_USE], namespace[PROTECTION]
    number = in_use & 0xF | in_use >> 1 & 0x30
    kept = [
        f"--lbaf={number}",
        f"--ms={in_use >> 4 & 1}",
        f"--pi={protection & 7}",
        f"--pil={protection >> 3 & 1}",
    ]
    patience = f"--timeout={round(_seconds(subject) * 1000)}"  # nvme-cli's own: else it gives up after 600 s
    run(
        ["nvme", "format", subject.lease.path, "--force", "--ses=0", *kept, patience],
        timeout=_seconds(subject),
    )


def _sanitizes(controller: bytes) -> int:
    (can,) = struct.unpack_from("<I", controller, SANITIZES)
    return int(can)


def _cannot_sanitize(subject: Subject) -> str:
    controller = _controller(subject)
    if isinstance(controller, str):
        return controller
    if not any(_sanitizes(controller) & action for action in ACTIONS):
        return "the drive has neither block erase nor crypto erase"
    subject.lease.check_sanitize()
    return ""


def _sanitize(subject: Subject) -> None:
    """Erase all blocks, or their key, and wait for the end: the drive goes on whatever happens."""
    controller = subject.host.calls.nvme_controller(subject.lease.descriptor)
    action = next(number for bit, number in ACTIONS.items() if _sanitizes(controller) & bit)
    end = time.monotonic() + limits.seconds([subject.member], limits.WHOLE)
    try:
        # By the leased descriptor: the fence has no node of the controller, as nvme-cli needs it.
        subject.host.calls.sanitize(subject.lease.descriptor, action)
    except nvme.StatusError as error:
        raise NotBegun(f"{subject.lease.path}: sanitize: the drive refuses it: {error}") from None
    except OSError as error:
        raise Failed(f"{subject.lease.path}: sanitize: {error}") from None
    while (state := subject.host.calls.sanitize_state(subject.lease.descriptor)) == SANITIZING:
        if time.monotonic() >= end:
            raise Failed(f"{subject.lease.path}: sanitize: is still in progress; the drive goes on with it")
        time.sleep(POLL_SECONDS)
    if state not in (SANITIZED, SANITIZED_UNMAPPED):
        raise Failed(f"{subject.lease.path}: sanitize: ended in state {state}; 'nvme sanitize-log' shows it")


# -------------------------------------------------------------------------- ATA


def _cannot_secure_erase(subject: Subject) -> str:
    if not places.is_ata(subject.host, subject.name):
        return "is no ATA disk"
    try:
        words = features.ata_words(subject.host.calls.ata_identity(subject.lease.descriptor))
    except OSError as error:
        return f"gives no answer: {error}"
    return security_problem(words[SECURITY])


def security_problem(state: int) -> str:
    """Return why a disk whose security (word 128) is so cannot be erased; "" where it can."""
    if not state & SUPPORTED:
        return "the disk has no security feature set"
    if state & FROZEN:
        return (
            "its security is frozen, as firmware leaves it at boot: cut the disk's power and restore it, or"
            " suspend the host and wake it"
        )
    if state & LOCKED:
        return "is locked by a password: 'hdparm --security-unlock PASSWORD' with the one that it has"
    if state & ENABLED:
        return "has a password: 'hdparm --security-disable PASSWORD' with the one that it has"
    return "its attempts at a password are used up: cut its power and restore it" if state & EXPIRED else ""


def _secure_erase(subject: Subject) -> None:
    """Set a password, and have the disk erase itself, which takes the password away again."""
    calls, descriptor, serial = subject.host.calls, subject.lease.descriptor, subject.member["serial"]
    words = features.ata_words(calls.ata_identity(descriptor))
    minutes = _erase_minutes(words[ERASE_MINUTES])
    longest = max(_seconds(subject), 2 * 60.0 * minutes)
    ata_password.note(serial)
    try:
        calls.set_ata_password(descriptor, ata_password.PASSWORD)
        calls.erase_ata(descriptor, ata_password.PASSWORD, longest)
    except OSError as error:
        with contextlib.suppress(Refused):  # the next lease tries again
            ata_password.take_away("", subject.lease.path, descriptor, serial, calls)
        way = ata_password.explain(subject.member["name"], subject.lease.path, ata_password.PASSWORD)
        left = f"; {way}" if serial in ata_password.noted() else ""
        raise Failed(f"{subject.lease.path}: secure erase: {error}{left}") from None
    if features.ata_words(calls.ata_identity(descriptor))[SECURITY] & ENABLED:
        name = subject.member["name"]
        raise Failed(ata_password.explain(name, subject.lease.path, ata_password.PASSWORD))
    ata_password.forget(serial)


def _erase_minutes(word: int) -> int:
    """Return the minutes that a disk says its erase takes: in a byte, or in 15 bits with a flag."""
    units = word & 0x7FFF if word & 1 << 15 else word & 0xFF
    return 2 * units or LONGEST_ERASE_MINUTES


WAYS: Mapping[str, Way] = {
    "discard": Way(_cannot_discard, _discard),
    "unmap": Way(_cannot_unmap, _unmap),
    "format": Way(_cannot_format, _format),
    "sanitize": Way(_cannot_sanitize, _sanitize),
    "secure-erase": Way(_cannot_secure_erase, _secure_erase),
}
