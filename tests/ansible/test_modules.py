# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules as Ansible calls them: through main, on a fake host, with fake tools."""

import json
import sys

import joulerig_array
import joulerig_drives
import joulerig_nvdimm
import joulerig_run
import pytest
from ansible.module_utils.testing import patch_module_args

from ansible.module_utils.joulerig import drive, tools

GIB = 1 << 30


def call(module, capsys, **arguments):
    """What a module's main answers to these arguments."""
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main()
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def host(fake, monkeypatch):
    """The fake host is what the modules find where nobody names another."""
    monkeypatch.setattr(drive.Host.__init__, "__defaults__", (str(fake.sys), str(fake.proc), str(fake.dev)))
    monkeypatch.setattr(drive, "_check_exclusive", lambda what, device: None)
    return fake


def declared(number, **more):
    return {"interface": "hdd", "serial": f"HDD-{number}", "wwn": None, "size_bytes": GIB, **more}


DRIVES = {"hdd-1": declared(1), "hdd-2": declared(2)}


# --- joulerig_drives


def smartctl(tool, serial="HDD-1", size=GIB):
    tool("smartctl", f"""echo '{{"serial_number": "{serial}", "user_capacity": {{"bytes": {size}}}}}'""")


def test_drives_that_are_as_declared(host, tool, capsys):
    host.disk("sda", "HDD-1", vpd=True)
    smartctl(tool)
    answer = call(joulerig_drives, capsys, drives={"hdd-1": declared(1)})
    assert not answer.get("failed")
    assert answer["changed"] is False
    assert answer["found"]["hdd-1"]["device"] == "/dev/sda"


def test_a_drive_that_is_missing(host, tool, capsys):
    host.disk("sda", "HDD-1", vpd=True)
    smartctl(tool)
    answer = call(joulerig_drives, capsys, drives=DRIVES)
    assert answer["failed"]
    assert answer["msg"] == "hdd-2: no drive with serial 'HDD-2' on this host; present: HDD-1"
    assert list(answer["found"]) == ["hdd-1"]


@pytest.mark.parametrize("other", [{"serial": "HDD-9"}, {"size": 2 * GIB}])
def test_a_drive_whose_own_tool_says_otherwise(host, tool, capsys, other):
    host.disk("sda", "HDD-1", vpd=True)
    smartctl(tool, **other)
    answer = call(joulerig_drives, capsys, drives={"hdd-1": declared(1)})
    assert answer["failed"]
    assert "its tool says serial" in answer["msg"]


def test_a_drive_that_its_tool_cannot_identify(host, tool, capsys):
    host.disk("sda", "HDD-1", vpd=True)
    tool("smartctl", "echo '{}'; exit 2")
    assert (
        "smartctl cannot identify it" in call(joulerig_drives, capsys, drives={"hdd-1": declared(1)})["msg"]
    )


def test_an_nvme_drive_is_checked_with_nvme_list(host, tool, capsys):
    host.disk("nvme0n1", "SERIAL-A")
    device = {"DevicePath": "/dev/nvme0n1", "SerialNumber": "SERIAL-A ", "PhysicalSize": GIB}
    tool("nvme", f"echo '{json.dumps({'Devices': [device]})}'")
    drives = {"fast": {"interface": "nvme", "serial": "SERIAL-A", "size_bytes": GIB}}
    assert not call(joulerig_drives, capsys, drives=drives).get("failed")


def test_an_nvme_drive_that_nvme_list_does_not_know(host, tool, capsys):
    host.disk("nvme0n1", "SERIAL-A")
    tool("nvme", "echo '{\"Devices\": []}'")
    drives = {"fast": {"interface": "nvme", "serial": "SERIAL-A", "size_bytes": GIB}}
    assert "nvme list does not know it" in call(joulerig_drives, capsys, drives=drives)["msg"]


# --- joulerig_array


@pytest.fixture
def pair(host):
    host.disk("sda", "HDD-1", vpd=True)
    host.disk("sdb", "HDD-2", vpd=True)
    return host


def array(capsys, **more):
    arguments = {"name": "pair", "level": "raid0", "members": ["hdd-1", "hdd-2"], "drives": DRIVES, **more}
    return call(joulerig_array, capsys, **arguments)


