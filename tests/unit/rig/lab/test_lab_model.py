# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's description: what is read, and how each mistake in it is reported on one line."""

import copy
import json
import math

import pytest

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import meters, model
from joulerig.rig.lab.packages import for_guests
from joulerig.virtuallab import profile


def refusal(lab_files):
    with pytest.raises(UserError) as caught:
        lab_files.load()
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_shipped_inventory_describes_the_virtual_lab():
    shipped = model.load(paths.ROOT / "inventory.ini")
    drives = shipped.hosts["vhost1"].drives
    assert shipped.virtual
    assert sorted({d.interface for d in drives.values()}) == ["hdd", "nvdimm", "nvme", "ram", "sata-ssd"]
    assert {name for name, d in drives.items() if d.plp} == {"nvme-plp", "sata-plp", "nvdimm"}
    assert shipped.hosts["vhost1"].arrays["hdd-array"].members == ["hdd-1", "hdd-2"]


def test_the_shipped_supplies_are_what_their_twins_draw_from():
    lab = model.load(paths.ROOT / "inventory.ini")
    profiles = profile.shipped()
    for name, drive in lab.hosts["vhost1"].drives.items():
        for rail, wiring in drive.rails.items():
            twin, supply = profiles[drive.profile].rails[rail], wiring.supply
            active = profiles[drive.profile].active_watts(rail) or 2.0 * twin.volts
            watts = twin.idle_watts + active
            amps = (twin.volts - math.sqrt(twin.volts**2 - 4 * twin.source_ohms * watts)) / (
                2 * twin.source_ohms
            )
            assert (supply.volts, supply.ohms) == (twin.volts, twin.source_ohms), name
            assert amps <= supply.amps < amps + 0.1, name


def test_a_usb_serial_adapter_holds_samples_back(lab_files):
    tap = lab_files.controller["meters"]["tap1"]
    tap.update(connection="/dev/ttyUSB0", serialcomm="115200/8n1")
    assert lab_files.load().controller.meters["tap1"].latency_seconds == 0.018
    tap["latency_seconds"] = 0.003
    assert lab_files.load().controller.meters["tap1"].latency_seconds == 0.003
    assert lab_files.load().controller.meters["tap2"].latency_seconds is None


def test_a_lab_without_virtual_hosts_is_physical(bench):
    assert not bench.virtual


def test_a_server_gets_longer_to_start_than_a_virtual_host(bench, lab_files):
    assert model.load(paths.ROOT / "inventory.ini").hosts["vhost1"].returns_within == 180
    assert bench.hosts["bench1"].returns_within == 600
    lab_files.host["return_seconds"] = 900
    assert lab_files.load().hosts["bench1"].returns_within == 900


def test_rails_of_a_drive(bench):
    [(member, name, rail)] = bench.drive_rails("bench1", "fast")
    assert (member, name, rail.meter, rail.volts, rail.amps) == ("fast", "12v", "tap1", "CH1", "CH2")


def test_rails_of_an_array_are_those_of_its_members(bench):
    assert [member for member, _, _ in bench.drive_rails("bench1", "pair")] == ["hdd-1", "hdd-2"]


def test_variables_that_are_ansibles_or_the_users_own_are_left_alone(lab_files):
    lab_files.host["ansible_host"] = "192.0.2.9"
    lab_files.host["rack"] = {"row": 3}
    assert "bench1" in lab_files.load().hosts


def test_variables_of_groups_count_as_those_of_hosts(lab_files):
    lab_files.host.pop("controller_address")
    lab_files.inventory_text += "\n[test_hosts:vars]\ncontroller_address=192.0.2.77\n"
    assert lab_files.load().hosts["bench1"].controller_address == "192.0.2.77"


