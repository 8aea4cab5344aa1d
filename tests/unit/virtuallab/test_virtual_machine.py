# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual lab's parts: the machine's devices, drive profiles, the image."""

import itertools
import re
import stat
from pathlib import Path
from typing import get_args

import pytest
import yaml

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import model as lab
from joulerig.rig.lab import packages
from joulerig.rig.lab.kernels import build
from joulerig.virtuallab import hosts, image, machine, nvme, profile, taps, twin_parameters, twins
from joulerig.virtuallab import lab as virtuallab

IMAGE = image.Image(Path("/image/root.ext4"), Path("/image/vmlinuz"), Path("/image/initrd"), "6.1.0")


@pytest.fixture(scope="module")
def shipped():
    return lab.load(paths.ROOT / "inventory.ini")


@pytest.fixture(scope="module")
def vhost(shipped):
    return shipped.hosts["vhost1"]


@pytest.fixture(scope="module")
def command(vhost):
    sockets = {name: Path(f"/run/{name}.nbd") for name in vhost.twins}
    return machine.command(
        "vhost1",
        vhost,
        IMAGE,
        "tcg",
        Path("/lab/vhost1"),
        sockets,
        20022,
        Path("/run/qmp"),
        Path("/run/clock"),
    )


def options(command, flag):
    """The arguments of each `flag`, as (first word, {key: value})."""
    found = []
    for word, argument in itertools.pairwise(command):
        if word == flag:
            first, *rest = argument.split(",")
            found.append((first, dict(part.split("=", 1) for part in rest if "=" in part)))
    return found


def device_of(command, drive):
    [(kind, keys)] = [d for d in options(command, "-device") if d[1].get("drive") == drive]
    return kind, keys


@pytest.mark.parametrize(
    ("drive", "kind"),
    [("nvme-plp", "nvme"), ("nvme-consumer", "nvme"), ("sata-plp", "ide-hd"), ("hdd-1", "scsi-hd")],
)
def test_each_drive_is_a_device_of_its_interface_with_its_serial(command, vhost, drive, kind):
    found, keys = device_of(command, drive)
    assert found == kind
    assert keys["serial"] == vhost.drives[drive].serial


def test_wwns_are_those_of_the_inventory(command, vhost):
    declared = {name: d.wwn.removeprefix("naa.") for name, d in vhost.drives.items() if d.wwn}
    assert {name: device_of(command, name)[1]["wwn"].removeprefix("0x") for name in declared} == declared


def test_each_drive_is_attached_to_its_own_twin(command, vhost):
    nodes = {
        keys["node-name"]: keys for first, keys in options(command, "-blockdev") if first == "driver=nbd"
    }
    assert {name: keys["server.path"] for name, keys in nodes.items()} == {
        name: f"/run/{name}.nbd" for name in vhost.twins
    }
    assert all(keys["cache.direct"] == "on" and keys["discard"] == "unmap" for keys in nodes.values())


def test_ssds_do_not_rotate_and_hard_disks_do(command):
    assert device_of(command, "sata-plp")[1]["rotation_rate"] == "1"
    assert device_of(command, "hdd-1")[1]["rotation_rate"] == "7200"


def test_device_ids_and_sata_ports_are_used_once(command):
    devices = options(command, "-device")
    ids = [keys["id"] for _, keys in devices if "id" in keys]
    ports = [keys["bus"] for kind, keys in devices if kind == "ide-hd"]
    assert len(ids) == len(set(ids))
    assert len(ports) == len(set(ports)) == 2


def test_the_nvdimms_region_is_of_the_declared_size(command, vhost):
    [(_, memory)] = [o for o in options(command, "-object") if o[0] == "memory-backend-file"]
    [(_, device)] = [d for d in options(command, "-device") if d[0] == "nvdimm"]
    assert int(memory["size"]) - int(device["label-size"]) == vhost.drives["nvdimm"].size_bytes
    assert device["memdev"] == memory["id"]
    assert options(command, "-machine")[0][1]["nvdimm"] == "on"
    assert options(command, "-m")[0][1]["slots"] == "1"


