# SPDX-License-Identifier: GPL-3.0-or-later
"""Serials, WWNs and sizes in the forms in which tools print them and people type them."""

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import forms, model

NAA, EUI = "naa.5000c500a1b2c3d4", "eui.0025385b91b05678"


@pytest.mark.parametrize(
    ("typed", "interface", "expected"),
    [
        ("naa.5000c500a1b2c3d4", "hdd", NAA),  # /sys/block/sda/device/wwid
        ("0x5000c500a1b2c3d4", "hdd", NAA),  # lsblk --output WWN, lsscsi --wwn
        ("wwn-0x5000c500a1b2c3d4", "hdd", NAA),  # /dev/disk/by-id
        ("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4", "hdd", NAA),
        ("scsi-35000c500a1b2c3d4", "hdd", NAA),
        ("35000c500a1b2c3d4", "hdd", NAA),  # scsi_id --whitelisted
        ("5 000c50 0a1b2c3d4", "hdd", NAA),  # smartctl --info
        ("5000C500A1B2C3D4", "hdd", NAA),  # hdparm -I, storcli
        ("50:00:c5:00:a1:b2:c3:d4", "hdd", NAA),
        ({"naa": 5, "oui": 0x000C50, "id": 0x0A1B2C3D4}, "hdd", NAA),  # smartctl --json
        ("eui.0025385b91b05678", "nvme", EUI),  # /sys/block/nvme0n1/wwid, lsblk
        ("nvme-eui.0025385b91b05678", "nvme", EUI),  # /dev/disk/by-id
        ("0025385b91b05678", "nvme", EUI),  # nvme id-ns
        ("0x0025385b91b05678", "nvme", EUI),
        ("00 25 38 5b 91 b0 56 78", "nvme", EUI),
        ({"oui": 0x002538, "ext_id": 0x5B91B05678}, "nvme", EUI),  # smartctl --json
        ("5cd2e42a81a0b1c2", "nvme", "eui.5cd2e42a81a0b1c2"),  # an OUI that begins as an NAA does
        ("36344830584012340025384300000001", "nvme", "eui.36344830584012340025384300000001"),  # NGUID
        ("uuid.6f1a0b2c-1d2e-4f3a-8b4c-5d6e7f8a9b0c", "nvme", "uuid.6f1a0b2c-1d2e-4f3a-8b4c-5d6e7f8a9b0c"),
        ("nvme.8086-50484c4a-494e5445-00000001", "nvme", "nvme.8086-50484c4a-494e5445-00000001"),
        ("t10.ATA     QEMU HARDDISK    QM00001 ", "hdd", "t10.ATA     QEMU HARDDISK    QM00001"),
    ],
)
def test_a_wwn_as_tools_print_it(typed, interface, expected):
    assert forms.as_wwn(typed, interface) == expected


@pytest.mark.parametrize(
    "typed",
    [
        "Samsung SSD 970",
        "5000c500a1b2c3d",
        "naa.xyz",
        "",
        True,
        {"naa": 5},
        {"naa": "5", "oui": 1, "id": 2},
        "uuid.",
    ],
)
def test_what_is_no_wwn_is_refused(typed):
    with pytest.raises(ValueError, match=r"no WWN; allowed: naa\.|in quotes"):
        forms.as_wwn(typed, "hdd")


@pytest.mark.parametrize(
    "typed", ["0x0000000000000000", "00000000000000000000000000000000", "eui.0000000000000000"]
)
def test_the_zeros_of_a_drive_without_a_wwn_are_refused(typed):
    with pytest.raises(ValueError, match="leave wwn out"):
        forms.as_wwn(typed, "nvme")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("4,000,787,030,016 bytes [4.00 TB]", 4000787030016),  # smartctl --info
        ("960'197'124'096", 960197124096),
        ("960 197 124 096", 960197124096),
        ("960,19", "960,19"),
        ("960 GB", "960 GB"),
        (960197124096, 960197124096),
    ],
)
def test_a_size_with_its_thousands_separated(typed, expected):
    assert forms.as_bytes(typed) == expected


@pytest.fixture
def drive(lab_files):
    """drive(LINES) gives the drive `fast` of a file with these lines, as a person typed them."""

    def load(*lines):
        lab_files.write()
        text = ["controller_address: 192.0.2.1", "drives:", "  fast:", "    interface: nvme", *lines]
        path = lab_files.folder / "host_vars/bench1.yml"
        path.write_text("\n".join(text) + "\n")
        return model.load(lab_files.inventory).hosts["bench1"].drives["fast"]

    return load


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("0012345670", "0012345670"),  # octal to YAML 1.1
        ("12345678", "12345678"),
        ("1_000_000", "1_000_000"),
        ("12:30:45", "12:30:45"),  # base 60
        ("2024-01-02", "2024-01-02"),
        ("1234.500", "1234.500"),
        ("0x12AB34", "0x12AB34"),
        ("'0012345670'", "0012345670"),
        ("S3HCNX0K401234      ", "S3HCNX0K401234"),
    ],
)
def test_a_serial_without_quotes_is_what_was_typed(drive, typed, expected):
    assert drive(f"    serial: {typed}", "    size_bytes: 1000204886016").serial == expected


def test_a_number_in_braces_is_what_was_typed(lab_files):
    lab_files.write()
    path = lab_files.folder / "host_vars/bench1.yml"
    path.write_text(
        "controller_address: 192.0.2.1\n"
        "drives: {fast: {interface: hdd, serial: 0012345670, wwn: 0x5000c500a1b2c3d4, size_bytes: 512}}\n"
    )
    found = model.load(lab_files.inventory).hosts["bench1"].drives["fast"]
    assert (found.serial, found.wwn) == ("0012345670", NAA)


def test_a_serial_that_is_true_to_yaml_is_refused(drive):
    with pytest.raises(UserError, match=r"drives\.fast\.serial: .*true or false; write it in quotes"):
        drive("    serial: yes", "    size_bytes: 512")


def test_a_wwn_as_lsblk_prints_it_without_quotes(drive):
    found = drive("    serial: SERIAL-A", "    wwn: 0x0025385b91b05678", "    size_bytes: 512")
    assert found.wwn == EUI


def test_settings_and_channels_of_a_meter_may_be_numbers(lab_files):
    meter = {
        "driver": "rdtech-dps",
        "connection": "/dev/ttyUSB0",
        "options": {"modbusaddr": 2},
        "set": {"x": 1.50},
    }
    lab_files.controller["meters"]["dps"] = meter
    found = lab_files.load().controller.meters["dps"]
    assert (found.options, found.set) == ({"modbusaddr": "2"}, {"x": "1.5"})


@pytest.mark.parametrize("interface", ["nvme", "hdd"])
@pytest.mark.parametrize(
    "text",
    ["naa.", "eui.", "wwn-", "wwn-0x", "nvme-eui.", "uuid.", "t10.", "nvme.", "0x", "t10.0x", "uuid.0x", "nvme.0x00",
     "uuid.00000000-0000-0000-0000-000000000000", "uuid.0", "t10.0 0", "naa.0000000000000000", "naa.ffffffffffffffff",
     "eui.ffffffffffffffffffffffffffffffff"],
)  # fmt: skip
def test_a_prefix_alone_is_no_identity(text, interface):
    """It would be that of every drive without one."""
    with pytest.raises(ValueError, match=r"is no WWN|without a WWN"):
        forms.as_wwn(text, interface)
