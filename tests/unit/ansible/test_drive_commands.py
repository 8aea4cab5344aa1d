# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives answer to commands of their own, by the tables of the standards."""

import ctypes
import errno
import struct

import pytest

from ansible.module_utils.joulerig.drives import health_log
from ansible.module_utils.joulerig.drives.commands import ata, locks, nvme, scsi
from ansible.module_utils.joulerig.drives.system_calls import CALLS
from tests.support import fake_host  # noqa: F401  (it finds our module_utils)

NAMESPACE = 7


def namespace_page(blocks=1 << 21, number=0, formats=((0, 9),), flags=0, protection=0):
    """Identify Namespace: size, the format in use, protection, formats (metadata, shift)."""
    page = bytearray(nvme.PAGE_BYTES)
    struct.pack_into("<Q", page, 0, blocks)
    page[26] = number & 0xF | (number >> 4) << 5 | flags
    page[29] = protection
    for index, (metadata, shift) in enumerate(formats):
        struct.pack_into("<HB", page, 128 + 4 * index, metadata, shift)
    return bytes(page)


@pytest.mark.parametrize(
    ("given", "block_bytes"),
    [
        ({}, 512),
        ({"number": 1, "formats": ((0, 9), (0, 12))}, 4096),
        ({"formats": ((8, 12),), "protection": 1}, 4096),
        ({"formats": ((8, 9),), "flags": 0x10}, 512),
        ({"number": 17, "formats": ((0, 9),) * 17 + ((0, 12),)}, 4096),
    ],
)
def test_a_namespaces_size_is_that_of_its_format(given, block_bytes):
    assert nvme.capacity(namespace_page(**given)) == (1 << 21) * block_bytes


def ata_page(serial="S3Z8NB0K", sectors=1953525168, words=(), long=True):
    page = bytearray(ata.IDENTITY_BYTES)
    page[20:40] = serial.rjust(20).encode()
    struct.pack_into("<H", page, 2 * 83, 1 << 10 if long else 0)
    struct.pack_into("<I", page, 120, min(sectors, 0xFFFFFFF))
    struct.pack_into("<Q", page, 200, sectors if long else 0)
    for word, value in dict(words).items():
        struct.pack_into("<H", page, 2 * word, value)
    return bytes(page)


@pytest.mark.parametrize(
    ("page", "serial", "size_bytes"),
    [
        (ata_page(), "S3Z8NB0K", 1953525168 * 512),
        (ata_page(sectors=78165360, long=False), "S3Z8NB0K", 78165360 * 512),
        # 4Kn: words 117 and 118 count in words of 16 bits
        (ata_page(sectors=976754646, words={106: 0x5000, 117: 2048}), "S3Z8NB0K", 976754646 * 4096),
        # 512e: 4096 bytes are a physical sector alone
        (ata_page(words={106: 0x6003}), "S3Z8NB0K", 1953525168 * 512),
    ],
)
def test_an_ata_disks_identity_is_read(page, serial, size_bytes):
    assert ata.serial_and_bytes(page) == (serial, size_bytes)


def discovery(*features):
    page = bytearray(nvme.PAGE_BYTES)
    at = nvme.DISCOVERY_HEADER
    for code, flags in features:
        struct.pack_into(">HBB", page, at, code, 0x10, 12)
        page[at + 4] = flags
        at += 16
    struct.pack_into(">I", page, 0, at - 4)
    return bytes(page)


@pytest.mark.parametrize(
    ("features", "locked"),
    [
        ([(0x0001, 0x11), (0x0002, 0x0B), (0x0203, 0)], False),
        ([(0x0001, 0x11), (0x0002, 0x0F), (0x0203, 0)], True),
        ([(0x0002, 0x07)], True),
        ([(0x0001, 0x04)], False),
        ([], False),
    ],
)
def test_a_drive_says_by_tcg_opal_whether_it_is_locked(features, locked):
    assert nvme.discovery_says_locked(discovery(*features)) is locked


