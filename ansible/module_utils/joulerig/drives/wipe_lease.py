# SPDX-License-Identifier: GPL-3.0-or-later
"""The wipe lease: an open device, and the only way to a destructive step.

A lease is taken for one drive, by its identity, and held until everything is put back. While it is
held the device is open, so that the kernel gives neither its number nor its name to another disk,
and claimed exclusively, so that no file system, array or other claimant can have it. A tool that
makes a claim itself, as mkfs and mount do, gets the claim lent (`lent`).
"""

from __future__ import annotations

import contextlib
import time

from ansible.module_utils.joulerig.drives import contents, identity, usage
from ansible.module_utils.joulerig.drives.commands import ata_password
from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.ownership import Ownership
from ansible.module_utils.joulerig.drives.uses import stillness
from ansible.module_utils.joulerig.drives.writers import UNMARKED
from ansible.module_utils.joulerig.tools import Failed, Refused

# What a killed run had mounted or open is given up by the kernel a moment after its processes end.
CLAIM_SECONDS = 5.0


class Lease:
    """The right to change one device; a context manager that holds it open.

    `identify` gives the device's kernel name, or raises Refused. `key`: under which the host's
    record of drives has it; `known`: what is on it by the controller's record; `blank`: whether a
    blank one may be wiped though no person released it. Made by `lease_drive` and `lease_array`.
    """

    def __init__(self, what, identify, key, known, host, noted, blank=True):
        self.what = what
        self.noted = noted  # by which `end_change` takes it again
        self.identity = None  # of what was made on it
        self._identify, self._key, self._host = identify, key, host
        self._ownership = Ownership(what, key, known, blank=blank)
        self._descriptor = self._claim = None
        self._changing = False  # a change was begun; what is there has to be recorded at the end

    def __enter__(self):
        """Take the lease. Raises Refused, and nothing is touched."""
        _take([self])
        return self

    def __exit__(self, *_):
        try:
            # Whatever has the claim now, a writer or an array, goes on changing the drive.
            if self._changing and self._is_held() and (self._claim is not None or self._try_claim()):
                self.made()
        finally:
            self._close()

    def look(self):
        """Return what is on the device and whether it may be wiped; nothing is held afterwards.

        {device, holds, details, identity, free, problem}: `holds` in words, `details` more of
        them, `identity` by which the content is known again to be what was shown, `free` why it may
        be wiped (empty: it may not), `problem` why it is refused in any case. Raises Refused where
        it cannot be found or read.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            self._open()
            ata_password.refuse_locked(self.what, self.path, self._descriptor, self._key, self._host.calls)
            found, problem = self.contents(), ""
            try:
                usage.check_unused(self.what, self.name, self._host)
                usage.check_unopened([(self.what, self.name)], self._host)
                usage.check_unnamed([(self.what, self.name, found.marks)], self._host)
                self._check_unreserved()
            except Refused as refusal:
                problem = str(refusal)
            return {
                "device": self.path,
                "holds": found.describe(),
                "identity": found.shown(),
                "details": contents.details(self.path, self._descriptor, self._host.calls),
                "free": self._ownership.reason(found, self._boot_id),
                "problem": problem,
            }

    def adopt(self, seen):
        """Release the device for wiping, by a person who saw its content (`identity` of a look).

        Raises Refused where it holds something else by now, or is in use.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self._close)
            self._take()
            if self._found.shown() != seen:
                now = self._found.describe()
                raise Refused(f"{self.what}: {self.path} holds {now} now: not what was shown")
            _watch([self])
            self._ownership.adopt(self._found)

    def _take(self):
        """Open the device, find it unused, claim it, and look at what is on it."""
        self._open()
        usage.check_unused(self.what, self.name, self._host)
        self._take_claim()
        self._check_unreserved()
        ata_password.take_away(self.what, self.path, self._descriptor, self._key, self._host.calls)
        self._found = self.contents()

    def _open(self):
        """Open the device that is found now, and see that the open one is the one that was found.

        From here on its number is pinned: what the kernel says of the number, it says of this very
        disk.
        """
        calls, host = self._host.calls, self._host
        self._boot_id = host.boot_id()
        self.name = self._identify()
        self.number = host.number(self.name)
        self.path = f"{host.dev}/{self.name}"
        try:
            self._descriptor = calls.open(self.path)
        except OSError as error:
            raise Refused(f"{self.what}: {self.path} cannot be opened: {error.strerror}") from None
        self.check_same()

    def check_same(self):
        """Check that the open device is still the declared drive, and this still the same boot.

        What the open device says comes first, what the system says of its number last. Raises
        Refused.
        """
        host, calls = self._host, self._host.calls
        size, sequence = calls.size_bytes(self._descriptor), calls.disk_sequence(self._descriptor)
        if (now := calls.number(self._descriptor)) != self.number:
            raise Refused(f"{self.what}: {self.path} is device {now}; {self.name} is {self.number}")
        name = self._identify()
        if (name, host.number(name), host.named(self.number)) != (self.name, self.number, name):
            raise Refused(f"{self.what}: /dev/{name} is not the device that the wipe lease was taken for")
        if size != host.size_bytes(name):
            raise Refused(f"{self.what}: {self.path} has {size} bytes, {name} {host.size_bytes(name)}")
        now = host.disk_sequence(name)
        if now != sequence and None not in (now, sequence):
            raise Refused(
                f"{self.what}: {self.path} is disk number {now} of this boot; the wipe lease was taken for"
                f" number {sequence}: it was removed, or another one came"
            )
        if host.boot_id() != self._boot_id:
            raise Refused(f"{self.what}: the host has been rebooted since the wipe lease was taken")

    def _try_claim(self):
        """Take the claim if it is free; return whether it was. Raises Refused."""
        try:
            self._take_claim(0.0)
        except Refused:
            return False
        return True

    def _take_claim(self, seconds=None):
        end = time.monotonic() + (CLAIM_SECONDS if seconds is None else seconds)
        while self._claim is None:
            try:
                self._claim = self._host.calls.claim(self.path)
            except OSError as error:
                if time.monotonic() >= end:
                    raise Refused(
                        f"{self.what}: {self.path} cannot be opened exclusively: {error.strerror}"
                    ) from None
                time.sleep(0.1)
        if (now := self._host.calls.number(self._claim)) != self.number:
            raise Refused(f"{self.what}: {self.path} is device {now}; {self.name} is {self.number}")

    def _check_unreserved(self):
        try:
            held = self._host.calls.reservation(self._descriptor, self.name)
        except OSError as error:
            raise Refused(
                f"{self.what}: {self.path} does not say whether another host has reserved it: {error}"
            ) from None
        if held:
            raise Refused(f"{self.what}: {self.path} is reserved by another host: {held}")

    def check_format(self):
        """Refuse a drive whose format would destroy another namespace as well. Raises Refused."""
        self._check_reach("format", self._host.calls.format_reaches)

    def check_sanitize(self):
        """Refuse a drive that has another namespace: sanitizing destroys all. Raises Refused."""
        self._check_reach("sanitize", self._host.calls.nvme_namespaces)

    def _check_reach(self, what, reaches):
        try:
            reached = reaches(self._descriptor)
        except OSError as error:
            raise Refused(f"{self.what}: {self.path} does not say what a {what} destroys: {error}") from None
        if len(reached) > 1:
            others = ", ".join(map(str, reached))
            raise Refused(
                f"{self.what}: {self.path}: a {what} destroys all namespaces: {others}; use discard"
            )

    def _is_held(self):
        return self._descriptor is not None  # else a tool failed that had the device `closed`

    def _close(self):
        for descriptor in (self._claim, self._descriptor):
            if descriptor is not None:
                self._host.calls.close(descriptor)
        self._claim = self._descriptor = None

    # ------------------------------------------------- what holders do with it

    @property
    def descriptor(self):
        """The open device, for reading; inherited by no program unless it is passed on."""
        return self._descriptor

    def contents(self):
        """Return what is on the device now (Contents)."""
        calls, host = self._host.calls, self._host
        rotates = host.read(f"{host.sys}/block/{self.name}/queue/rotational") != "0"
        size = calls.size_bytes(self._descriptor)
        return contents.look(self.what, self.path, self._descriptor, size, rotates, calls)

    def check(self):
        """Check again that the device is the declared one and unused. Raises Refused."""
        self.check_same()
        usage.check_unused(self.what, self.name, self._host, claimed=True)

    def check_left(self, known):
        """Refuse a device that does not hold what an earlier call left there.

        `known`: the identity of that; None: not known. Between two calls the host is free for
        another controller's.
        """
        if known is not None and self._found.identity() != known:
            raise Refused(
                f"{self.what}: {self.path} holds {self._found.describe()}: not what preconditioning and the"
                " runs since left there; another campaign changed it"
            )

    def is_open(self):
        """Check whether a change was begun of which no end is recorded."""
        return self._ownership.is_open()

    def begin(self, *to, writer=UNMARKED):
        """Record, before the first change, what the device is changed to.

        `to`: the identifiers that the new content gets, and no other has; `writer`: of content
        without a signature.
        """
        self._begin(to, writer, None)

    def begin_power_cuts(self):
        """Record that power cuts may tear the device's file system, which keeps its identifier."""
        if self._changing:  # since the cut before, of which it may be torn already
            return
        named = [one for one in self._found.signatures if one["uuid"]]
        offset = named[0]["offset"] if named else None
        self._begin(self._found.identifiers, UNMARKED, offset)

    def _begin(self, to, writer, torn_at):
        self._ownership.begin(to, self._found, self._boot_id, writer, torn_at)
        self._changing = True

    @contextlib.contextmanager
    def lent(self):
        """Lend the claim to a tool that makes one itself, and take it again afterwards.

        The device is checked first, and what the tool wrote is on it afterwards. Raises Refused,
        or Failed where another claimant has it then.
        """
        self.check_same()
        self.lend()
        try:
            yield self.path
        finally:
            self.reclaim()

    @contextlib.contextmanager
    def closed(self):
        """Close the device for a tool that gives the drive another one; open that afterwards.

        The change is recorded before, and the content of the new device at the end of the lease.
        Where the tool fails, the change stays without an end. Raises Refused, also where the new
        device is in use.
        """
        self.check_same()
        self.begin()
        self._close()
        yield
        self._open()
        self._take_claim()

    def lend(self):
        """Give up the claim: of a file system that is mounted until `reclaim`."""
        if self._claim is not None:
            self._host.calls.close(self._claim)
            self._claim = None

    def reclaim(self):
        """Take the claim again. Raises Failed where another claimant has the device."""
        self._host.calls.flush(self._descriptor)
        try:
            self._take_claim()
        except Refused as taken:
            raise Failed(f"during the work on it: {taken}") from None

    def made(self):
        """Record what is on the device now as this rig's: the end of what was begun."""
        # What was read before is cached as long as the device is open. A format, as other commands
        # to the drive itself, changes the content behind the cache's back.
        self._host.calls.flush(self._descriptor)
        self.identity = self._ownership.made(self.contents())
        self._changing = False