def test_ssh_is_reachable_from_this_machine_only(command):
    [(_, net)] = options(command, "-netdev")
    assert net["hostfwd"] == "tcp:127.0.0.1:20022-:22"


@pytest.mark.parametrize(("how", "option"), [("kvm", "kvm"), ("tcg", "tcg")])
def test_the_accelerator_is_the_chosen_one(vhost, how, option):
    sockets = {name: Path(f"/run/{name}.nbd") for name in vhost.twins}
    command = machine.command(
        "vhost1", vhost, IMAGE, how, Path("/lab"), sockets, 1, Path("/run/qmp"), Path("/c")
    )
    assert options(command, "-accel")[0][0] == option


@pytest.mark.parametrize(("how", "model", "without"), [("kvm", "host", set()), ("tcg", "max", {"-erms"})])
def test_an_emulated_processor_does_not_offer_to_copy_by_single_bytes(vhost, how, model, without):
    sockets = {name: Path(f"/run/{name}.nbd") for name in vhost.twins}
    command = machine.command(
        "vhost1", vhost, IMAGE, how, Path("/lab"), sockets, 1, Path("/run/qmp"), Path("/c")
    )
    given, *features = command[command.index("-cpu") + 1].split(",")
    assert (given, set(features)) == (model, without)


@pytest.mark.parametrize(("how", "of_the_lab"), [("kvm", False), ("tcg", True)])
def test_an_emulated_host_does_not_tell_time_by_the_machines_counter(how, of_the_lab):
    words = machine.kernel_arguments(how).split()
    emulated = {"clocksource=hpet", "tsc=unstable", "no_timer_check"}
    assert emulated & set(words) == (emulated if of_the_lab else set())


@pytest.fixture
def own_controllers(vhost):
    """The host with the twins of its NVMe drives as their controllers."""
    return vhost.model_copy(update={"virtual": vhost.virtual.model_copy(update={"nvme": "twin"})})


def command_of(host):
    sockets = {name: Path(f"/run/{name}.nbd") for name in host.twins}
    return machine.command(
        "vhost1", host, IMAGE, "tcg", Path("/lab/vhost1"), sockets, 1, Path("/run/qmp"), Path("/run/clock")
    )


def test_drives_that_are_controllers_are_no_devices_of_the_machine(own_controllers):
    command = command_of(own_controllers)
    nodes = {keys["node-name"] for first, keys in options(command, "-blockdev") if first == "driver=nbd"}
    assert nodes == {name for name in own_controllers.twins if not name.startswith("nvme")}
    assert not [kind for kind, _ in options(command, "-device") if kind == "nvme"]
    assert "name=opt/joulerig/drives,file=/lab/vhost1/drives" in command
    assert "fua_by_flush.off=1" in command[command.index("-append") + 1].split()


def test_a_host_of_qemus_controllers_needs_the_flush_in_place_of_fua(command):
    assert not [word for word in command if "opt/joulerig/drives" in word]
    assert "fua_by_flush" not in command[command.index("-append") + 1]