def test_missing_inventory(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.ini: no such inventory; set JOULERIG_INVENTORY"):
        model.load(tmp_path / "nowhere.ini")


@pytest.mark.parametrize("group", ["controller", "test_hosts"])
def test_missing_group(lab_files, group):
    lab_files.inventory_text = lab_files.inventory_text.replace(f"[{group}]", "[others]")
    assert f"group [{group}] has no host" in refusal(lab_files)


def test_two_controllers(lab_files):
    lab_files.inventory_text = lab_files.inventory_text.replace("boss\n", "boss\nboss2\n")
    message = refusal(lab_files)
    assert "group [controller]" in message
    assert "boss2" in message


def test_host_vars_that_are_not_yaml(lab_files):
    lab_files.write()
    (lab_files.folder / "host_vars" / "bench1.yml").write_text("drives: [unclosed\n")
    with pytest.raises(UserError) as caught:
        model.load(lab_files.inventory)
    assert "\n" not in str(caught.value)
    assert "bench1.yml" in str(caught.value)


def test_host_without_drives(lab_files):
    del lab_files.host["drives"]
    message = refusal(lab_files)
    assert "host_vars/bench1.yml: drives:" in message
    assert "required" in message


def test_host_that_does_not_say_how_it_sees_the_controller(lab_files):
    del lab_files.host["controller_address"]
    assert "host_vars/bench1.yml: controller_address:" in refusal(lab_files)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("arrayss",), {}, ["arrayss: unknown key; did you mean 'arrays'?"]),
        (("nvdimm_memap",), "4G!12G", ["nvdimm_memap", "'nvdimm_memmap'"]),
        (("drives", "fast", "seriel"), "X", ["drives.fast", "'seriel'; did you mean 'serial'?"]),
        (("drives", "fast", "colour"), "red", ["drives.fast", "unknown key 'colour'", "allowed:", "serial"]),
        (("drives", "fast", "interface"), "scsi", ["drives.fast.interface", "'scsi'", "'nvme'", "'hdd'"]),
        (("drives", "fast", "serial"), True, ["drives.fast.serial", "true or false", "in quotes"]),
        (("drives", "fast", "serial"), "abc", ["drives.fast.serial", "'abc'", "at least 4"]),
        (("drives", "fast", "serial"), "ÄBC-1234", ["drives.fast.serial", "'ÄBC-1234'"]),
        (("drives", "fast", "wwn"), "Samsung", ["drives.fast.wwn: 'Samsung' is no WWN", "naa."]),
        (("drives", "fast", "wwn"), "0x0000000000000000", ["drives.fast.wwn", "leave wwn out"]),
        (("drives", "fast", "size_bytes"), "1TB", ["drives.fast.size_bytes", "'1TB'", "integer"]),
        (("drives", "fast", "size_bytes"), 0, ["drives.fast.size_bytes", "0", "greater than 0"]),
        (("drives", "fast", "rails", "12v", "meter"), "tap9", ["drives.fast.rails.12v.meter", "'tap9'", "tap1, tap2"]),
        (("drives", "fast", "rails", "12v", "amps"), "CH1", ["drives.fast.rails.12v.amps", "'CH1'", "differ"]),
        (("drives", "fast", "rails", "12v", "amps"), "CH4", ["CH4", "tap1", "already measures bench1/fast/12v"]),
        (("drives", "fast", "rails", "12v", "ohms"), 1, ["drives.fast.rails.12v", "unknown key 'ohms'", "volts"]),
        (("drives", "fast", "rails", "12v", "supply"), {"volts": 12.6}, ["rails.12v.supply.amps", "required"]),
        (("drives", "fast", "rails", "12v", "supply"), {"volts": 12.6, "amps": 0}, ["rails.12v.supply.amps: 0", "greater than 0"]),
        (("drives", "Fast SSD"), {}, ["drives.Fast SSD"]),
        (("drives", "hdd-1", "serial"), "SERIAL-A", ["drives.hdd-1.serial", "'SERIAL-A'", "'fast'"]),
        (("arrays", "pair", "members"), ["hdd-1", "hdd-9"], ["arrays.pair.members", "'hdd-9'", "allowed: fast"]),
        (("arrays", "pair", "members"), ["hdd-1"], ["arrays.pair.members", "at least 2"]),
        (("arrays", "pair", "members"), ["hdd-1", "hdd-1"], ["arrays.pair.members", "'hdd-1'", "once"]),
        (("arrays", "pair", "level"), "raid4", ["arrays.pair.level", "'raid4'", "'raid0'", "'lvm-striped'"]),
        (("arrays", "pair", "level"), "crypt", ["arrays.pair", "members: 2 drives; crypt is of one"]),
        (("arrays", "pair"), {"level": "raid1", "members": ["hdd-1", "hdd-2"], "chunk_kib": 64}, ["arrays.pair", "raid1 has no chunks", "lvm-striped"]),
        (("arrays", "pair", "level"), "raid5", ["arrays.pair.members", "2 drives", "raid5 needs at least 3"]),
        (("arrays", "bare"), {"level": "raid0", "members": ["hdd-1", "hdd-2"]}, ["hdd-1", "already a member of pair"]),
        (("arrays",), {"bare": {"level": "raid0", "members": ["hdd-1", "hdd-2"]}}, ["arrays.bare", "drive"]),
        (("virtual",), {"cpus": 2}, ["drives.fast.profile: missing"]),
        (("virtual",), {"memory_mb": 64}, ["virtual.memory_mb", "64", "512"]),
        (("nvdimm_memmap",), "4G", ["nvdimm_memmap", "'4G'"]),
        (("nvdimm_memmap",), "4G!12G", ["nvdimm_memmap", "e820-0x300000000", "4294967296"]),
    ],
)  # fmt: skip
def test_mistake_in_a_test_host(lab_files, path, value, expected):
    place = lab_files.host
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    message = refusal(lab_files)
    assert "host_vars/bench1.yml" in message
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("meters", "tap1", "driver"), "hmo", ["meters.tap1", "driver: 'hmo'", ", ".join(meters.FAMILIES), "sigrok-cli -L"]),
        (("meters", "tap1", "rate"), 5, ["meters.tap1", "unknown key 'rate'", "sample_rate_hz"]),
        (("meters", "tap1", "sample_rate_hz"), -1, ["meters.tap1.sample_rate_hz", "-1"]),
        (("meters", "tap1", "sample_rate_hz"), float("inf"), ["meters.tap1.sample_rate_hz", "finite"]),
        (("meters", "tap1", "samples"), "mean", ["meters.tap1.samples", "'mean'", "'window-mean'", "'point'"]),
        (("meters", "tap1", "virtual"), {"tap": "t", "port": "a"}, ["meters.tap1", "connection", "virtual"]),
        (("meters", "tap1", "connection"), None, ["meters.tap1", "connection", "virtual"]),
        (("meters", "tap1", "connection"), "tcp-raw/fd00::7/5025", ["meters.tap1.connection", "fd00::7", "/etc/hosts"]),
        (("meters", "tap1", "connection"), "tcp-raw/192.0.2.7:5025", ["meters.tap1.connection", "192.0.2.7:5025", "tcp-raw/HOST/PORT"]),
        (("meters", "tap1", "serialcomm"), "115200/8n1", ["meters.tap1", "serialcomm"]),
        (("meters", "tap1", "full_scale"), {"amps": 0}, ["meters.tap1.full_scale.amps: 0", "greater than 0"]),
        (("meters", "tap1", "full_scale"), {"ohms": 1}, ["meters.tap1.full_scale", "'ohms'", "'amps'"]),
        (("meters", "tap1", "clock_ppm"), 5000, ["meters.tap1.clock_ppm: 5000", "less than or equal to 1000"]),
        (("meters", "tap1", "bandwidth_hz"), 400, ["meters.tap1", "bandwidth_hz: only of a stream of points"]),
        (("meters", "tap1", "latency_seconds"), -1, ["meters.tap1.latency_seconds: -1", "greater than or equal to 0"]),
        (("points_per_second",), 5000, ["points_per_second", "5000", "1000"]),
        (("clock_listen",), "here", ["clock_listen", "'here'", "ADDRESS:PORT"]),
        (("clock_listen",), "127.0.0.1:0", ["clock_listen", "'127.0.0.1:0'", "bench1 cannot reach"]),
        (("witness_ports",), "12310", ["witness_ports: '12310'", "FIRST-LAST"]),
        (("witness_ports",), "12319-12310", ["witness_ports: '12319-12310'", "FIRST-LAST"]),
        (("witness_ports",), "65535-65536", ["witness_ports: '65535-65536'", "65535"]),
        (("influxdb",), {"url": "http://db:8086"}, ["influxdb", "token_file: missing"]),
        (("influxdb",), {"url": "db:8086", "token_file": "t"}, ["influxdb.url", "'db:8086'"]),
        (("influxdb",), {"url": "http://", "token_file": "t"}, ["influxdb.url", "'http://'"]),
        (("influxdb",), {"databse": "x"}, ["influxdb", "unknown key 'databse'; did you mean 'database'?"]),
        (("point_per_second",), 50, ["point_per_second", "unknown key", "'points_per_second'"]),
    ],
)  # fmt: skip
def test_mistake_in_the_controller(lab_files, path, value, expected):
    place = lab_files.controller
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    message = refusal(lab_files)
    assert "host_vars/boss.yml" in message
    for part in expected:
        assert part in message


