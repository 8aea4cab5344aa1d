# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig doctor --offline`: mistakes that engineers make in an inventory, each found on one line."""

import json
import re
import shutil
from dataclasses import dataclass, field

import pytest
import yaml
from typer.testing import CliRunner

from joulerig.rig.cli.main import app
from joulerig.rig.common import paths
from joulerig.rig.doctor import inventory
from joulerig.rig.doctor.finding import Severity

HOST, BOSS, INI = "host_vars/bench1.yml", "host_vars/bench-controller.yml", "inventory.ini"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A copy of the example bench, which a test may change."""
    (tmp_path / "host_vars").mkdir()
    shutil.copy(paths.ROOT / "inventory.example-bench.ini", tmp_path / INI)
    for name in (HOST, BOSS):
        shutil.copy(paths.ROOT / name, tmp_path / name)
    monkeypatch.setenv("JOULERIG_INVENTORY", str(tmp_path / INI))
    return tmp_path


def found(bench):
    return inventory.examine(bench / INI)[1]


@dataclass
class Mistake:
    """A text of a file that is replaced by another, and what the line about it has."""

    file: str
    old: str
    new: str
    expected: list[str] = field(default_factory=list)
    severity: Severity = Severity.ERROR


def planted(bench, mistake):
    path = bench / mistake.file
    text = path.read_text()
    assert mistake.old in text
    path.write_text(text.replace(mistake.old, mistake.new, 1))


WARNING = Severity.WARNING
SEEN_BY_RIG = {
    "a key of the host is misspelt": Mistake(
        HOST, "arrays:", "arrayss:", ["arrayss: unknown key", "'arrays'", "drives", "write arrays"]
    ),
    "a key of the kernel's memory is misspelt": Mistake(
        HOST, "nvdimm_memmap:", "nvdimm_memap:", ["nvdimm_memap: unknown key", "write nvdimm_memmap"]
    ),
    "a key of the controller is misspelt": Mistake(
        BOSS, "points_per_second:", "point_per_second:", ["point_per_second: unknown key", "write points_per_second"]
    ),
    "a key of a drive is misspelt": Mistake(
        HOST, "serial: S3HCNX0K401234", "seriel: S3HCNX0K401234",
        ["drives.nvme-plp: unknown key 'seriel'", "did you mean 'serial'", "allowed: description"],
    ),
    "a key of a rail is misspelt": Mistake(
        HOST, "volts: CH1, amps: CH2, supply: { volts: 12.6", "volt: CH1, amps: CH2, supply: { volts: 12.6",
        ["drives.nvme-plp.rails.12v: unknown key 'volt'", "write volts"],
    ),
    "a WWN that is the model": Mistake(
        HOST, "wwn: naa.55cd2e414e012345", "wwn: INTEL SSDSC2KB480", ["drives.sata-plp.wwn: 'INTEL", "no WWN", "allowed: naa.", "lsblk"]
    ),
    "a WWN that lacks a digit": Mistake(
        HOST, "wwn: naa.5000c500a1b2c3d4", "wwn: naa.5000c500a1b2c3d", ["drives.hdd-1.wwn", "16 or 32", "lsblk"]
    ),
    "the size of an advertisement": Mistake(
        HOST, "size_bytes: 960197124096", "size_bytes: 960 GB", ["drives.nvme-plp.size_bytes: '960 GB'; allowed: a valid integer", "lsblk --bytes"]
    ),
    "a kind of drive that there is not": Mistake(
        HOST, "interface: sata-ssd", "interface: sata", ["drives.sata-plp.interface: 'sata'; allowed: 'nvme', 'sata-ssd'"],
    ),
    "a drive copied with its serial": Mistake(
        HOST, "serial: ZC10A1B3", "serial: ZC10A1B2", ["drives.hdd-2.serial: 'ZC10A1B2'", "'hdd-1'", "discover bench1"]
    ),
    "a drive copied with its WWN": Mistake(
        HOST, "wwn: naa.5000c500a1b2c3d5", "wwn: naa.5000c500a1b2c3d4", ["drives.hdd-2.wwn: 'naa.5000c500a1b2c3d4'", "bench1/hdd-1"]
    ),
    "a meter that is not there": Mistake(
        HOST, "{ meter: tap2a, volts: CH1", "{ meter: tap2, volts: CH1",
        ["drives.hdd-1.rails.5v.meter: 'tap2'", "allowed: tap1a, tap1b"],
    ),
    "a channel that measures another rail": Mistake(
        HOST, "volts: CH3, amps: CH4, supply: { volts: 3.47", "volts: CH1, amps: CH4, supply: { volts: 3.47",
        ["drives.nvme-consumer.rails.3v3: channel CH1 of tap1a already measures bench1/nvme-plp/12v", "rig meters scan"],
    ),
    "a channel that the meter lacks": Mistake(
        HOST, "volts: CH3, amps: CH4, supply: { volts: 3.47", "volts: CH5, amps: CH4, supply: { volts: 3.47",
        ["drives.nvme-consumer.rails.3v3.volts: 'CH5'", "allowed: CH1"],
    ),
    "volts without amps": Mistake(
        HOST, "volts: CH1, amps: CH2, supply: { volts: 12.6", "volts: CH1, supply: { volts: 12.6",
        ["drives.nvme-plp.rails.12v: has volts", "allowed: 'volts' and 'amps'"],
    ),
    "a member of an array that is no drive": Mistake(
        HOST, "members: [hdd-1, hdd-2, hdd-4]", "members: [hdd-1, hdd-2, hdd4]", ["arrays.hdd-array.members: 'hdd4'", "allowed: nvme-plp"]
    ),
    "a driver that libsigrok does not have": Mistake(
        BOSS, "tap1a: { driver: hameg-hmo", "tap1a: { driver: hameg_hmo", ["meters.tap1a.driver: 'hameg_hmo'", "sigrok-cli -L"]
    ),
    "a driver that lacks a letter": Mistake(
        BOSS, "tap1a: { driver: hameg-hmo", "tap1a: { driver: hameg-hm", ["meters.tap1a.driver: 'hameg-hm'", "write hameg-hmo"]
    ),
    "two meters at one connection": Mistake(
        BOSS, "192.168.40.21/5026", "192.168.40.21/5025", ["meters.tap1b.connection", "tap1a", "rig meters scan"]
    ),
    "a clock that only the controller reaches": Mistake(
        BOSS, "clock_listen: 0.0.0.0:12300", "clock_listen: 127.0.0.1:12300", ["clock_listen: '127.0.0.1:12300'", "bench1", "0.0.0.0"]
    ),
    "an InfluxDB without a token": Mistake(
        BOSS, "  token_file:", "  # token_file:", ["influxdb.token_file: missing", "add influxdb.token_file to"]
    ),
}  # fmt: skip
SEEN_BY_THE_DOCTOR = {
    "a digit of a size is missing": Mistake(
        HOST, "size_bytes: 960197124096", "size_bytes: 96019712409", ["drives.nvme-plp.size_bytes: 96019712409", "512", "lsblk"]
    ),
    "a round size": Mistake(
        HOST, "size_bytes: 500107862016", "size_bytes: 500000000000", ["drives.sata-consumer.size_bytes", "round", "lsblk"], WARNING
    ),
    "a serial that is none": Mistake(
        HOST, "serial: ZC10A1B4", "serial: '0123456789ABCDEF'", ["drives.hdd-3.serial: '0123456789ABCDEF'", "no serial"]
    ),
    "a WWN was left out": Mistake(
        HOST, "    wwn: naa.5002538e40123456\n", "", ["drives.sata-consumer: no wwn", "lsblk"], WARNING
    ),
    "two drives of one name": Mistake(
        HOST, "  sata-plp:\n", "  sata-consumer:\n", ["drives.sata-consumer", "stands in line 28 too", "allowed: a key once"]
    ),
    "the supply of another rail": Mistake(
        HOST, "supply: { volts: 3.47, amps: 3.0, ohms: 0.03 }", "supply: { volts: 12.6, amps: 3.0, ohms: 0.03 }",
        ["drives.nvme-consumer.rails.3v3.supply.volts: 12.6 V", "3.3 to 3.63 V"], WARNING,
    ),
    "a rail without a supply": Mistake(
        HOST, ", supply: { volts: 12.6, amps: 2.5, ohms: 0.04 }", "", ["drives.nvme-plp.rails.12v: no supply", "supply: { volts"], WARNING
    ),
    "the endurance in gigabytes": Mistake(
        HOST, "rated_terabytes_written: 1366", "rated_terabytes_written: 1366000000", ["rated_terabytes_written: 1.366e+09 TB", "10^12"]
    ),
    "the host's own address for the controller's": Mistake(
        HOST, "controller_address: 192.168.40.1 ", "controller_address: 192.168.40.11 ", ["controller_address: '192.168.40.11'", "ip -brief address"]
    ),
    "the loopback for the controller's address": Mistake(
        HOST, "controller_address: 192.168.40.1 ", "controller_address: localhost ", ["controller_address: 'localhost'", "the host itself"]
    ),
    "an InfluxDB that only the controller reaches": Mistake(
        BOSS, "url: http://192.168.40.2:8086", "url: http://localhost:8086", ["influxdb.url: 'http://localhost:8086'", "bench1", "url_from_hosts"]
    ),
    "meters in the file of a host": Mistake(
        HOST, "return_seconds: 600", "meters: { psu: { driver: scpi-pps, connection: tcp-raw/h/1 } }",
        ["meters: is read of the controller alone", "move it from line 6", BOSS],
    ),
    "a variable of Ansible's is misspelt": Mistake(
        INI, "ansible_ssh_private_key_file=", "ansible_ssh_private_keyfile=", ["ansible_ssh_private_keyfile", "write ansible_ssh_private_key_file"]
    ),
    "a serial port by its number": Mistake(
        BOSS, "/dev/serial/by-id/usb-Joulerig_Power_tap_0003-if00", "/dev/ttyACM0", ["meters.tap3a.connection: '/dev/ttyACM0'", "udevadm"], WARNING
    ),
    "a host that is given up before it has started": Mistake(
        HOST, "return_seconds: 600", "return_seconds: 15", ["return_seconds: 15 s", "600"], WARNING
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", SEEN_BY_RIG.values(), ids=SEEN_BY_RIG)
def test_a_mistake_that_rig_refuses(bench, mistake):
    check_line(bench, mistake)


@pytest.mark.parametrize("mistake", SEEN_BY_THE_DOCTOR.values(), ids=SEEN_BY_THE_DOCTOR)
def test_a_mistake_that_a_campaign_would_meet(bench, mistake):
    check_line(bench, mistake)


def check_line(bench, mistake):
    """One finding, of its file, with the expected parts, on one line."""
    planted(bench, mistake)
    [one] = found(bench)
    assert one.severity == mistake.severity
    assert re.match(rf"{re.escape(str(bench / mistake.file))}(:\d+|: bench1)?$", one.subject), one.line
    assert "\n" not in one.line
    assert one.remedy
    for part in mistake.expected:
        assert part in one.line, one.line


def test_the_line_of_a_key(bench):
    planted(bench, SEEN_BY_RIG["the size of an advertisement"])
    [one] = found(bench)
    number = int(one.subject.rpartition(":")[2])
    assert "960 GB" in (bench / HOST).read_text().splitlines()[number - 1]
    assert f"edit line {number} of " in one.remedy


def test_twenty_mistakes_at_once(bench):
    """Of twenty in one inventory each has its line: none hides another."""
    names = [
        "a key of the kernel's memory is misspelt", "a key of the controller is misspelt",
        "a key of a drive is misspelt", "a WWN that is the model", "a drive copied with its WWN",
        "a channel that the meter lacks", "two meters at one connection",
        "a clock that only the controller reaches", "a round size", "a serial that is none",
        "a WWN was left out", "an InfluxDB that only the controller reaches",
        "a variable of Ansible's is misspelt", "a serial port by its number",
        "a host that is given up before it has started", "the loopback for the controller's address",
    ]  # fmt: skip
    more = {
        "the loopback and the clock": Mistake(HOST, "chunk_kib: 64", "chunk_kb: 64", ["arrays.hdd-array", "chunk_kib"]),
        "a supply": Mistake(HOST, "supply: { volts: 5.25, amps: 1.5, ohms: 0.05 } }\n      12v: { meter: tap3a", "supply: { volts: 12.6, amps: 1.5, ohms: 0.05 } }\n      12v: { meter: tap3a", ["drives.hdd-3.rails.5v.supply.volts"], WARNING),
        "endurance": Mistake(HOST, "rated_terabytes_written: 600", "rated_terabytes_written: 6000000000", ["drives.nvme-consumer.rated"]),
        "samples": Mistake(BOSS, "192.168.40.22/5026, sample_rate_hz: 1000, samples: window-mean", "192.168.40.22/5026, sample_rate_hz: 1000, samples: mean", ["meters.tap2b.samples: 'mean'"]),
    }  # fmt: skip
    mistakes = {**{name: {**SEEN_BY_RIG, **SEEN_BY_THE_DOCTOR}[name] for name in names}, **more}
    assert len(mistakes) == 20
    for mistake in mistakes.values():
        planted(bench, mistake)
    lines = [one.line for one in found(bench)]
    for name, mistake in mistakes.items():
        assert any(all(part in line for part in mistake.expected) for line in lines), (name, lines)


def test_a_file_of_a_host_that_is_not_there(bench):
    (bench / HOST).rename(bench / "host_vars/bench01.yml")
    stray = next(one for one in found(bench) if one.check == "stray-files")
    assert stray.remedy == f"mv {bench}/host_vars/bench01.yml {bench}/{HOST}"
    assert "is read by no host, and bench1 has no file" in stray.line


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (HOST, "drives: [unclosed\n", [f"{HOST}:"]),
        (HOST, "drives:\n\thdd-1: {}\n", [f"{HOST}:"]),
        (INI, "[controller]\nbench-controller\n", ["group [test_hosts] has no host", "allowed: one or more"]),
    ],
)
def test_what_cannot_be_read_at_all(bench, name, text, expected):
    (bench / name).write_text(text)
    [one] = found(bench)
    assert one.severity == Severity.ERROR
    for part in expected:
        assert part in one.line


def test_a_meter_that_has_only_the_volts_of_a_rail_is_in_use(bench):
    text = (bench / BOSS).read_text()
    for name, host in (("amps", 1), ("volts", 2)):
        meter = f"  {name}: {{ driver: scpi-pps, connection: tcp-raw/192.168.40.3{host}/5025 }}\n"
        text = text.replace("  tap3a:\n", f"{meter}  tap3a:\n")
    (bench / BOSS).write_text(text)
    assert [one.key for one in found(bench)] == ["meters.amps", "meters.volts"]
    old = "{ meter: tap2a, volts: CH1, amps: CH2,"
    new = "{ meter: amps, volts: { meter: volts, channel: V1 }, amps: I1,"
    text = (bench / HOST).read_text()
    assert old in text
    (bench / HOST).write_text(text.replace(old, new))
    assert found(bench) == []


def test_two_hosts_of_one_address(bench):
    (bench / INI).write_text(
        (bench / INI)
        .read_text()
        .replace("[test_hosts:vars]", "bench2 ansible_host=192.168.40.11\n[test_hosts:vars]")
    )
    text = (bench / HOST).read_text()
    drive = {
        "interface": "hdd",
        "serial": "ZC10A1B9",
        "wwn": "naa.5000c500a1b2c3d9",
        "size_bytes": 4000787030016,
    }
    own = {"controller_address": "192.168.40.1", "drives": {"one": drive}}
    (bench / "host_vars/bench2.yml").write_text(yaml.safe_dump(own))
    lines = [one.line for one in found(bench)]
    assert text
    assert any("ansible_host: '192.168.40.11' is also that of bench1" in line for line in lines)
    assert any("drives.one: no rails: its runs have no joules" in line for line in lines)


@pytest.mark.parametrize("name", ["inventory.ini", "inventory.example-bench.ini"])
def test_the_shipped_labs_have_nothing_wrong(name, monkeypatch):
    monkeypatch.setenv("JOULERIG_INVENTORY", str(paths.ROOT / name))
    done = CliRunner().invoke(app, ["doctor", "--offline"])
    assert done.exit_code == 0
    assert done.stdout == "nothing found\n"


def test_the_command_line_shows_a_line_each_and_ends_with_1(bench):
    planted(bench, SEEN_BY_RIG["the size of an advertisement"])
    planted(bench, SEEN_BY_THE_DOCTOR["a WWN was left out"])
    done = CliRunner().invoke(app, ["doctor", "--offline"])
    assert done.exit_code == 1
    heading, error, warning, last = done.stdout.splitlines()
    assert heading.split()[:2] == ["severity", "where"]
    assert error.startswith("error ")
    assert "960 GB" in error
    assert warning.startswith("warning ")
    assert last == "1 error, 1 warning"


def test_json(bench):
    planted(bench, SEEN_BY_RIG["the size of an advertisement"])
    done = CliRunner().invoke(app, ["doctor", "--offline", "--json"])
    assert done.exit_code == 1
    [one] = json.loads(done.stdout)
    assert (one["severity"], one["check"], one["key"]) == ("error", "refused", "drives.nvme-plp.size_bytes")


def test_warnings_alone_are_no_failure(bench):
    planted(bench, SEEN_BY_THE_DOCTOR["a WWN was left out"])
    assert CliRunner().invoke(app, ["doctor", "--offline"]).exit_code == 0


def test_a_host_that_is_not_in_the_inventory(bench):
    done = CliRunner().invoke(app, ["doctor", "bench9", "--offline"])
    assert "'bench9' is not a test host; allowed: bench1" in str(done.exception)