class Kernel:
    """ioctl as the kernel answers it: to commands to a drive by `answers`, else ENOTTY."""

    def __init__(self, monkeypatch, **answers):
        self.answers, self.sent = answers, []
        monkeypatch.setattr(nvme.fcntl, "ioctl", self.ioctl)

    def ioctl(self, descriptor, request, argument=0):
        if request == nvme.NVME_IOCTL_ID and "nvme" in self.answers:
            return NAMESPACE
        if request == nvme.NVME_IOCTL_ADMIN_CMD and "nvme" in self.answers:
            return self._nvme(argument)
        if request == ata.HDIO_GET_IDENTITY and "ata" in self.answers:
            argument[:] = self.answers["ata"]
            return 0
        if request == scsi.SG_IO and "scsi" in self.answers:
            return self._scsi(argument)
        if request == locks.IOC_OPAL_GET_STATUS and "opal" in self.answers:
            argument[:4] = self.answers["opal"].to_bytes(4, "little")
            return 0
        raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")

    def _nvme(self, command):
        opcode, namespace = command[0], struct.unpack_from("<I", command, 4)[0]
        address, length = struct.unpack_from("<Q", command, 24)[0], struct.unpack_from("<I", command, 36)[0]
        what, value = struct.unpack_from("<II", command, 40)
        self.sent.append((opcode, namespace, what, value))
        answer = self.answers["nvme"].get((opcode, what))
        if isinstance(answer, int):
            struct.pack_into("<I", command, 68, answer)
        elif isinstance(answer, bytes):
            ctypes.memmove(address, answer, min(length, len(answer)))
        else:
            return 0x4002  # invalid field, do not retry
        return 0

    def _scsi(self, header):
        fields = list(struct.unpack(scsi.HEADER, header))
        words = ctypes.string_at(fields[7], fields[2])
        self.sent.append(words)
        answer = self.answers["scsi"].get(words[0])
        if answer is None:
            fields[scsi.STATUS] = 2  # check condition
            header[:] = struct.pack(scsi.HEADER, *fields)
        else:
            ctypes.memmove(fields[6], answer, min(fields[5], len(answer)))
        return 0


def controller_page(serial="SERIAL-A", cache=1, security=0):
    page = bytearray(nvme.PAGE_BYTES)
    page[4:24] = serial.ljust(20).encode()
    page[525] = cache
    struct.pack_into("<H", page, 256, security)
    return bytes(page)


def test_an_nvme_drive_identifies_itself_and_the_open_namespace(monkeypatch):
    kernel = Kernel(
        monkeypatch,
        nvme={(0x06, 1): controller_page(), (0x06, 0): namespace_page(1 << 20, 1, ((0, 9), (0, 12)))},
    )
    assert CALLS.identity(3, "nvme0n1") == ("SERIAL-A", 1 << 32)
    assert (0x06, NAMESPACE, 0, 0) in kernel.sent


def test_an_nvme_drives_cache_is_asked_for_and_set(monkeypatch):
    kernel = Kernel(monkeypatch, nvme={(0x06, 1): controller_page(), (0x0A, 6): 1, (0x09, 6): 0})
    assert CALLS.has_cache(3, "nvme0n1")
    assert nvme.feature(3, nvme.VOLATILE_WRITE_CACHE) == (1, b"")
    nvme.set_feature(3, nvme.VOLATILE_WRITE_CACHE, 0)
    assert kernel.sent[-1] == (0x09, 0, 6, 0)
    assert not (
        Kernel(monkeypatch, nvme={(0x06, 1): controller_page(cache=0)}) and CALLS.has_cache(3, "nvme0n1")
    )


def test_a_refusal_has_its_status_without_the_bits_beyond(monkeypatch):
    Kernel(monkeypatch, nvme={})
    with pytest.raises(nvme.StatusError, match="0x4002") as caught:
        nvme.set_feature(3, nvme.VOLATILE_WRITE_CACHE, 1)
    assert caught.value.status == nvme.INVALID_FIELD


SCSI = {
    0x12: b"\x00\x80\x00\x08" + b"  K1X2Y3",
    0x9E: struct.pack(">QI20x", 7814037167, 512),
    0x5A: struct.pack(">HBBBBH", 6 + 8 + 20, 0, 0, 0, 0, 8) + bytes(8) + b"\x08\x12\x04" + bytes(17),
}


def test_a_sas_disk_identifies_itself_without_ata(monkeypatch):
    Kernel(monkeypatch, scsi=SCSI)
    assert CALLS.identity(3, "sda") == ("K1X2Y3", 7814037168 * 512)


@pytest.mark.parametrize("answers", [{}, {0x12: SCSI[0x12]}, {0x9E: SCSI[0x9E]}])
def test_a_disk_that_gives_no_answer_is_not_identified(monkeypatch, answers):
    Kernel(monkeypatch, scsi=answers)
    with pytest.raises(OSError, match="refused"):
        CALLS.identity(3, "sda")


@pytest.mark.parametrize(
    ("answers", "has"),
    [
        ({"ata": ata_page(words={82: 1 << 5})}, True),
        ({"ata": ata_page(words={82: 0x4001})}, False),
        ({"scsi": SCSI}, True),
        ({"scsi": {0x5A: SCSI[0x5A].replace(b"\x08\x12\x04", b"\x08\x12\x00")}}, False),
    ],
)
def test_a_disk_says_whether_it_has_a_cache_that_can_be_set(monkeypatch, answers, has):
    Kernel(monkeypatch, **answers)
    assert CALLS.has_cache(3, "sda") is has


