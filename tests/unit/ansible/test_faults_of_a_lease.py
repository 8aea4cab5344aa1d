# SPDX-License-Identifier: GPL-3.0-or-later
"""The device is exchanged between any two system calls of a lease: mkfs is not reached.

Until the device is open, the kernel may give its name and number to another disk. From then on it
may not, but the drive may be pulled, or turn out to be another one.
"""

import contextlib

import pytest

from ansible.module_utils.joulerig.drives import filesystem, wipe_lease
from ansible.module_utils.joulerig.tools import Failed, Refused
from tests.support.fake_host import FakeCalls

GIB = 1 << 30
SPEC = {"name": "fast", "interface": "nvme", "serial": "SERIAL-A", "wwn": None, "size_bytes": GIB}
ODD = {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mount_options": []}
CALLS = ("open", "claim", "close", "number", "size_bytes", "disk_sequence", "read", "flush")
# In lending the claim to mkfs, its closing is the last call: the drive was checked just before.
LAST = "close"


class Faulty(FakeCalls):
    """Calls, of which the one with number `at` happens just after `fault`."""

    def __init__(self, host, at=None, fault=None):
        super().__init__(host)
        self.made = []
        self._at, self._fault = at, fault
        for name in CALLS:
            setattr(self, name, self._counted(name, getattr(self, name)))

    def _counted(self, name, call):
        def counted(*arguments):
            if len(self.made) == self._at:
                self._fault(self._host)
            self.made.append(name)
            return call(*arguments)

        return counted


def replaced(host):
    """Another drive has the name and the number."""
    host.put((host.sys / "block/nvme0n1").resolve() / "device/serial", "SERIAL-Z\n")


def replaced_by_one_of_the_same_serial(host):
    host.put((host.sys / "block/nvme0n1").resolve() / "diskseq", "8\n")


def renamed(host):
    """The drive has another name, another drive has its name."""
    replaced(host)
    if not (host.sys / "block/nvme9n1").exists():
        host.disk("nvme9n1", "SERIAL-A")


def renumbered(host):
    host.put((host.sys / "block/nvme0n1").resolve() / "dev", "259:99\n")


def pointed_elsewhere(host):
    """The node in /dev leads to another disk."""
    (host.dev / "nvme0n1").unlink(missing_ok=True)
    (host.dev / "nvme0n1").symlink_to(host.dev / "sdb")


def removed(host):
    (host.sys / "block/nvme0n1").unlink(missing_ok=True)
    (host.dev / "nvme0n1").unlink(missing_ok=True)


def rebooted(host):
    host.put(host.proc / "sys/kernel/random/boot_id", "boot-2\n")


def mounted(host):
    host.mount("/dev/nvme0n1", "/mnt", host.number("nvme0n1"))
    host.calls.claimed.add("nvme0n1")


FAULTS = [replaced, replaced_by_one_of_the_same_serial, renamed, renumbered, removed, rebooted]
# What the open device or its claim rules out later: it has its number, and its exclusive opener.
BEFORE_IT_IS_OPEN = [pointed_elsewhere]
BEFORE_IT_IS_CLAIMED = [mounted]


@pytest.fixture
def host(fake, monkeypatch, tool):
    fake.stand_in(monkeypatch)
    monkeypatch.setattr(wipe_lease, "CLAIM_SECONDS", 0.0)
    place = fake.disk("nvme0n1", "SERIAL-A")
    fake.put(place / "diskseq", "7\n")
    fake.disk("sdb", "SPARE-1", vpd=True)
    fake.mkfs = tool("mkfs.odd", "")
    return fake


def make(host, at=None, fault=None):
    """Give the drive a file system, with a fault at one of the calls; return the calls."""
    host.calls = Faulty(host, at, fault)
    # The open descriptor keeps what the kernel said of the disk when it was opened.
    host.calls.disk_sequence = host.calls._counted("disk_sequence", lambda descriptor: 7)
    with contextlib.suppress(Refused, Failed), wipe_lease.lease_drive(SPEC, host.system()) as lease:
        filesystem.make(lease, ODD)
    return host.calls.made


def test_without_a_fault_mkfs_is_reached(host):
    made = make(host)
    assert host.mkfs.read_text() == f"{host.dev}/nvme0n1\n"
    assert made.index("open") < made.index("claim") < len(made)


def until_mkfs(host):
    """Return the calls up to the last one before mkfs, which gives up the claim for it."""
    made = make(host)
    host.mkfs.unlink()
    lent = len(made) - 1 - made[::-1].index("claim")  # it is taken again after mkfs
    return made[: max(at for at in range(lent) if made[at] == LAST)]


@pytest.mark.parametrize(
    "fault", [*FAULTS, *BEFORE_IT_IS_OPEN, *BEFORE_IT_IS_CLAIMED], ids=lambda one: one.__name__
)
def test_a_fault_before_any_call_keeps_mkfs_away(fake, host, fault, tmp_path_factory, monkeypatch, tool):
    calls = until_mkfs(host)
    last = len(calls)
    if fault in BEFORE_IT_IS_OPEN:
        last = calls.index("open") + 1
    if fault in BEFORE_IT_IS_CLAIMED:
        last = calls.index("claim") + 1
    assert last > 0
    for at in range(last):
        other = type(fake)(tmp_path_factory.mktemp("host"))
        other.stand_in(monkeypatch)
        other.put(other.disk("nvme0n1", "SERIAL-A") / "diskseq", "7\n")
        other.disk("sdb", "SPARE-1", vpd=True)
        make(other, at, fault)
        assert not host.mkfs.exists(), f"{fault.__name__} before call {at}, {calls[at]}"


def test_what_is_recorded_at_the_end_is_what_the_drive_holds_and_not_the_cache(host):
    """An NVMe format changes the content without the kernel's knowledge."""
    cached: dict[tuple[int, int], bytes] = {}

    class Cached(FakeCalls):
        content = b"\0"

        def read(self, descriptor, count, offset):
            return cached.setdefault((count, offset), self.content * count)

        def flush(self, descriptor):
            cached.clear()

    host.calls = Cached(host)
    with wipe_lease.lease_drive(SPEC, host.system()) as lease:
        lease.begin()
        Cached.content = b"n"
    made = lease.identity
    cached.clear()
    with wipe_lease.lease_drive(SPEC, host.system()) as again:
        assert again.contents().identity() == made