@contextlib.contextmanager
def together(leases):
    """Hold several leases, whose drives are watched in the same second. Raises Refused."""
    _take(leases)
    with contextlib.ExitStack() as held:
        for lease in leases:
            held.push(lease)
        yield leases


def _take(leases):
    """Take leases, all or none."""
    with contextlib.ExitStack() as undo:
        for lease in leases:
            undo.callback(lease._close)
        for lease in leases:
            lease._take()
            lease._ownership.check(lease.path, lease._found, lease._boot_id)
        _watch(leases)
        for lease in leases:
            lease.check_same()
            # What an earlier call left without an end is known now: this lease ends it.
            lease._changing = lease.is_open()
        undo.pop_all()


def _watch(leases):
    """See that nothing uses claimed devices, and that nothing moves on them for a second."""
    drives, host = [(lease.what, lease.name) for lease in leases], leases[0]._host

    def look_around():
        usage.check_unopened(drives, host)
        usage.check_unnamed([(lease.what, lease.name, lease._found.marks) for lease in leases], host)

    stillness.watch(drives, host, look_around)


def lease_drive(spec, host=None):
    """Return a wipe lease for the declared drive `spec`, to be entered."""
    host = host or Host()
    known = spec.get("known")
    blank = spec.get("wipe_blank", True)
    noted = {"drive": spec}
    return Lease(
        spec["name"], lambda: identity.find(spec, host), spec["serial"], known, host, noted, blank=blank
    )


