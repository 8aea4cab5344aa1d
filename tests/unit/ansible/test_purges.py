# SPDX-License-Identifier: GPL-3.0-or-later
"""How a drive is purged: what each says that it can, and what it is sent."""

import os
import stat
import struct
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import fake_host  # noqa: F401  finds the host's library

from ansible.module_utils.joulerig import fence, limits, paths  # isort: skip
from ansible.module_utils.joulerig.drives import wipe_lease  # isort: skip
from ansible.module_utils.joulerig.drives.commands import ata_password  # isort: skip
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


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """The rig's files on the host are in a folder of the test's."""
    monkeypatch.setattr(paths, "STATE", str(tmp_path / "state"))
    monkeypatch.setattr(paths, "RUN_LOCK", str(tmp_path / "run.lock"))


def leased(host, member):
    return wipe_lease.lease_drive(member, host.system())


def chosen(host, member, method="auto"):
    with leased(host, {**member}) as lease:
        return purges.choose(lease, method, member, host.system())


def purge(host, member, method):
    with leased(host, member) as lease:
        found = purges.choose(lease, method, member, host.system())
        purges.purge(lease, method, found, member, host.system())
        return found


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
def test_a_sanitize_is_waited_for(nvme, monkeypatch, says, action, last):
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=says)
    nvme.calls.sanitizing = [2, 2, last]
    monkeypatch.setattr(purges, "POLL_SECONDS", 0.001)
    purge(nvme, NVME, "sanitize")
    assert nvme.calls.sanitized == [("nvme0n1", action)]
    assert nvme.calls.sanitizing == []


def test_a_sanitize_that_failed(nvme):
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=1 << 1)
    nvme.calls.sanitizing = [3]
    with pytest.raises(Failed, match="sanitize: ended in state 3"):
        purge(nvme, NVME, "sanitize")


def test_a_sanitize_that_the_drive_refuses_is_followed_by_the_next_way_of_auto(nvme, tool):
    nvme.calls.pages["nvme0n1"] = controller(formats=False, sanitizes=1 << 1)
    nvme.calls.sanitize_status = 0x11D  # sanitize prohibited while persistent memory is enabled
    calls = tool("blkdiscard", "")
    found = purge(nvme, NVME, "auto")
    assert found["method"] == "discard"
    assert "sanitize: the drive refuses it: NVMe status 0x11d" in found["passed_over"]["sanitize"]
    assert calls.read_text() == f"--force {nvme.dev}/nvme0n1\n"


def test_a_sanitize_that_was_asked_for_and_is_refused_is_no_other_purge(nvme, tool):
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=1 << 1)
    nvme.calls.sanitize_status = 0x11D
    calls = tool("blkdiscard", "")
    with pytest.raises(Failed, match="sanitize: the drive refuses it: NVMe status 0x11d"):
        purge(nvme, NVME, "sanitize")
    assert not calls.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount namespace")
@pytest.mark.parametrize("method", ["format", "sanitize", "discard"])
def test_a_purge_is_executed_inside_the_fence(nvme, tool, method):
    """Its /dev has the leased drive, and no node of the controller."""
    nvme.calls.pages["nvme0n1"] = controller(sanitizes=1 << 1)
    for name in fence.CHARACTER_DEVICES:
        os.mknod(nvme.dev / name, stat.S_IFCHR | 0o666, os.stat(f"/dev/{name}").st_rdev)
    (nvme.dev / "nvme0").touch()
    there = 'for word in "$@"; do case "$word" in /*) test -b "$word" || exit 9 ;; esac; done'
    calls = [tool(name, there) for name in ("nvme", "blkdiscard")]
    with leased(nvme, NVME) as lease:
        found = purges.choose(lease, method, NVME, nvme.system())
        child = os.fork()
        if not child:
            code = 1
            try:
                fence.enter({lease.path: "7:250"}, {}, str(nvme.dev))
                assert not (nvme.dev / "nvme0").exists()
                purges.purge(lease, method, found, NVME, nvme.system())
                code = 0 if calls[0].exists() or calls[1].exists() or nvme.calls.sanitized else 2
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0


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
    assert ata_password.noted() == {}