def test_a_host_is_given_what_it_connects_to_its_drives_with(state, own_controllers):
    lines = nvme.connections("vhost1", own_controllers)
    found = [dict(word.split("=", 1) for word in line.split(",") if "=" in word) for line in lines]
    twins_of = {
        name: twins.process("vhost1", name, drive, state / "drives", is_controller=True).command
        for name, drive in nvme.drives(own_controllers).items()
    }
    assert list(twins_of) == ["nvme-plp", "nvme-consumer"]
    for keys, command in zip(found, twins_of.values(), strict=True):
        words = dict(word.split("=", 1) for word in command if word.startswith("nvme"))
        assert words["nvme"] == f"127.0.0.1:{keys['trsvcid']}"
        assert keys["traddr"] == "10.0.2.2"  # as the host sees this machine
        name_file = Path(words["nvme_name"].removeprefix("+"))
        assert name_file.read_text().strip() == keys["nqn"]
        assert stat.S_IMODE(name_file.stat().st_mode) == 0o600
        assert not any(keys["nqn"] in word for word in command)  # every user sees a command line
        assert keys["nr_io_queues"] == str(own_controllers.virtual.cpus)
    assert len({keys["nqn"] for keys in found}) == len({keys["trsvcid"] for keys in found}) == 2
    assert len({keys["hostid"] for keys in found}) == 1
    assert all(line.endswith(",keep_alive_tmo=86400,ctrl_loss_tmo=0,disable_sqflow") for line in lines)
    assert nvme.connections("vhost1", own_controllers) == lines  # after a reset it is the same host


def test_a_host_of_qemus_controllers_connects_to_nothing(state, vhost):
    assert nvme.drives(vhost) == {}
    assert nvme.connections("vhost1", vhost) == []
    assert not [
        word for word in twin_process("nvme-plp", vhost.drives["nvme-plp"]).command if "nvme=" in word
    ]


def test_the_file_of_the_connections_is_for_qemu_alone(state, tmp_path, own_controllers):
    folder, guest = lab_folder(tmp_path)
    hosts.process("vhost1", own_controllers, guest, "tcg", folder)
    path = folder / "vhost1" / "drives"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines() == nvme.connections("vhost1", own_controllers)


@pytest.mark.parametrize(
    ("wwn", "expected"), [("eui.0025385b91b05678", ["nvme_eui64=0025385b91b05678"]), (None, [])]
)
def test_a_controllers_wwn_is_that_of_the_inventory(state, vhost, wwn, expected):
    drive = vhost.drives["nvme-consumer"].model_copy(update={"wwn": wwn})
    words = nvme.parameters("vhost1", "nvme-consumer", drive, profile.load("nvme-consumer"))
    assert [word for word in words if word.startswith("nvme_eui64")] == expected
    assert "nvme_model=Joulerig NVMe twin" in words


def test_a_host_has_a_port_at_which_it_asks_for_slow_motion(command):
    [(_, chardev)] = options(command, "-chardev")
    assert chardev["path"] == "/run/clock"
    ports = [keys for kind, keys in options(command, "-device") if kind == "virtserialport"]
    assert ports == [{"chardev": "clock", "name": "joulerig.clock"}]


# What drives each device of a virtual host, as lsmod names it.
MODULES = {
    "virtio-rng-pci": "virtio_rng",
    "virtio-net-pci": "virtio_net",
    "virtio-blk-pci": "virtio_blk",
    "virtio-scsi-pci": "virtio_scsi",
    "virtio-serial-pci": "virtio_console",
    "virtserialport": "virtio_console",
    "nvdimm": "nfit",
    "nvme": "nvme",
    "ide-hd": "ahci",
    "scsi-hd": "sd_mod",
}


def test_a_kernel_built_for_virtual_hosts_drives_all_of_their_devices(command):
    kept = build.Recipe(100, "virtual").modules.split()
    assert {MODULES[kind] for kind, _ in options(command, "-device")} <= {*kept}


def test_a_host_without_nvdimm_has_no_slots_for_one(vhost):
    drives = {name: d for name, d in vhost.drives.items() if d.interface != "nvdimm"}
    host = vhost.model_copy(update={"drives": drives})
    sockets = {name: Path(f"/run/{name}.nbd") for name in drives}
    command = machine.command("v", host, IMAGE, "tcg", Path("/lab"), sockets, 1, Path("/run/qmp"), Path("/c"))
    assert "nvdimm" not in " ".join(command)


def test_the_root_disk_is_not_a_drive_under_test(command, vhost):
    """It is virtio, which has no serial in its device folder, so no drive can match it."""
    [(kind, keys)] = [d for d in options(command, "-device") if d[1].get("drive") == "root"]
    assert kind == "virtio-blk-pci"
    assert "serial" not in keys