def lease_array(name, members, host=None):
    """Return a wipe lease for an md array made of exactly the declared drives `members`."""
    host = host or Host()
    key = f"array {name} of " + " ".join(sorted(spec["serial"] for spec in members))
    noted = {"array": name, "members": members}
    return Lease(name, lambda: identity.check_array(name, members, host), key, None, host, noted)


def is_noted(noted):
    """Check that something is by which `end_change` takes a lease again."""
    if not isinstance(noted, dict) or set(noted) not in ({"drive"}, {"array", "members"}):
        return False
    members = noted.get("members", [noted.get("drive")])
    return (
        isinstance(noted.get("array", ""), str) and isinstance(members, list) and all(map(_is_spec, members))
    )


def _is_spec(spec):
    return (
        isinstance(spec, dict)
        and all(isinstance(spec.get(key), str) for key in ("name", "interface", "serial"))
        and isinstance(spec.get("wwn", ""), (str, type(None)))
        and isinstance(spec.get("size_bytes"), int)
    )


def end_change(noted, host=None):
    """Record what a killed call left on a device as the rig's, if it is; return that in words.

    `noted`: of its lease. What may be of another is left alone, and refused when it is to be
    changed.
    """
    if "array" in noted:
        lease = lease_array(noted["array"], noted["members"], host)
    else:
        lease = lease_drive(noted["drive"], host)
    if not lease.is_open():
        return ""
    try:
        with lease:
            pass
    except (Refused, Failed, OSError):
        return ""
    return f"what a killed call left on {lease.what} recorded"