def test_an_array_that_is_there_is_left_as_it_is(pair, tool, capsys):
    calls = tool("mdadm", "")
    pair.array("pair", "md127", ["sda", "sdb"])
    assert array(capsys)["changed"] is False
    assert not calls.exists()


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ({"level": "raid10"}, "is raid10, the inventory says raid0"),
        ({"chunk_size": "524288"}, "has chunks of 512 KiB, the inventory says 64"),
    ],
)
def test_an_array_that_is_another_one_is_refused(pair, tool, capsys, there, told):
    calls = tool("mdadm", "")
    pair.array("pair", "md127", ["sda", "sdb"], **there)
    answer = array(capsys)
    assert answer["failed"]
    assert told in answer["msg"]
    assert not calls.exists()


def test_an_array_of_other_members_is_refused(pair, tool, capsys):
    pair.disk("sdc", "HDD-3", vpd=True)
    pair.array("pair", "md127", ["sda", "sdc"])
    assert "has other members than the inventory: sda, sdc" in array(capsys)["msg"]


def test_a_member_that_is_not_declared(pair, capsys):
    assert (
        "member 'hdd-7' is no declared drive; allowed: hdd-1, hdd-2"
        in array(capsys, members=["hdd-1", "hdd-7"])["msg"]
    )


def test_check_mode_tells_what_it_would_do(pair, tool, capsys):
    calls = tool("mdadm", "")
    assert array(capsys, _ansible_check_mode=True)["changed"] is True
    assert not calls.exists()


def test_a_new_array_is_made_of_the_leased_devices(pair, tool, capsys, monkeypatch):
    calls = tool("mdadm", "")
    monkeypatch.setattr(
        joulerig_array.os.path,
        "exists",
        lambda path, real=joulerig_array.os.path.exists: path == "/dev/md/pair" or real(path),
    )
    answer = array(capsys, level="raid10", chunk_kib=128)
    assert answer["changed"] is True
    words = calls.read_text().split()
    assert words[:2] == ["--create", "/dev/md/pair"]
    assert {"--level=raid10", "--chunk=128", "--raid-devices=2"} <= set(words)
    assert words[-2:] == [str(pair.dev / "sda"), str(pair.dev / "sdb")]


def test_no_array_is_made_when_one_member_is_in_use(pair, tool, capsys):
    calls = tool("mdadm", "")
    pair.mount("/dev/sdb", "/srv", pair.number("sdb"))
    answer = array(capsys)
    assert answer["failed"]
    assert "hdd-2: /dev/sdb is mounted at /srv" in answer["msg"]
    assert not calls.exists()


# --- joulerig_nvdimm

NVDIMM = {"name": "nvdimm", "interface": "nvdimm", "serial": "8680-1", "size_bytes": GIB}


def ndctl(tool, *namespaces):
    region = {"dev": "region0", "size": GIB, "mappings": [{"dimm": "nmem0"}], "namespaces": list(namespaces)}
    listing = json.dumps({"dimms": [{"dev": "nmem0", "id": "8680-1"}], "regions": [region]})
    return tool("ndctl", f"[ $1 != list ] || echo '{listing}'")


def created(calls):
    return [line for line in calls.read_text().splitlines() if line.startswith("create-namespace")]


def test_a_namespace_that_is_right_is_left_as_it_is(host, tool, capsys):
    calls = ndctl(tool, {"dev": "namespace0.0", "mode": "fsdax", "blockdev": "pmem0"})
    answer = call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)
    assert (answer["changed"], answer["blockdev"]) == (False, "pmem0")
    assert created(calls) == []


def test_a_namespace_is_made_where_there_is_none(host, tool, capsys):
    calls = ndctl(tool)
    assert call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["changed"] is True
    assert created(calls) == ["create-namespace --mode=fsdax --region=region0"]


def test_a_raw_namespace_that_is_mounted_is_not_touched(host, tool, capsys):
    host.device("pmem0")
    host.mount("/dev/pmem0", "/mnt", host.number("pmem0"))
    calls = ndctl(tool, {"dev": "namespace0.0", "mode": "raw", "blockdev": "pmem0"})
    answer = call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)
    assert "pmem0 is mounted at /mnt" in answer["msg"]
    assert created(calls) == []


def test_a_namespace_whose_use_cannot_be_told_is_not_touched(host, tool, capsys):
    calls = ndctl(tool, {"dev": "namespace0.0", "mode": "devdax", "chardev": "dax0.0"})
    assert "mode 'devdax'" in call(joulerig_nvdimm, capsys, nvdimm=NVDIMM)["msg"]
    assert created(calls) == []


# --- joulerig_run


