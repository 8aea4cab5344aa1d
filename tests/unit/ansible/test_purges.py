# SPDX-License-Identifier: GPL-3.0-or-later
"""How a drive is purged: what each says that it can, and what it is sent."""

import struct
from types import SimpleNamespace

import pytest

from tests.support import fake_host  # noqa: F401  finds the host's library

from ansible.module_utils.joulerig import limits  # isort: skip
from ansible.module_utils.joulerig.drives import wipe_lease  # isort: skip
from ansible.module_utils.joulerig.preconditioning import purges  # isort: skip
from ansible.module_utils.joulerig.tools import Failed, Refused, Unable  # isort: skip

SIZE = 1 << 30
NVME = {"name": "fast", "interface": "nvme", "serial": "NV-1", "wwn": None, "size_bytes": SIZE}
SATA = {"name": "slow", "interface": "sata-ssd", "serial": "SA-1", "wwn": None, "size_bytes": SIZE}
SUPPORTED, ENABLED, LOCKED, FROZEN, EXPIRED = (1 << bit for bit in range(5))


def controller(*, formats=True, sanitizes=0):
    page = bytearray(4096)
    page[256] = int(formats) << 1
    struct.pack_into("<I", page, 328, sanitizes)
    return bytes(page), bytes(512)


def identity(security, minutes=0):
    words = [0] * 256
    words[128], words[89] = security, minutes
    return (struct.pack("<256H", *words),)


@pytest.fixture
def nvme(fake):
    real = fake.disk("nvme0n1", "NV-1", rotates=False, place="devices/pci0/nvme/nvme0")
    fake.put(real / "queue/discard_max_bytes", "2199023255040\n")
    (real / "device/serial").rename(real.parent / "serial")
    (real / "device").rmdir()
    (real / "device").symlink_to(real.parent)
    fake.calls.pages["nvme0n1"] = controller()
    return fake


@pytest.fixture
def sata(fake):
    real = fake.disk("sda", "SA-1", vpd=True, rotates=False)
    fake.put(real / "device/vendor", "ATA     \n")
    fake.put(real / "queue/discard_max_bytes", "0\n")
    fake.put(real / "device/scsi_disk/0:0:0:0/provisioning_mode", "full\n")
    fake.calls.pages["sda"] = identity(SUPPORTED)
    return fake


def leased(host, member):
    return wipe_lease.lease_drive(member, host.system())


def chosen(host, member, method="auto"):
    with leased(host, {**member}) as lease:
        return purges.choose(lease, method, member, host.system())


def purge(host, member, method):
    with leased(host, member) as lease:
        purges.choose(lease, method, member, host.system())
        purges.purge(lease, method, member, host.system())


# --- NVMe


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ({"formats": True}, "format"),
        ({"formats": False, "sanitizes": 1 << 1}, "sanitize"),
        ({"formats": False, "sanitizes": 1 << 0}, "sanitize"),
        ({"formats": False, "sanitizes": 1 << 2}, "discard"),  # overwriting it is no purge of flash
        ({"formats": False}, "discard"),
    ],
)
def test_the_first_way_that_an_nvme_drive_says_it_can(nvme, says, expected):
    nvme.calls.pages["nvme0n1"] = controller(**says)
    found = chosen(nvme, NVME)
    assert found["method"] == expected
    assert list(found["passed_over"]) == list(purges.AUTO[: purges.AUTO.index(expected)])


def test_another_namespace_is_not_destroyed(nvme):
    nvme.calls.namespaces = [1, 2]
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=1 << 1)
    found = chosen(nvme, NVME)
    assert found["method"] == "discard"
    assert "a format destroys all namespaces: 1, 2" in found["passed_over"]["format"]
    assert "a sanitize destroys all namespaces: 1, 2" in found["passed_over"]["sanitize"]
    for method in ("format", "sanitize"):
        with pytest.raises(Refused, match=f"a {method} destroys all namespaces"):
            chosen(nvme, NVME, method)


def test_a_drive_that_can_do_nothing_says_all_reasons(nvme):
    nvme.calls.pages["nvme0n1"] = controller(formats=False)
    nvme.put((nvme.sys / "block/nvme0n1").resolve() / "queue/discard_max_bytes", "0\n")
    with pytest.raises(Unable, match=r"cannot be purged: format: the drive has no such command; sanitize: .*"
                       r"discard: the kernel cannot.*unmap: is no SCSI disk; secure-erase: is no ATA disk"):  # fmt: skip
        chosen(nvme, NVME)


@pytest.mark.parametrize(
    ("in_use", "protection", "expected"),
    [
        (0x00, 0, "--lbaf=0 --ms=0 --pi=0 --pil=0"),
        (0x01, 0, "--lbaf=1 --ms=0 --pi=0 --pil=0"),
        (0x12, 0x0A, "--lbaf=2 --ms=1 --pi=2 --pil=1"),
        (0x23, 0, "--lbaf=19 --ms=0 --pi=0 --pil=0"),  # more than 16 formats
    ],
)
def test_a_format_keeps_block_size_metadata_and_protection(nvme, tool, in_use, protection, expected):
    page = bytearray(4096)
    page[26], page[29] = in_use, protection
    nvme.calls.formats = bytes(page)
    calls = tool("nvme", "")
    purge(nvme, NVME, "format")
    patience = round(1000 * limits.seconds([NVME], limits.PURGE))
    assert calls.read_text() == f"format {nvme.dev}/nvme0n1 --force --ses=0 {expected} --timeout={patience}\n"