def test_rails_without_any_meter(lab_files):
    lab_files.controller["meters"] = {}
    assert "'tap1' is not a meter of the controller; allowed: none is declared" in refusal(lab_files)


def test_a_serial_is_in_one_host_only(lab_files):
    lab_files.inventory_text += "bench2\n"
    other = copy.deepcopy(lab_files.host["drives"]["bare"])
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"mine": other}}
    message = refusal(lab_files)
    assert (
        "host_vars/bench2.yml: drives.mine.serial: 'SERIAL-D' is already the serial of bench1/bare" in message
    )


def test_a_channel_measures_one_rail_only_across_hosts(lab_files):
    lab_files.inventory_text += "bench2\n"
    other = {**copy.deepcopy(lab_files.host["drives"]["fast"]), "serial": "SERIAL-X"}
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"mine": other}}
    message = refusal(lab_files)
    assert (
        "host_vars/bench2.yml: drives.mine.rails.12v: channel CH1 of tap1 already measures bench1/fast"
        in message
    )


def test_emulated_nvdimm_as_the_kernel_will_give_it(lab_files):
    lab_files.host["nvdimm_memmap"] = "4G!12G"
    lab_files.drives["nvdimm"] = {"interface": "nvdimm", "serial": "e820-0x300000000", "size_bytes": 4 << 30}
    assert lab_files.load().hosts["bench1"].drives["nvdimm"].serial == "e820-0x300000000"