def lab_folder(tmp_path):
    """The folder of a lab with its keys, and an image for its hosts."""
    folder = paths.var() / "lab"
    (folder / "ssh").mkdir(parents=True)
    for key in ("id_ed25519.pub", "host_ed25519"):
        (folder / "ssh" / key).write_text("key")
    root = tmp_path / "root.ext4"
    root.write_bytes(bytes(1 << 16))
    return folder, image.Image(root, Path("/image/vmlinuz"), Path("/image/initrd"), "6.1.0")


@pytest.mark.parametrize("there_before", [False, True])
def test_a_guests_disks_and_console_are_its_users_alone(state, tmp_path, vhost, there_before):
    folder, guest = lab_folder(tmp_path)
    own = folder / "vhost1"
    if there_before:
        own.mkdir(mode=0o755)
        (own / "image").write_text(str(guest.root))
        for name in ("root.qcow2", "console.log", "nvdimm.img"):
            (own / name).touch()
            (own / name).chmod(0o644)
    process = hosts.process("vhost1", vhost, guest, "tcg", folder)
    assert process.private  # for what QEMU makes itself
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    for name in ("root.qcow2", "nvdimm.img", *(["console.log"] if there_before else [])):
        assert stat.S_IMODE((own / name).stat().st_mode) == 0o600


# --- twins and taps


def twin_process(name, drive):
    return twins.process("vhost1", name, drive, paths.var() / "lab")


def test_a_twin_is_given_the_profile_of_its_drive(state, vhost):
    program = twin_process("hdd-1", vhost.drives["hdd-1"])
    words = dict(
        word.split("=", 1) for word in program.command if "=" in word and not word.startswith("rail=")
    )
    assert words["serial"] == vhost.drives["hdd-1"].serial
    assert int(words["size"]) == vhost.drives["hdd-1"].size_bytes
    model = profile.load("hdd-7200")
    rails = [word.removeprefix("rail=").split(",") for word in program.command if word.startswith("rail=")]
    assert [rail[0] for rail in rails] == list(model.rails)
    for rail in rails:
        of = model.rails[rail[0]]
        assert list(map(float, rail[1:])) == [
            of.volts, of.source_ohms, of.idle_watts, of.read_joules_per_byte, of.write_joules_per_byte,
            of.command_joules, of.flush_joules,
        ]  # fmt: skip


def test_every_rail_of_the_shipped_lab_is_measured_by_its_tap(state, shipped, vhost):
    """Each twin's rail goes to the rail of the tap whose port and channels the inventory names."""
    for tap in ("tap1", "tap2", "tap3"):
        command = taps.process(shipped, tap).command
        wired = dict(w.split("=", 1) for flag, w in itertools.pairwise(command) if flag == "--rail")
        expected = {}
        for drive, spec in vhost.twins.items():
            for name, rail in spec.rails.items():
                port = shipped.controller.meters[rail.meter].virtual
                if port.tap == tap:
                    number = {"a": 1, "b": 3}[port.port] + (rail.volts == "CH3")
                    expected[str(number)] = f"{twins.control_socket('vhost1', drive)}:{name}"
        assert wired == expected


def test_a_twin_is_given_the_power_states_of_its_profile(state, vhost):
    command = twin_process("nvme-consumer", vhost.drives["nvme-consumer"]).command
    model = profile.load("nvme-consumer")
    assert [word for word in command if word.startswith("operational=")] == [
        f"operational={state.entry_us * 1000:.0f},{state.exit_us * 1000:.0f},{state.rate}"
        for state in model.operational_states
    ]
    assert "operational_watts=3v3,8.49,4.48,3.18" in command
    assert "operational_idle_watts=3v3,0.35,0.35,0.35" in command
    assert "operating=0" in command
    without = twin_process("sata-plp", vhost.drives["sata-plp"]).command
    assert not [word for word in without if word.startswith("operat")]