@pytest.mark.parametrize(("says", "action"), [(1 << 1, 2), (1 << 0, 4), (3, 2)])
@pytest.mark.parametrize("last", [1, 4])
def test_a_sanitize_is_waited_for(nvme, tool, monkeypatch, says, action, last):
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=says)
    nvme.calls.sanitizing = [2, 2, last]
    calls = tool("nvme", "")
    monkeypatch.setattr(purges, "POLL_SECONDS", 0.001)
    purge(nvme, NVME, "sanitize")
    assert calls.read_text() == f"sanitize /dev/nvme0 --sanact={action}\n"
    assert nvme.calls.sanitizing == []


def test_a_sanitize_that_failed(nvme, tool):
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=1 << 1)
    nvme.calls.sanitizing = [3]
    tool("nvme", "")
    with pytest.raises(Failed, match="sanitize: ended in state 3"):
        purge(nvme, NVME, "sanitize")


def test_a_drive_of_another_size_after_a_format(nvme, tool):
    size = (nvme.sys / "block/nvme0n1").resolve() / "size"
    tool("nvme", f"echo 8 > {size}")
    with pytest.raises(Refused):
        purge(nvme, NVME, "format")


# --- SATA and SAS


def test_a_disk_that_its_adapter_does_not_let_discard_is_erased(sata):
    found = chosen(sata, SATA)
    assert found["method"] == "secure-erase"
    assert found["passed_over"]["unmap"].startswith("does not say whether it has UNMAP")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SUPPORTED, ""),
        (0, "has no security feature set"),
        (SUPPORTED | FROZEN, "frozen, as firmware leaves it at boot: cut the disk's power"),
        (SUPPORTED | ENABLED | LOCKED, "is locked by a password: 'hdparm --security-unlock"),
        (SUPPORTED | ENABLED, "has a password: 'hdparm --security-disable"),
        (SUPPORTED | EXPIRED, "are used up"),
        (SUPPORTED | ENABLED | LOCKED | FROZEN, "frozen"),
    ],
)
def test_states_of_security_are_explained(state, expected):
    assert expected in purges.security_problem(state)
    assert (purges.security_problem(state) == "") == (expected == "")


def test_a_frozen_disk_is_not_sent_a_password(sata):
    sata.calls.pages["sda"] = identity(SUPPORTED | FROZEN)
    with pytest.raises(Unable, match="secure-erase: its security is frozen"):
        purge(sata, SATA, "secure-erase")
    assert sata.calls.orders == []


def test_a_secure_erase(sata):
    purge(sata, SATA, "secure-erase")
    assert [command for _, command, _, _ in sata.calls.orders] == [0xF1, 0xF4]


def test_a_secure_erase_that_the_disk_refuses_leaves_no_password(sata):
    sata.calls.refused.add((0xF4, 0))
    with pytest.raises(Failed, match=r"secure erase: .*0xf4: refused.*--security-disable joulerig"):
        purge(sata, SATA, "secure-erase")
    assert [command for _, command, _, _ in sata.calls.orders] == [0xF1, 0xF4, 0xF6]
    assert struct.unpack("<256H", sata.calls.pages["sda"][0])[128] == SUPPORTED


@pytest.mark.parametrize(
    ("word", "minutes"), [(0, 508), (1, 2), (254, 508), (0x8000 | 300, 600), (0x8000, 508)]
)
def test_minutes_of_an_erase(sata, monkeypatch, word, minutes):
    sata.calls.pages["sda"] = identity(SUPPORTED, word)
    given = []
    erase = sata.calls.erase_ata
    monkeypatch.setattr(sata.calls, "erase_ata", lambda *p: (given.append(p[2]), erase(*p)))
    purge(sata, SATA, "secure-erase")
    assert given == [max(limits.seconds([SATA], limits.PURGE), 120.0 * minutes)]


@pytest.mark.parametrize(("byte", "can"), [(0x80, True), (0x7F, False)])
def test_unmap_as_the_disk_says(sata, byte, can):
    sata.calls.vital["sda", 0xB2] = bytes([0, 0xB2, 0, 4, 0, byte, 0, 0])
    assert chosen(sata, SATA)["method"] == ("unmap" if can else "secure-erase")


def test_unmap_has_the_kernel_use_it_and_puts_that_back(sata, tool):
    sata.calls.vital["sda", 0xB2] = bytes([0, 0xB2, 0, 4, 0, 0x80, 0, 0])
    mode = (sata.sys / "block/sda").resolve() / "device/scsi_disk/0:0:0:0/provisioning_mode"
    calls = tool("blkdiscard", f"cat {mode} > $0.mode")
    purge(sata, SATA, "unmap")
    assert calls.read_text() == f"--force {sata.dev}/sda\n"
    assert (calls.parent / "bin/blkdiscard.mode").read_text() == "unmap"
    assert mode.read_text() == "full"
    tool("blkdiscard", "exit 1")
    with pytest.raises(Failed):
        purge(sata, SATA, "unmap")
    assert mode.read_text() == "full"


def test_a_way_that_is_none():
    with pytest.raises(Failed, match="purge: 'burn' is unknown; allowed: auto, discard"):
        purges.choose(SimpleNamespace(path="/dev/x"), "burn", NVME)