@pytest.fixture
def rig(pair, tool, monkeypatch, tmp_path):
    """A host where a run can go through: the kernel's part is played by files, the tools by scripts."""
    for name in ("sda", "sdb"):
        pair.put(pair.sys / "block" / name / "queue/scheduler", "none [mq-deadline] bfq\n")
        pair.put(pair.sys / "block" / name / "queue/write_cache", "write back\n")
        pair.put(pair.sys / "block" / name / "stat", "1 0 8 0 1 0 8 0 0 0 0 0 0 0 0 1 0\n")
    monkeypatch.setattr(
        joulerig_run.drive.HostLock.__init__, "__defaults__", (0.0, str(tmp_path / "run.lock"))
    )
    for function in ("get", "schedulers", "put", "put_write_cache", "apply", "stat"):
        target = getattr(joulerig_run.blockqueue, function)
        monkeypatch.setattr(target, "__defaults__", (str(pair.sys),))
    monkeypatch.setattr(joulerig_run, "MOUNT_POINT", str(tmp_path / "mnt"))
    monkeypatch.setattr(joulerig_run.filesystem, "check", lambda definition: None)
    monkeypatch.setattr(joulerig_run.filesystem, "drop_caches", lambda: None)
    monkeypatch.setattr(
        joulerig_run.clock,
        "measure",
        lambda server: {"at_ns": 1, "offset_ns": 0, "error_ns": 1, "exchanges": 1},
    )
    mounted = []

    def mount(undo, device, definition, place):
        mounted.append(device)
        undo.callback(mounted.remove, device)
        return "rw,relatime"

    monkeypatch.setattr(joulerig_run.filesystem, "mount", mount)
    pair.mounted = mounted
    pair.mkfs = tool("mkfs.odd", "")
    tool("smartctl", 'echo \'{"smart_status": {"passed": true}}\'')
    fio(tool)
    return pair


def fio(tool, end="exit 0"):
    tool(
        "fio",
        """[ "$1" != --version ] || exit 0
for word in "$@"; do case "$word" in --output=*) output=${word#--output=} ;; *) job=$word ;; esac; done
for way in prerun postrun; do sed -n "s/^exec_$way=//p" "$job" | sh > /dev/null; done
echo '{"jobs": [{"jobname": "j", "error": 0, "read": {"total_ios": 0, "io_bytes": 0},' > "$output"
echo '"write": {"total_ios": 5, "io_bytes": 20480}}]}' >> "$output"
"""
        + end,
    )


def run(capsys, **more):
    arguments = {
        "run": "study-1-0001", "campaign": "study-1", "host": "bench1", "drive": "hdd-1",
        "members": [{"name": "hdd-1", **declared(1)}],
        "filesystem": {"name": "odd", "type": "odd", "mkfs": ["mkfs.odd"], "mount_options": []},
        "scheduler": "bfq", "workload": {"name": "j", "job": "[j]\n"},
        "phases": {"idle": 0, "workload": 1, "tail": 0}, "seed": 1, "clock_server": "127.0.0.1:1",
        "agent_socket": "/nonexistent/iod.sock", **more,
    }  # fmt: skip
    return call(joulerig_run, capsys, **arguments)


def scheduler(host, name="sda"):
    return (host.sys / "block" / name / "queue/scheduler").read_text().strip()


def test_a_run_that_goes_through(rig, capsys):
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert [p["phase"] for p in answer["phases"]] == ["prepare", "precondition", "idle", "workload", "tail"]
    assert answer["settings"]["queue"]["scheduler"] == {"before": "mq-deadline", "in_effect": "bfq"}
    assert answer["settings"]["mkfs"] == ["mkfs.odd", str(rig.dev / "sda")]
    assert answer["health"]["before"] == answer["health"]["after"] == {"smart_status": {"passed": True}}
    assert len(answer["clock"]) == 2
    assert answer["report"]["jobs"]


def test_everything_is_put_back(rig, capsys):
    run(capsys)
    assert scheduler(rig) == "mq-deadline"
    assert rig.mounted == []


def test_everything_is_put_back_after_a_load_that_failed(rig, tool, capsys):
    fio(tool, "echo 'fio: no space' >&2; exit 1")
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("failed", "fio: exit 1: fio: no space")
    assert scheduler(rig) == "mq-deadline"
    assert rig.mounted == []


def test_a_drive_in_use_is_refused_and_untouched(rig, capsys):
    rig.mount("/dev/sda", "/srv", rig.number("sda"))
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("not-run", "refused: hdd-1: /dev/sda is mounted at /srv")
    assert answer["changed"] is False
    assert not rig.mkfs.exists()
    assert scheduler(rig) == "none [mq-deadline] bfq"