def test_a_state_may_idle_at_its_own_watts():
    model = profile.load("nvme-consumer")
    changed = model.model_dump()
    changed["power_states"][1] |= {"idle_watts": {"3v3": 0.2}, "rate": 0.5}
    changed["operating_state"] = "PS1"
    changed["flash"]["rated_erases"] = 600
    words = twin_parameters.from_profile(profile.Profile(**changed))
    assert {
        "operational=0,0,0.5", "operational_idle_watts=3v3,0.35,0.2,0.35", "operating=1",
        "rated_erases=600.0",
    } <= set(words)  # fmt: skip
    assert words[0].endswith(f",{4.48 - 0.2}")


def test_a_rail_that_the_profile_lacks(state, vhost):
    drive = vhost.drives["nvme-plp"].model_copy(update={"profile": "nvme-consumer"})
    with pytest.raises(
        UserError, match=r"drives.nvme-plp.rails: profile 'nvme-consumer' has no rail '12v'; allowed: 3v3"
    ):
        twin_process("nvme-plp", drive)


def test_a_drive_that_its_profile_is_not(state, vhost):
    drive = vhost.drives["nvme-plp"].model_copy(update={"plp": False})
    with pytest.raises(
        UserError,
        match=r"drives.nvme-plp: interface 'nvme', plp False: profile 'nvme-enterprise' is nvme, plp True",
    ):
        twin_process("nvme-plp", drive)