def test_a_disk_without_a_caching_page_gives_no_answer(monkeypatch):
    Kernel(monkeypatch, scsi={})
    with pytest.raises(OSError, match="0x5a: refused"):
        CALLS.has_cache(3, "sda")


@pytest.mark.parametrize(
    ("name", "answers", "locked"),
    [
        ("sda", {"ata": ata_page(words={128: 0x27})}, True),
        ("sda", {"ata": ata_page(words={128: 0x23})}, False),
        ("sda", {"ata": ata_page(words={128: 0x27}), "scsi": {0x85: ata_page(words={128: 0x27})}}, True),
        # unlocked since the kernel asked it
        ("sda", {"ata": ata_page(words={128: 0x27}), "scsi": {0x85: ata_page(words={128: 0x23})}}, False),
        ("sda", {"ata": ata_page(), "opal": 0x0F}, True),
        ("sda", {"scsi": SCSI}, False),
        ("nvme0n1", {"nvme": {}, "opal": 0x07}, False),
        ("nvme0n1", {"nvme": {}, "opal": 0x0F}, True),
        (
            "nvme0n1",
            {"nvme": {(6, 1): controller_page(security=1), (0x82, 0x01000100): discovery((2, 7))}},
            True,
        ),
        ("nvme0n1", {"nvme": {(6, 1): controller_page(), (0x82, 0x01000100): discovery((2, 7))}}, False),
        ("nvme0n1", {}, False),
    ],
)
def test_a_drive_that_is_locked(monkeypatch, name, answers, locked):
    Kernel(monkeypatch, **answers)
    assert locks.is_locked(3, name) is locked


def test_a_sanitize_is_begun_by_the_open_namespace(monkeypatch):
    kernel = Kernel(monkeypatch, nvme={(0x84, 2): 0})
    CALLS.sanitize(3, 2)
    assert kernel.sent == [(0x84, 0, 2, 0)]
    with pytest.raises(nvme.StatusError):
        CALLS.sanitize(3, 4)


@pytest.mark.parametrize(
    ("call", "command"),
    [("set_ata_password", 0xF1), ("unlock_ata", 0xF2), ("disable_ata_password", 0xF6)],
)
def test_commands_with_a_password(monkeypatch, call, command):
    kernel = Kernel(monkeypatch, scsi={0x85: b""})
    getattr(CALLS, call)(3, "joulerig")
    [words] = kernel.sent
    assert words[14] == command


def health_page(**values):
    log = bytearray(512)
    for name, at, size in health_log.FIELDS:
        log[at : at + size] = values.get(name, 0).to_bytes(size, "little")
    struct.pack_into("<8H", log, 200, 306, 0, 296, 0, 0, 0, 0, 0)
    return bytes(log)


def test_a_health_log_has_the_names_that_nvme_cli_gives_its_fields():
    found = health_log.parse(
        health_page(temperature=324, data_units_written=1 << 70, thm_temp1_total_time=1474)
    )
    assert (found["temperature"], found["data_units_written"]) == (324, 1 << 70)
    assert (found["thm_temp1_total_time"], found["thm_temp2_total_time"]) == (1474, 0)
    sensors = {key: value for key, value in found.items() if key.startswith("temperature_sensor")}
    assert sensors == {"temperature_sensor_1": 306, "temperature_sensor_3": 296}


def test_fields_of_a_health_log_do_not_overlap():
    ends = 0
    for _, at, size in sorted(health_log.FIELDS, key=lambda field: field[1]):
        assert at >= ends
        ends = at + size


def test_a_short_health_log_is_an_error():
    with pytest.raises(ValueError, match="a health log of 100 bytes"):
        health_log.parse(bytes(100))


def extended_page(programmed, guid=health_log.OCP_GUID):
    return programmed.to_bytes(16, "little") + bytes(480) + guid


def test_ocps_extended_log_has_the_bytes_that_the_flash_programmed():
    assert health_log.parse_extended(extended_page(1 << 70)) == {"physical_media_units_written": 1 << 70}


@pytest.mark.parametrize("log", [extended_page(5, guid=bytes(16)), bytes(512), bytes(100)])
def test_a_vendors_other_log_under_that_number_says_nothing(log):
    assert health_log.parse_extended(log) == {}


def test_the_extended_log_is_asked_for_by_its_number(monkeypatch):
    # As in the command: the number in the low byte, 512 bytes as words less one above it.
    Kernel(monkeypatch, nvme={(2, 127 << 16 | 0xC0): extended_page(7)})
    assert health_log.parse_extended(nvme.extended_health(3)) == {"physical_media_units_written": 7}