def test_several_nvdimms_of_a_host_share_no_module(lab_files):
    for name, serial in (("one", "8680-1"), ("two", "8680-2+8680-3")):
        lab_files.drives[name] = {"interface": "nvdimm", "serial": serial, "size_bytes": 4 << 30}
    assert lab_files.load().hosts["bench1"].drives["two"].serial == "8680-2+8680-3"
    lab_files.drives["one"]["serial"] = "8680-3+8680-1"
    assert "drives.two.serial: '8680-3' is in one already" in refusal(lab_files)


def test_an_nvdimm_cannot_be_a_member_of_an_array(lab_files):
    lab_files.drives["nvdimm"] = {"interface": "nvdimm", "serial": "8680-1", "size_bytes": 4 << 30}
    lab_files.host["arrays"]["pair"]["members"] = ["hdd-1", "nvdimm"]
    assert "arrays.pair.members: 'nvdimm' is an NVDIMM" in refusal(lab_files)


# --- drives that the host's kernel makes of memory


def disks(lab_files, *serials, size_bytes=1 << 26, **more):
    for serial in serials:
        drive = {"interface": "hdd", "serial": serial, "size_bytes": size_bytes, **more}
        lab_files.drives[f"played-{serial[-1]}"] = drive


def test_a_ram_block_device(lab_files):
    lab_files.drives["ram"] = {"interface": "ram", "serial": "ram0", "size_bytes": 1 << 30}
    assert lab_files.load().hosts["bench1"].drives["ram"].in_memory


def test_emulated_disks_may_make_an_array(lab_files):
    disks(lab_files, "scsi_debug-0", "scsi_debug-1")
    lab_files.host["emulated"] = {"by": "scsi_debug"}
    lab_files.host["arrays"]["played"] = {"level": "raid0", "members": ["played-0", "played-1"]}
    host = lab_files.load().hosts["bench1"]
    assert host.emulated.access_milliseconds == 8.0
    assert {name for name, drive in host.drives.items() if drive.emulated_by} == {"played-0", "played-1"}


def test_equal_hosts_may_have_equal_drives_of_memory(lab_files):
    lab_files.inventory_text += "bench2\n"
    ram = {"interface": "ram", "serial": "ram0", "size_bytes": 1 << 30}
    lab_files.drives["ram"] = ram
    lab_files.hosts["bench2"] = {"controller_address": "192.0.2.1", "drives": {"ram": ram}}
    assert list(lab_files.load().hosts) == ["bench1", "bench2"]