def test_a_twin_is_given_the_time_of_its_profile(state, vhost):
    flash = twin_process("nvme-plp", vhost.drives["nvme-plp"]).command
    assert {"model=flash", "channels=18", "page_read_ns=40000", "plp=yes", "write_cache=33554432"} <= set(
        flash
    )
    assert flash.index("work=12v,gc,1.1e-08,0.0") > max(
        n for n, w in enumerate(flash) if w.startswith("rail=")
    )
    disk = twin_process("hdd-1", vhost.drives["hdd-1"]).command
    assert {
        "model=disk",
        "rpm=7200",
        "average_seek_ns=8500000",
        "work=12v,seek,0.0,4.4",
        "ready=8000000000",
    } <= set(disk)


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("hdd-7200", {"disk": {"rpm": 0}}, r"odd.yml: disk.rpm: 0; allowed: greater than 0"),
        ("hdd-7200", {"disk": {"speed": 1}}, r"odd.yml: disk: unknown key 'speed'; allowed: command_us, head_switch_ms"),
        ("sata-consumer", {"flash": {"latency_us": {"read": 1}}}, r"odd.yml: flash.latency_us.write: Field required"),
        ("sata-consumer", {"disk": {}}, r"odd.yml: disk.rpm: Field required"),
        ("nvme-consumer", {"operating_state": "PS9"}, r"odd.yml: .*operating_state: 'PS9'; allowed: PS0, PS1, PS2"),
        ("nvme-consumer", {"interface": "scsi"}, r"odd.yml: interface: 'scsi'; allowed: 'sata' or 'nvme'"),
        (
            "nvme-consumer",
            {"power_states": [{"name": "PS3", "watts": {"3v3": 0.04}, "idle_seconds": 1}, {"name": "PS0", "watts": {"3v3": 8}}]},
            r"odd.yml: .*operational states \(without idle_seconds\) must come first",
        ),
        (
            "nvme-consumer",
            {"power_states": [{"name": "PS0", "watts": {"3v3": 8}, "idle_watts": {"5v": 1}}]},
            r"odd.yml: .*PS0: idle_watts: allowed: of an operational state, rails \['3v3'\]",
        ),
        (
            "nvme-consumer",
            {"power_states": [{"name": "PS0", "watts": {"3v3": 8}, "rate": 0}]},
            r"odd.yml: power_states.0.rate: 0; allowed: ",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_profiles_time_is_reported_with_its_key(tmp_path, monkeypatch, name, change, line):
    content = yaml.safe_load((profile.FOLDER / f"{name}.yml").read_text())
    for key, value in change.items():
        content[key] = {**content.get(key, {}), **value} if isinstance(value, dict) else value
    (tmp_path / "odd.yml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(profile, "FOLDER", tmp_path)
    with pytest.raises(UserError, match=line):
        profile.load("odd")


def test_channels_that_a_virtual_tap_does_not_have(state, lab_files):
    lab_files.controller["meters"]["tap1"] = {
        "driver": "hameg-hmo", "virtual": {"tap": "t", "port": "a"}, "sample_rate_hz": 1000
    }  # fmt: skip
    lab_files.host["virtual"] = {}
    for drive in lab_files.drives.values():
        drive["profile"] = "hdd-7200"
    lab_files.drives["fast"]["rails"]["12v"] = {"meter": "tap1", "volts": "CH2", "amps": "CH1"}
    with pytest.raises(UserError, match="channels CH2, CH1: a virtual tap has CH1, CH2 or CH3, CH4"):
        taps.process(lab_files.load(), "t")


# --- profiles


@pytest.mark.parametrize("name", profile.names())
def test_each_shipped_profile_loads_and_names_its_sources(name):
    model = profile.load(name)
    assert model.sources
    assert all(len(source) > 20 for source in model.sources)


def test_the_shipped_drives_rails_are_those_of_their_profiles(vhost):
    for drive in vhost.twins.values():
        assert set(drive.rails) == set(profile.load(drive.profile).rails)


def test_every_shipped_profile_is_used_but_that_of_one_measured_drive(vhost):
    """A lab that wants it declares it: docs/how-to/fit-a-twin.md."""
    assert {drive.profile for drive in vhost.twins.values()} == set(profile.names()) - {"nvme-powersensor3"}


def test_models_fit_what_the_interfaces_carry():
    assert all(len(profile.load(name).model) <= 40 for name in profile.names())


def test_an_unknown_profile_is_reported_with_the_known_ones():
    with pytest.raises(
        UserError, match=r"^here: 'floppy' is no drive profile; allowed: hdd-7200, nvme-consumer"
    ):
        profile.load("floppy", "here")


def test_a_mistake_in_a_profile_is_reported_with_its_key(tmp_path, monkeypatch):
    content = yaml.safe_load((profile.FOLDER / "hdd-7200.yml").read_text())
    content["rails"]["5v"]["idle_watts"] = -1
    (tmp_path / "odd.yml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(profile, "FOLDER", tmp_path)
    with pytest.raises(UserError, match=r"odd\.yml: rails\.5v\.idle_watts: -1; "):
        profile.load("odd")


@pytest.fixture
def own(lab_files):
    """A lab with an own profile, made of a shipped one."""
    content = yaml.safe_load((profile.FOLDER / "sata-consumer.yml").read_text())
    content |= {"description": "a drive of this lab", "model": "LAB SSD"}
    folder = lab_files.folder / "profiles"
    folder.mkdir()
    (folder / "lab-ssd.yml").write_text(yaml.safe_dump(content))
    lab_files.drives["bare"] |= {"profile": "lab-ssd"}
    return lab_files


def test_a_labs_profile_is_found_next_to_its_inventory(state, own):
    lab = own.load()
    profiles = profile.load_all(lab)
    assert set(profiles) == {*profile.names(), "lab-ssd"}
    drive = lab.hosts["bench1"].drives["bare"]
    twin = twins.process("bench1", "bare", drive, state / "drives", profiles)
    assert f"serial={drive.serial}" in twin.command
    assert "model=LAB SSD" in machine._device("bare", drive, 0, iter(range(6)), profiles)
    assert "| `lab-ssd` | a drive of this lab | sata | no |" in profile.reference(profiles)


def test_a_drive_cannot_name_a_profile_that_is_not_there(state, own):
    own.drives["bare"]["profile"] = "lab-sd"
    lab = own.load()
    with pytest.raises(UserError, match=r"profile: 'lab-sd' is no drive profile; allowed: .*lab-ssd"):
        twins.process(
            "bench1", "bare", lab.hosts["bench1"].drives["bare"], state / "drives", profile.load_all(lab)
        )


def test_a_labs_profile_does_not_take_a_shipped_ones_name(own):
    (own.folder / "profiles" / "lab-ssd.yml").rename(own.folder / "profiles" / "hdd-7200.yml")
    with pytest.raises(
        UserError, match=r"hdd-7200\.yml: hdd-7200: is a shipped drive profile; give another name"
    ):
        profile.load_all(own.load())


# --- image


def test_the_images_hash_is_that_of_its_definition(monkeypatch):
    before = image.definition_hash()
    assert re.fullmatch(r"[0-9a-f]{16}", before)
    assert image.definition_hash() == before
    for name, value in (
        ("SIZE", "5G"),
        ("PACKAGES", ["fio"]),
        ("PREPARE", "true"),
        ("CUSTOMISE", "true"),
        ("GUEST", ""),
    ):
        with monkeypatch.context() as other:
            other.setattr(image, name, value)
            assert image.definition_hash() != before
    assert image.definition_hash() == before


def test_each_release_has_its_own_image():
    releases = get_args(lab.Release)
    assert lab.VirtualHost().release == image.SUITE
    assert image.definition_hash(suite=image.SUITE) == image.definition_hash()
    assert len({image.definition_hash(suite=suite) for suite in releases}) == len(releases)


def test_a_kernel_gets_the_module_that_it_can_load():
    """Linux 6.11 took away the function at which the first one looks."""
    by_source = {suite: image.guest_module(suite) for suite in get_args(lab.Release)}
    old = [suite for suite, source in by_source.items() if '"blk_queue_write_cache"' in source]
    new = [suite for suite, source in by_source.items() if '"queue_limits_commit_update"' in source]
    assert (old, new) == (["bullseye", "bookworm"], ["trixie", "sid"])


def test_packages_that_a_lab_wants_make_another_image_whatever_their_order():
    before = image.definition_hash()
    assert (
        image.definition_hash(["postmark", "bc"])
        == image.definition_hash(["bc", "postmark", "fio"])
        != before
    )
    assert image.definition_hash(["fio"]) == before


def test_the_image_has_what_provisioning_installs():
    """A virtual host has no network: its packages come with the image."""
    defaults = yaml.safe_load((paths.ROOT / "ansible/roles/packages/defaults/main.yml").read_text())
    shipped = lab.load(paths.ROOT / "inventory.ini")
    wanted = {*defaults["packages_wanted"], *packages.for_filesystems(shipped)}
    assert wanted <= {*image.PACKAGES, *packages.for_guests(shipped)}


def test_a_labs_images_are_those_of_its_hosts_releases(monkeypatch):
    monkeypatch.setattr(image, "build", lambda wanted, suite, report: (suite, sorted(wanted)))
    shipped = lab.load(paths.ROOT / "inventory.ini")
    wanted = sorted(packages.for_guests(shipped))
    assert virtuallab.build_images(shipped) == {"bookworm": ("bookworm", wanted)}


def test_what_ansible_sends_is_compiled_into_the_image():
    """Else the first call of each module compiles for seconds on an emulated processor."""
    sent = {path.relative_to(folder) for folder in image.sent().values() for path in folder.rglob("*.py")}
    for wanted in ("basic.py", "joulerig/runs/one_run.py", "joulerig_run.py", "systemd_service.py"):
        assert Path(wanted) in sent


def test_no_image_is_cached_until_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    image.folder().mkdir(parents=True)
    (image.folder() / "root.ext4").touch()
    assert image.cached() is None
    (image.folder() / "manifest.json").write_text('{"release": "6.1.0-1"}')
    assert image.cached().release == "6.1.0-1"