def test_a_secure_erase_that_the_disk_refuses_leaves_no_password(sata):
    sata.calls.refused.add((0xF4, 0))
    with pytest.raises(Failed, match=r"secure erase: .*0xf4: refused \(SCSI status 0x2\)$"):
        purge(sata, SATA, "secure-erase")
    assert [command for _, command, _, _ in sata.calls.orders] == [0xF1, 0xF4, 0xF6]
    assert security(sata) == SUPPORTED
    assert ata_password.noted() == {}


def security(host) -> int:
    return struct.unpack("<256H", host.calls.pages["sda"][0])[128]


def kill_at(host, monkeypatch, command):
    """End a secure erase as SIGKILL does, before or in a command to the disk."""

    class Killed(BaseException):
        pass

    real = host.calls._secure

    def die(descriptor, number, enabled):
        if number == command:
            raise Killed
        real(descriptor, number, enabled)

    with monkeypatch.context() as patch:
        patch.setattr(host.calls, "_secure", die)
        with pytest.raises(Killed):
            purge(host, SATA, "secure-erase")
    host.calls.orders.clear()


@pytest.mark.parametrize(
    ("killed_at", "power_was_lost", "orders"),
    [(0xF1, False, []), (0xF4, False, [0xF6]), (0xF4, True, [0xF2, 0xF6])],
)
def test_the_password_of_a_killed_erase_is_taken_away_by_the_next_lease(
    sata, monkeypatch, killed_at, power_was_lost, orders
):
    kill_at(sata, monkeypatch, killed_at)
    assert ata_password.noted() == {"SA-1": "joulerig"}  # in a file that outlives a boot
    if power_was_lost:
        sata.calls.pages["sda"] = identity(SUPPORTED | ENABLED | LOCKED)
    with leased(sata, SATA):
        pass
    assert [command for _, command, _, _ in sata.calls.orders] == orders
    assert security(sata) == SUPPORTED
    assert ata_password.noted() == {}


@pytest.mark.parametrize(("state", "refused"), [(ENABLED, 0xF6), (ENABLED | LOCKED, 0xF2)])
def test_a_password_that_cannot_be_taken_away_is_named_with_the_way_out(sata, monkeypatch, state, refused):
    kill_at(sata, monkeypatch, 0xF4)
    sata.calls.pages["sda"] = identity(SUPPORTED | FROZEN | state)
    sata.calls.refused.add((refused, 0))
    path = f"{sata.dev}/sda"
    with pytest.raises(Refused) as raised, leased(sata, SATA):
        pass
    assert str(raised.value).startswith(
        f"slow: {path} has the password 'joulerig' of a secure erase that did not end:"
        f" 'hdparm --user-master u --security-unlock joulerig {path}', then"
        f" 'hdparm --user-master u --security-disable joulerig {path}'; where its security is frozen, cut"
    )
    assert ata_password.noted() == {"SA-1": "joulerig"}


def test_a_look_names_the_password_and_changes_nothing(sata, monkeypatch):
    kill_at(sata, monkeypatch, 0xF4)
    sata.calls.pages["sda"] = identity(SUPPORTED | ENABLED | LOCKED)
    with pytest.raises(Refused, match=r"has the password 'joulerig'.*a run on it does so itself"):
        leased(sata, SATA).look()
    assert sata.calls.orders == []
    assert ata_password.noted() == {"SA-1": "joulerig"}


def test_the_password_of_a_stranger_is_not_touched(sata, monkeypatch):
    sata.calls.pages["sda"] = identity(SUPPORTED | ENABLED)
    with leased(sata, SATA):
        pass
    ata_password.note("SA-2")
    with leased(sata, SATA):
        pass
    assert sata.calls.orders == []


@pytest.mark.parametrize("text", ["", "[]", '{"SA-1": 7}', "\x00", "[" * 9999])
def test_an_odd_note_of_passwords_is_a_line_with_a_way_out(sata, text):
    sata.put(Path(paths.STATE) / "ata_passwords.json", text)
    with (
        pytest.raises(Refused, match=r"ata_passwords\.json: is not an object.*: remove the file once"),
        leased(sata, SATA),
    ):
        pass


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