@pytest.mark.parametrize(
    "other", [{"serial": "HDD-9"}, {"size_bytes": 2 * GIB}, {"wwn": "naa.5000c500a0000009"}]
)
def test_a_drive_that_is_not_the_declared_one_is_refused_and_untouched(rig, capsys, other):
    answer = run(capsys, members=[{"name": "hdd-1", **declared(1, **other)}])
    assert answer["status"] == "not-run"
    assert not rig.mkfs.exists()


def test_a_drive_that_is_exchanged_between_check_and_mkfs_is_untouched(rig, capsys, monkeypatch):
    """The scheduler is set in between: that is where the other drive appears."""
    real = joulerig_run.blockqueue.apply

    def exchange(*arguments):
        rig.put((rig.sys / "block/sda").resolve() / "device/vpd_pg80", b"\x00\x80\x00\x05OTHER")
        return real(*arguments)

    monkeypatch.setattr(joulerig_run.blockqueue, "apply", exchange)
    answer = run(capsys)
    assert answer["status"] == "not-run"
    assert "no drive with serial 'HDD-1'" in answer["reason"]
    assert not rig.mkfs.exists()


def test_a_scheduler_the_kernel_lacks_makes_no_run(rig, capsys):
    answer = run(capsys, scheduler="kyber")
    assert answer["status"] == "not-run"
    assert "'kyber' is not available" in answer["reason"]
    assert not rig.mkfs.exists()


def test_mkfs_that_fails(rig, tool, capsys):
    tool("mkfs.odd", "echo 'mkfs.odd: device too small' >&2; exit 1")
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == ("failed", "mkfs.odd: exit 1: mkfs.odd: device too small")
    assert scheduler(rig) == "mq-deadline"


def test_a_scheduler_that_changes_during_the_load_fails_the_run(rig, tool, capsys):
    fio(tool, f"echo none > {rig.sys}/block/sda/queue/scheduler")
    answer = run(capsys)
    assert answer["status"] == "failed"
    assert "the scheduler changed during the run to 'none'" in answer["reason"]


def test_a_restore_that_fails_is_told_beside_what_it_came_upon(rig, tool, capsys, monkeypatch):
    fio(tool, "echo 'fio: no space' >&2; exit 1")

    def mount(undo, *_):
        def umount():
            raise tools.Failed("umount: target is busy")

        undo.callback(umount)
        return "rw"

    monkeypatch.setattr(joulerig_run.filesystem, "mount", mount)
    answer = run(capsys)
    assert (answer["status"], answer["reason"]) == (
        "failed", "fio: exit 1: fio: no space; then: umount: target is busy",
    )  # fmt: skip


def test_of_an_array_the_members_are_scheduled_and_told_apart(rig, capsys, monkeypatch):
    """An md device has no scheduler of its own: its level would be in name only."""
    rig.array("pair", "md127", ["sda", "sdb"])
    rig.put(rig.sys / "block/md127/stat", "1 0 8 0 1 0 8 0 0 0 0\n")
    during = []
    look = lambda: during.append((scheduler(rig, "sda"), scheduler(rig, "sdb")))  # noqa: E731
    monkeypatch.setattr(joulerig_run.filesystem, "drop_caches", look)
    members = [{"name": name, **spec} for name, spec in DRIVES.items()]
    answer = run(capsys, drive="pair", array=True, members=members)
    assert (answer["status"], answer["reason"]) == ("ok", "")
    assert during == [("bfq", "bfq")]
    assert set(answer["settings"]["queue"]) == set(answer["health"]["after"]) == {"hdd-1", "hdd-2"}
    assert answer["settings"]["mkfs"] == ["mkfs.odd", str(rig.dev / "md127")]
    assert scheduler(rig, "sda") == scheduler(rig, "sdb") == "mq-deadline"


def test_a_missing_argument_is_told_by_name(capsys):
    with patch_module_args({"run": "r"}), pytest.raises(SystemExit):
        joulerig_run.main()
    assert "missing required arguments: campaign" in json.loads(capsys.readouterr().out)["msg"]


def test_modules_need_nothing_that_a_test_host_lacks():
    """Standard library and Ansible only: a module is shipped to hosts that have nothing else."""
    import ast
    from pathlib import Path

    root = Path(joulerig_run.__file__).parents[1]
    for path in [*root.glob("modules/*.py"), *root.glob("module_utils/joulerig/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = name.split(".")[0]
                assert top == "ansible" or top in sys.stdlib_module_names, f"{path.name} imports {name}"