@pytest.mark.parametrize(
    ("drive", "expected"),
    [
        (
            {"interface": "ram", "serial": "SERIAL-R", "size_bytes": 1 << 30},
            ["drives.ram.serial: 'SERIAL-R'", "'ram0'"],
        ),
        (
            {"interface": "hdd", "serial": "ram0", "size_bytes": 1 << 30},
            ["drives.ram.serial: 'ram0'", "'hdd'"],
        ),
        (
            {"interface": "ram", "serial": "ram0", "size_bytes": 1000},
            ["drives.ram.size_bytes: 1000", "whole MiB"],
        ),
        (
            {"interface": "hdd", "serial": "scsi_debug-0", "size_bytes": 1 << 30},
            ["emulated: missing", "drives.ram"],
        ),
    ],
)
def test_mistake_in_a_drive_of_memory(lab_files, drive, expected):
    lab_files.drives["ram"] = drive
    message = refusal(lab_files)
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("serials", "more", "expected"),
    [
        ([], {}, ["emulated: drives' serials are none", "scsi_debug-0"]),
        (["scsi_debug-1"], {}, ["emulated: drives' serials are scsi_debug-1", "allowed: scsi_debug-0"]),
        (["scsi_debug-0"], {"interface": "nvme"}, ["drives.played-0.interface: 'nvme'", "'hdd'"]),
        (["scsi_debug-0"], {"size_bytes": 1000}, ["drives.played-0.size_bytes: 1000", "whole MiB"]),
    ],
)
def test_mistake_in_emulated_disks(lab_files, serials, more, expected):
    disks(lab_files, *serials, **more)
    lab_files.host["emulated"] = {}
    message = refusal(lab_files)
    for part in expected:
        assert part in message


def test_emulated_disks_of_two_sizes(lab_files):
    disks(lab_files, "scsi_debug-0")
    disks(lab_files, "scsi_debug-1", size_bytes=1 << 27)
    lab_files.host["emulated"] = {}
    assert "the same for all emulated disks" in refusal(lab_files)


@pytest.mark.parametrize(
    ("emulated", "expected"),
    [
        ({"by": "dm-delay"}, ["emulated.by", "'dm-delay'", "scsi_debug"]),
        ({"access_milliseconds": 0}, ["emulated.access_milliseconds", "0"]),
        ({"rpm": 7200}, ["emulated", "unknown key 'rpm'", "access_milliseconds"]),
    ],
)
def test_mistake_in_how_disks_are_emulated(lab_files, emulated, expected):
    disks(lab_files, "scsi_debug-0")
    lab_files.host["emulated"] = emulated
    message = refusal(lab_files)
    for part in expected:
        assert part in message


def test_a_ram_block_device_cannot_be_a_member_of_an_array(lab_files):
    lab_files.drives["ram"] = {"interface": "ram", "serial": "ram0", "size_bytes": 1 << 30}
    lab_files.host["arrays"]["pair"]["members"] = ["hdd-1", "ram"]
    assert "arrays.pair.members: 'ram' is a RAM block device" in refusal(lab_files)


def test_who_is_notified_of_what(lab_files):
    lab_files.controller["notifications"] = [
        {"url": "https://chat.example/hook/x"},
        {"url": "http://lab:8065/hooks/y", "on": ["failed", "finished"]},
    ]
    every, some = lab_files.load().controller.notifications
    assert {"begun", "failed", "held", "abandoned", "finished"} < set(every.on)
    assert some.on == ("failed", "finished")


def test_what_journals_and_pages_have_of_a_lab_opens_no_door(lab_files):
    lab_files.controller["notifications"] = [{"url": "https://chat.example/hook/s3cret"}]
    lab_files.controller["influxdb"] = {"url": "http://db:8086", "token_file": "/keys/s3cret"}
    lab = lab_files.load()
    found = json.dumps(lab.without_secrets())
    assert "s3cret" not in found
    assert "hook" not in found
    assert set(lab.without_secrets()["hosts"]) == set(lab.hosts)


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ({"url": "chat.example"}, r"notifications.0.url: 'chat.example'"),
        ({"url": "https://a/b", "on": ["ended"]}, r"notifications.0.on.0: 'ended'.*'begun'.*'finished'"),
        ({"on": ["failed"]}, r"notifications.0.url: Field required"),
    ],
)
def test_a_wrong_notification_is_refused(lab_files, hook, message):
    lab_files.controller["notifications"] = [hook]
    with pytest.raises(UserError, match=message):
        lab_files.load()


@pytest.mark.parametrize(
    ("level", "members", "copies", "packages"),
    [
        ("linear", 2, 1, []),
        ("raid1", 2, 2, []),
        ("raid10", 2, 2, []),
        ("lvm-linear", 1, 1, ["lvm2"]),
        ("lvm-striped", 2, 1, ["lvm2"]),
        ("crypt", 1, 1, ["cryptsetup-bin"]),
    ],
)
def test_what_an_array_needs_and_writes(lab_files, level, members, copies, packages):
    lab_files.host["arrays"]["pair"] = {"level": level, "members": ["hdd-1", "hdd-2"][:members]}
    lab = lab_files.load()
    array = lab.hosts["bench1"].arrays["pair"]
    assert (array.most_copies, array.packages) == (copies, packages)
    assert set(packages) <= set(for_guests(lab))
