# SPDX-License-Identifier: GPL-3.0-or-later
"""What provisioning changes is recorded before it is changed, and undone from that record."""

from __future__ import annotations

import hashlib
import itertools
import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from ansible.module_utils.joulerig import paths
from ansible.module_utils.joulerig.changes import apt as apt_packages
from ansible.module_utils.joulerig.changes import (
    contents,
    files,
    kernelmodules,
    packages,
    units,
    what_stays,
)
from ansible.module_utils.joulerig.changes import record as records
from ansible.module_utils.joulerig.changes import rpm as rpm_packages
from ansible.module_utils.joulerig.changes.record import COMMAND, FILE, MODULE, PACKAGE, TREE, UNIT, Record
from ansible.module_utils.joulerig.changes.undo import Undo
from ansible.module_utils.joulerig.drives import ownership
from ansible.module_utils.joulerig.drives.commands import ata_password
from ansible.module_utils.joulerig.tools import Failed, Refused
from tests.support.disk_calls import DiskCalls
from tests.support.fake_systemd import FakeSystemd

IOD, CHRONY = "iod.service", "chrony.service"


@pytest.fixture
def root(tmp_path, fake, tool, monkeypatch):
    """A host: /etc of a few files, systemd, and the kernel's list of modules."""
    fake.stand_in(monkeypatch)
    fake.put(fake.proc / "modules", "f2fs 1 0 - Live 0x0\n")
    etc = fake.sys.parent / "etc"
    fake.put(etc / "chrony/chrony.conf", "pool debian\n")
    (etc / "chrony/chrony.conf").chmod(0o640)
    return fake.sys.parent


@pytest.fixture
def systemd(root, tmp_path):
    iod = {"file": "disabled", "active": "inactive", "path": str(root / "etc/systemd/system/iod.service")}
    chrony = {"file": "enabled", "active": "active"}
    return FakeSystemd(tmp_path / "bin", {IOD: iod, CHRONY: chrony})


@pytest.fixture
def record(root):
    return Record()


def picture(folder: Path) -> dict[str, tuple]:
    """Every path below a folder: kind, mode, owner, contents."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        state = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        found[str(path.relative_to(folder))] = (
            stat.filemode(state.st_mode),
            state.st_uid,
            state.st_gid,
            what,
        )
    return found


def undo(*, with_packages: bool = False) -> Undo:
    """Undo what a new process finds in the record."""
    done = Undo(Record())
    done.execute(with_packages=with_packages)
    return done


# --- files


def replace_content(path: Path) -> None:
    path.write_text("server 10.0.0.1\n")


def replace_mode(path: Path) -> None:
    path.chmod(0o644)


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/null")


def replace_by_nothing(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [replace_content, replace_mode, replace_by_link, replace_by_nothing])
def test_a_file_that_was_there_is_as_it_was(root, record, change):
    path = root / "etc/chrony/chrony.conf"
    before = picture(root / "etc")
    record.add({FILE: [str(path)]})
    change(path)
    done = undo()
    assert picture(root / "etc") == before
    assert (done.undone, done.stays, done.failures) == ([f"restored {path}"], [], [])


def test_the_time_of_a_file_that_was_there_is_as_it_was(root, record):
    path = root / "etc/chrony/chrony.conf"
    os.utime(path, ns=(10**18, 10**18))
    record.add({FILE: [str(path)]})
    replace_content(path)
    undo()
    assert path.stat().st_mtime_ns == 10**18


def test_a_file_that_was_not_there_is_gone(root, record):
    path = root / "etc/iod.json"
    before = picture(root / "etc")
    record.add({FILE: [str(path)]})
    path.write_text("{}")
    assert undo().undone == [f"removed {path}"]
    assert picture(root / "etc") == before


def test_a_link_that_was_there_points_where_it_did(root, record):
    path = root / "etc/localtime"
    path.symlink_to("/usr/share/zoneinfo/UTC")
    before = picture(root / "etc")
    record.add({FILE: [str(path)]})
    path.unlink()
    path.write_text("")
    assert undo().undone == [f"restored {path}"]
    assert picture(root / "etc") == before


def test_a_folder_that_was_there_has_its_mode_and_all_else_in_it(root, record):
    folder = root / "etc/chrony"
    record.add({FILE: [str(folder)]})
    folder.chmod(0o700)
    (folder / "keys").write_text("the owner's")
    undo()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert (folder / "keys").read_text() == "the owner's"


def test_folders_are_removed_after_what_is_in_them_whatever_the_order_of_their_changes(root, record):
    folder = root / "etc/joulerig"
    before = picture(root / "etc")
    record.add({FILE: [str(folder / "a/b"), str(folder), str(folder / "a")]})
    (folder / "a").mkdir(parents=True)
    (folder / "a/b").write_text("")
    assert not undo().stays
    assert picture(root / "etc") == before


def test_a_folder_with_a_file_of_the_owners_stays_until_it_is_empty(root, record):
    folder = root / "etc/joulerig"
    record.add({FILE: [str(folder)]})
    folder.mkdir()
    (folder / "notes").write_text("the owner's")
    done = undo()
    assert (done.undone, done.stays) == ([], [f"{folder}: is not empty"])
    assert (folder / "notes").exists()
    (folder / "notes").unlink()
    assert undo().undone == [f"removed {folder}"]


@pytest.mark.parametrize("before", [None, "the owner's\n"])
def test_a_file_of_the_rigs_that_the_owner_edited_stays(root, record, before):
    path = root / "etc/createcluster.conf"
    if before:
        path.write_text(before)
    wanted = {"dest": str(path), "content": "create_main_cluster = false\n", "mode": "0644"}
    files.have([], [wanted])
    path.write_text("create_main_cluster = true\n")
    assert undo().stays == [f"{path}: was changed since the rig wrote it"]
    assert path.read_text() == "create_main_cluster = true\n"
    assert Record().names(FILE) == [str(path)]
    path.write_text(wanted["content"])
    assert undo().stays == []
    assert path.exists() == bool(before)


def test_a_file_that_the_rig_wrote_twice_is_compared_with_the_last(root, record):
    path = root / "etc/createcluster.conf"
    for content in ("first\n", "second\n"):
        files.have([], [{"dest": str(path), "content": content, "mode": "0644"}])
    assert undo().stays == []
    assert not path.exists()


def test_the_first_record_of_a_file_counts(root, record):
    path = root / "etc/chrony/chrony.conf"
    before = picture(root / "etc")
    assert record.add({FILE: [str(path)]})
    replace_content(path)
    assert not Record().add({FILE: [str(path)]})
    undo()
    assert picture(root / "etc") == before


def test_a_record_is_on_the_disk_before_the_change(root, record):
    path = root / "etc/chrony/chrony.conf"
    record.add({FILE: [str(path)]})
    assert Record().names(FILE) == [str(path)]
    [kept] = (root / "var/lib/joulerig/before").iterdir()
    assert kept.read_text() == "pool debian\n"


def test_contents_that_are_kept_are_roots_alone(root, record):
    record.add({FILE: [str(root / "etc/chrony/chrony.conf")]})
    [kept] = (root / "var/lib/joulerig/before").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "var/lib/joulerig/changes.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("path", "reason"), [("etc/iod.json", "is not an absolute path"), ("/dev/null", "is neither")]
)
def test_what_cannot_be_put_back_must_not_be_changed(record, path, reason):
    with pytest.raises(Refused, match=reason):
        record.add({FILE: [path]})


def test_a_failure_in_the_middle_leaves_the_rest_of_the_record(root, record):
    there, gone = root / "etc/chrony/chrony.conf", root / "etc/iod.json"
    record.add({FILE: [str(there), str(gone)]})
    replace_content(there)
    gone.write_text("{}")
    copy = root / "var/lib/joulerig/before" / hashlib.sha256(str(there).encode()).hexdigest()[:32]
    kept = copy.read_bytes()
    copy.unlink()
    done = undo()
    assert done.undone == [f"removed {gone}"]
    assert len(done.failures) == 1
    assert Record().names(FILE) == [str(there)]
    copy.write_bytes(kept)
    assert undo().undone == [f"restored {there}"]


# --- the record itself


def test_a_record_that_cannot_be_read_is_a_refusal(root, record):
    record.add({FILE: [str(root / "etc/iod.json")]})
    path = root / "var/lib/joulerig/changes.json"
    path.write_text("{")
    with pytest.raises(Refused, match="cannot be read"):
        Record()


def test_a_record_of_another_version_is_a_refusal(root, record):
    record.add({FILE: [str(root / "etc/iod.json")]})
    path = root / "var/lib/joulerig/changes.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(Refused, match="is of version 2; this module reads version 1"):
        Record()


def add_files(first: int) -> None:
    for number in range(first, first + 8):
        with records.locked(create=True):
            Record().add({FILE: [f"/nowhere/{number}"]})


def test_two_controllers_that_provision_a_host_lose_no_entry(root):
    processes = [multiprocessing.get_context("fork").Process(target=add_files, args=(n,)) for n in (0, 8, 16)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert len(Record().names(FILE)) == 24


def test_without_a_record_nothing_is_undone(root):
    before = picture(root)
    done = undo(with_packages=True)
    assert (done.undone, done.stays, done.failures) == ([], [], [])
    assert picture(root) == before


def test_a_host_without_a_record_keeps_what_an_earlier_version_of_the_rig_put_there(root):
    spool = root / "var/lib/joulerig/spool"
    spool.mkdir(parents=True)
    assert undo().undone == []
    assert spool.exists()


def test_all_that_the_rig_keeps_on_the_host_goes_with_the_record(root, record):
    path = root / "etc/iod.json"
    record.add({FILE: [str(path)]})
    path.write_text("")
    state = root / "var/lib/joulerig"
    (state / "spool").mkdir()
    (state / "spool/points").write_text("")
    undo()
    assert not state.exists()


def test_results_that_no_controller_has_stay(root, record):
    path = root / "etc/iod.json"
    record.add({FILE: [str(path)]})
    path.write_text("")
    outcome = root / "var/lib/joulerig/calls/run-1.1/outcome.json"
    outcome.parent.mkdir(parents=True)
    outcome.write_text("{}")
    assert "outcomes of runs that no controller has" in undo().stays[0]
    assert outcome.exists()
    assert sorted(one.name for one in (root / "var/lib/joulerig").iterdir()) == ["calls"]


def test_the_password_of_a_secure_erase_that_did_not_end_stays_known(root, record):
    record.add({FILE: ["/a"]})
    ata_password.note("WD-1")
    [line] = undo().stays
    assert "a secure erase did not end of WD-1" in line
    assert "--security-disable joulerig DEVICE" in line
    assert ata_password.noted() == {"WD-1": "joulerig"}
    ata_password.forget("WD-1")
    assert ata_password.noted() == {}


def test_calls_that_were_all_collected_do_not_stay(root, record):
    record.add({FILE: [str(root / "etc/iod.json")]})
    lock = root / "var/lib/joulerig/calls/.lock"
    lock.parent.mkdir()
    lock.touch()
    assert undo().stays == []
    assert not (root / "var/lib/joulerig").exists()


def test_a_second_time_changes_nothing(root, record, systemd):
    path = root / "etc/chrony/chrony.conf"
    record.add({FILE: [str(path)], UNIT: [CHRONY]})
    replace_content(path)
    undo()
    before, calls = picture(root), list(systemd.calls)
    done = undo()
    assert (done.undone, done.stays, done.failures) == ([], [], [])
    assert picture(root) == before
    assert systemd.calls == calls


# --- trees


def test_a_tree_of_the_rigs_goes_with_all_that_is_in_it(root, record):
    tree = root / "usr/lib/modules/6.1-hz100"
    record.add({TREE: [str(tree)]})
    (tree / "kernel").mkdir(parents=True)
    (tree / "modules.dep").write_text("")
    (tree / "build").symlink_to(root / "etc")
    assert undo().undone == [f"removed {tree}"]
    assert not tree.exists()
    assert (root / "etc/chrony/chrony.conf").exists()


def test_what_programs_leave_in_a_tree_of_the_rigs_goes_with_it(root, record):
    tree = root / "usr/local/share/joulerig"
    program = tree / "programs/make.py"
    record.add({FILE: [str(program.parent), str(program)], TREE: [str(tree)]})
    (program.parent / "__pycache__").mkdir(parents=True)
    program.write_text("")
    done = undo()
    assert (done.undone, done.stays) == ([f"removed {tree}"], [])
    assert not Record().exists


def test_a_tree_that_was_there_before_is_not_the_rigs(root, record):
    tree = root / "usr/lib/modules/6.1-hz100"
    tree.mkdir(parents=True)
    record.add({TREE: [str(tree)]})
    (tree / "new").write_text("")
    assert undo().undone == []
    assert (tree / "new").exists()


@pytest.mark.parametrize("path", ["/", "/usr", "/usr/lib", "usr/lib/modules/x", "/usr/lib/modules/../x"])
def test_no_tree_near_the_root_is_removed(path, monkeypatch):
    monkeypatch.setattr(os.path, "lexists", lambda path: True)
    monkeypatch.setattr(contents.shutil, "rmtree", lambda path: pytest.fail(f"rmtree {path}"))
    with pytest.raises(contents.Stays, match="too near the root"):
        contents.remove_tree(path, {"is": "absent"})


def test_a_tree_in_which_something_is_mounted_stays(root, record, monkeypatch):
    tree = root / "usr/lib/modules/6.1-hz100"
    record.add({TREE: [str(tree)]})
    (tree / "mnt").mkdir(parents=True)
    real = os.lstat

    def lstat(path, **options):
        found = real(path, **options)
        if str(path).endswith("/mnt"):
            return os.stat_result([*found[:2], found.st_dev + 1, *found[3:10]])
        return found

    monkeypatch.setattr(contents.os, "lstat", lstat)
    done = undo()
    assert done.stays == [f"{tree}: another file system is mounted at {tree}/mnt"]
    assert (tree / "mnt").exists()


# --- units


def provision_agent(root, systemd):
    """Add a unit's file and start it, recorded as the roles do."""
    path = root / "etc/systemd/system/iod.service"
    Record().add({FILE: [str(path)]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[Service]\n")
    Record().add({UNIT: [IOD]})
    systemd.set(IOD, file="enabled", active="active")


def test_a_unit_that_was_not_there_is_stopped_and_disabled_before_its_file_goes(root, systemd):
    (root / "etc/systemd/system").mkdir(parents=True)
    before = picture(root / "etc")
    provision_agent(root, systemd)
    done = undo()
    assert done.undone == [
        f"stopped and disabled {IOD}",
        f"removed {root}/etc/systemd/system/iod.service",
    ]
    assert systemd.calls == [f"stop {IOD}", f"disable {IOD}", "daemon-reload"]
    assert picture(root / "etc") == before


def test_a_unit_that_was_active_is_restarted_with_its_former_files(root, systemd, record):
    path = root / "etc/chrony/chrony.conf"
    record.add({FILE: [str(path)], UNIT: [CHRONY]})
    replace_content(path)
    done = undo()
    assert done.undone == [f"restored {path}", f"restarted {CHRONY}"]
    assert systemd.units[CHRONY] == {"file": "enabled", "active": "active"}


@pytest.mark.parametrize(
    ("file", "active"),
    [
        ("masked", "inactive"),
        *itertools.product(["enabled", "disabled", "static"], ["active", "inactive", "failed"]),
    ],
)
@pytest.mark.parametrize("changed", [("enabled", "active"), ("disabled", "inactive"), ("masked", "inactive")])
def test_a_unit_is_as_it_was(systemd, record, file, active, changed):
    if file == "static" and changed[0] != "masked":
        changed = ("static", changed[1])
    systemd.set(CHRONY, file=file, active=active)
    record.add({UNIT: [CHRONY]})
    if changed[0] == "masked" != file:
        systemd.set(CHRONY, file="masked", active="inactive", was=file)
    else:
        systemd.set(CHRONY, file=changed[0], active=changed[1])
    done = undo()
    assert not done.failures
    found = systemd.units[CHRONY]
    assert (found["file"], found["active"] == "active") == (file, active == "active")
    assert Record().names(UNIT) == []


def test_a_unit_that_cannot_be_stopped_keeps_its_place_in_the_record(root, tmp_path, record):
    broken = FakeSystemd(tmp_path / "bin", {IOD: {"file": "disabled", "active": "inactive"}}, failing="stop")
    record.add({UNIT: [IOD]})
    broken.set(IOD, active="active")
    done = undo()
    assert done.failures == ["systemctl: exit 1: stop iod.service: no"]
    assert Record().names(UNIT) == [IOD]


def test_systemd_that_reports_other_units_than_asked_for_is_an_error(tool):
    tool("systemctl", "echo UnitFileState=enabled")
    with pytest.raises(Failed, match="1 units of 2"):
        units.look([IOD, CHRONY])


# --- kernel modules


def test_modules_that_were_not_loaded_are_unloaded(root, record, fake, tool):
    calls = tool("modprobe", "")
    record.add({MODULE: ["f2fs", "kyber-iosched"]})
    fake.put(fake.proc / "modules", "kyber_iosched 1 0 - Live 0x0\nf2fs 1 0 - Live 0x0\n")
    assert undo().undone == ["unloaded kyber-iosched"]
    assert calls.read_text() == "--remove kyber-iosched\n"


def test_a_module_in_use_stays_until_the_next_boot(root, record, fake, tool):
    tool("modprobe", "echo 'modprobe: FATAL: Module bfq is in use.' >&2; exit 1")
    record.add({MODULE: ["bfq"]})
    fake.put(fake.proc / "modules", "bfq 1 0 - Live 0x0\n")
    done = undo()
    assert done.stays == [
        "kernel module bfq: until the next boot: modprobe: exit 1: modprobe: FATAL: Module bfq is in use."
    ]
    fake.put(fake.proc / "modules", "f2fs 1 0 - Live 0x0\n")
    done = undo()
    assert (done.undone, done.stays) == ([], [])
    assert kernelmodules.look_at_modules(["bfq"]) == {"bfq": {"loaded": False}}


# --- commands


def test_commands_run_once_the_files_are_back(root, record, tool):
    path = root / "etc/default/grub.d/joulerig-memmap.cfg"
    calls = tool("update-grub", f"test ! -e {path}")
    path.parent.mkdir(parents=True)
    record.add({FILE: [str(path)]})
    path.write_text("memmap")
    Record().add({COMMAND: ["update-grub"]})
    assert undo().undone == [f"removed {path}", "ran update-grub"]
    assert undo().undone == []
    assert calls.read_text() == "\n"


def test_a_command_does_not_run_while_a_file_is_not_back(root, record, tool):
    path = root / "etc/chrony/chrony.conf"
    calls = tool("update-grub", "")
    record.add({FILE: [str(path)], COMMAND: ["update-grub"]})
    replace_content(path)
    for copy in (root / "var/lib/joulerig/before").iterdir():
        copy.unlink()
    assert undo().failures
    assert not calls.exists()
    assert Record().names(COMMAND) == ["update-grub"]


# --- packages

# What apt-get --simulate says: chrony takes the place of timesyncd, libc6 is upgraded.
PLAN = """
case "$*" in
*--simulate*install*) cat <<END
Reading package lists...
Remv systemd-timesyncd [252.30]
Inst libc6 [2.36-9] (2.36-10 Debian:12/stable [amd64])
Inst libfoo1 (1.0 Debian:12/stable [amd64])
Inst chrony (4.3 Debian:12/stable [amd64])
Conf chrony (4.3 Debian:12/stable [amd64])
END
;;
*--simulate*remove*) %s ;;
esac
"""


@pytest.fixture
def apt(root, tool):
    """apt with `installed` as the installed packages; returns the log of apt-get's calls."""

    def make(installed: str, remove_plan: str = "true", auto: str = "") -> Path:
        lines = "; ".join(f"echo '{name} installed'" for name in installed.split())
        tool("dpkg-query", (lines or "true") + "; exit 1")
        tool("apt-mark", f'test "$1" = auto || test "$1" = manual || echo "{auto}"')
        return tool("apt-get", PLAN % remove_plan)

    return make


def test_what_apt_would_do_is_recorded_before_it_does_it(apt):
    apt("systemd-timesyncd libc6")
    Record().add({PACKAGE: ["chrony"]})
    assert Record().before(PACKAGE) == {
        "chrony": {"installed": False},
        "libfoo1": {"installed": False},
        "systemd-timesyncd": {"installed": True},
    }


def test_packages_that_are_there_are_neither_recorded_nor_simulated(apt):
    calls = apt("chrony")
    assert not Record().add({PACKAGE: ["chrony"]})
    assert not calls.exists()


def test_a_package_that_apt_does_not_know_is_an_error_before_any_change(apt, tool):
    apt("")
    tool("apt-get", "echo 'E: Unable to locate package nosuch' >&2; exit 100")
    with pytest.raises(Failed, match="Unable to locate package nosuch"):
        Record().add({PACKAGE: ["nosuch"]})
    assert not Record().exists


@pytest.mark.parametrize(
    ("age", "files", "refreshed"),
    [
        (0, ["deb.debian.org_debian_dists_bookworm_main_binary-amd64_Packages"], False),
        (0, ["deb.debian.org_debian_dists_bookworm_main_binary-amd64_Packages.lz4"], False),
        (100_000, ["deb.debian.org_debian_dists_bookworm_main_binary-amd64_Packages"], True),
        (0, [], True),  # emptied, as that of an image
        (0, ["lock", "deb.debian.org_debian_dists_bookworm_InRelease"], True),
    ],
)
def test_apts_lists_are_refreshed_where_they_are_old_or_empty(
    apt, tmp_path, monkeypatch, age, files, refreshed
):
    calls = apt("")
    lists = tmp_path / "lists"
    lists.mkdir()
    for name in files:
        (lists / name).touch()
    monkeypatch.setattr(apt_packages, "LISTS", str(lists))
    os.utime(lists, (lists.stat().st_mtime - age,) * 2)
    Record().add({PACKAGE: ["chrony"]}, 86400)
    assert ("update" in calls.read_text().splitlines()) is refreshed


POLICY = """
cat <<END
fio:
  Installed: (none)
  Candidate: 3.39-1
  Version table:
     3.39-1 500
dropped:
  Installed: (none)
  Candidate: (none)
  Version table:
END
"""


def test_a_package_that_apt_has_no_version_of_is_lacking(apt, tool):
    apt("chrony")
    asked = tool("apt-cache", POLICY)
    assert packages.lacking(["chrony", "fio", "dropped", "nosuch"]) == ["dropped", "nosuch"]
    assert asked.read_text() == "policy fio dropped nosuch\n"


def test_apt_is_not_asked_for_packages_that_are_there(apt, tool):
    calls = apt("chrony fio")
    asked = tool("apt-cache", "")
    assert packages.lacking(["chrony", "fio"], refresh_seconds=0) == []
    assert not calls.exists()
    assert not asked.exists()


def test_packages_stay_unless_asked_for(apt):
    apt("systemd-timesyncd")
    Record().add({PACKAGE: ["chrony"]})
    calls = apt("chrony libfoo1")
    calls.unlink()
    assert undo().undone == []
    assert not calls.exists()
    assert set(Record().names(PACKAGE)) == {"chrony", "libfoo1", "systemd-timesyncd"}


def test_packages_that_were_not_there_are_removed_and_those_that_were_come_back(apt):
    apt("systemd-timesyncd")
    Record().add({PACKAGE: ["chrony"]})
    calls = apt("chrony libfoo1")
    calls.unlink()
    done = undo(with_packages=True)
    assert done.undone == [
        "removed package chrony", "removed package libfoo1", "installed package systemd-timesyncd",
    ]  # fmt: skip
    [line] = [one for one in calls.read_text().splitlines() if "--simulate" not in one]
    assert line.endswith("force-confold install systemd-timesyncd chrony- libfoo1-")
    assert not Record().exists


def test_only_new_packages_are_removed(apt):
    apt("")
    Record().add({PACKAGE: ["chrony"]})
    calls = apt("chrony systemd-timesyncd")  # libfoo1 has gone in the meantime
    calls.unlink()
    assert undo(with_packages=True).undone == ["removed package chrony"]
    [line] = [one for one in calls.read_text().splitlines() if "--simulate" not in one]
    assert line.endswith(" remove chrony")


def test_a_package_that_one_of_the_owners_needs_stays(apt):
    apt("systemd-timesyncd")
    Record().add({PACKAGE: ["chrony"]})
    needs = 'case "$*" in *libfoo1*) echo "Purg libfoo1 [1]"; echo "Purg owners-tool [1]";; esac'
    calls = apt("chrony libfoo1 systemd-timesyncd", needs)
    done = undo(with_packages=True)
    assert done.undone == ["removed package chrony"]
    assert done.stays == ["package libfoo1: owners-tool needs it"]
    assert Record().names(PACKAGE) == ["libfoo1"]
    assert "remove chrony\n" in calls.read_text()


def test_packages_that_one_of_the_owners_needs_have_one_line(apt):
    apt("systemd-timesyncd")
    Record().add({PACKAGE: ["chrony"]})
    apt("chrony libfoo1 systemd-timesyncd", 'echo "Remv owners-tool [1]"')
    assert undo(with_packages=True).stays == ["packages chrony, libfoo1: owners-tool needs them"]


@pytest.fixture
def dpkg(root, tool, monkeypatch, tmp_path):
    """dpkg where chrony was removed, with its configuration and a folder for its data.

    Gives the folder of both; `script`: the package has one for its purge.
    """
    own = tmp_path / "own"
    (own / "etc/chrony").mkdir(parents=True)
    (own / "lib/chrony").mkdir(parents=True)
    (own / "etc/chrony/chrony.conf").write_text("pool debian\n")
    digest = hashlib.md5(b"pool debian\n").hexdigest()
    monkeypatch.setattr(apt_packages, "DATA", f"{own}/")
    folders = [own / "etc/chrony", own / "lib/chrony"]
    case = [
        f"*--listfiles*) printf '{own}/etc/chrony\\n{own}/lib/chrony\\n/usr/sbin/chronyd\\n' ;;",
        f"*--search*) printf 'chrony: {folders[0]}\\nchrony, owners-tool: {folders[1]}\\n' ;;",
        f"*Conffiles*) echo ' {folders[0]}/chrony.conf {digest}' ;;",
        f"*--control-path*) ls {own}/chrony.postrm || exit 1 ;;",
        "*Package*) echo 'chrony installed'; exit 1 ;;",
        "*) echo config-files ;;",
    ]
    tool("dpkg-query", 'case "$*" in\n' + "\n".join(case) + "\nesac")
    return own


def removed(tool) -> tuple[list[str], list[str]]:
    """Undo the installation of chrony; return what stays, and the purges that were made."""
    calls = tool("dpkg", "")
    tool("apt-get", "")
    _, stay, left = apt_packages.undo({"chrony": {"installed": False}})
    assert stay == {}
    return list(left.values()), calls.read_text().splitlines() if calls.exists() else []


def test_a_removed_package_whose_configuration_is_as_it_came_leaves_nothing(dpkg, tool):
    (dpkg / "etc/chrony/chrony.conf").unlink()
    assert removed(tool) == ([], ["--purge chrony"])


@pytest.mark.parametrize("owner", ["edited", "added"])
def test_configuration_that_the_owner_changed_stays_and_is_named(dpkg, tool, owner):
    if owner == "edited":
        (dpkg / "etc/chrony/chrony.conf").write_text("server mine\n")
    else:
        (dpkg / "etc/chrony/chrony.conf").unlink()
        (dpkg / "etc/chrony/mine.conf").write_text("")
    stays, purges = removed(tool)
    assert purges == ([] if owner == "edited" else ["--purge chrony"])
    [line] = stays
    assert line.startswith(f"package chrony: removed; of its configuration and data stays {dpkg}/etc/chrony")


def test_a_package_whose_script_might_delete_data_is_not_purged(dpkg, tool):
    (dpkg / "chrony.postrm").write_text("rm -rf /var/lib/chrony")
    (dpkg / "lib/chrony/mine").write_text("")
    stays, purges = removed(tool)
    assert purges == []
    assert stays == [
        f"package chrony: removed; of its configuration and data stays {dpkg}/etc/chrony;"
        " 'apt-get purge chrony' deletes it"
    ]


@pytest.mark.parametrize(
    ("package", "made"),
    [
        ("postgresql-15", "etc/postgresql/15/main"),
        ("postgresql-15", "var/lib/postgresql/15/mine"),
        ("postgresql-9.6", "var/lib/postgresql/9.6/main"),
        ("postgresql-server", "var/lib/pgsql/data/PG_VERSION"),
        ("postgresql16-server", "var/lib/pgsql/16/data/PG_VERSION"),
    ],
)
def test_a_package_with_databases_stays_installed(tmp_path, monkeypatch, package, made):
    monkeypatch.setattr(what_stays, "CLUSTERS", tuple(
        (one[0], *(f"{tmp_path}{place}" for place in one[1:])) for one in what_stays.CLUSTERS
    ))  # fmt: skip
    assert what_stays.databases(package) == ""
    (tmp_path / made).mkdir(parents=True)
    assert what_stays.databases(package).startswith(
        f"package {package}: it has databases, at {tmp_path}/{made}"
    )
    assert what_stays.databases("postgresql-14") == ""
    assert what_stays.databases("postgresql") == ""


def test_a_package_that_was_a_dependency_is_one_again(apt, tool):
    apt("chrony", auto="chrony")
    Record().add({PACKAGE: ["chrony"]})
    assert Record().before(PACKAGE) == {"chrony": {"installed": True, "auto": True}}
    apt("chrony")
    calls = tool("apt-mark", "")
    assert undo(with_packages=True).undone == ["marked as dependencies: chrony"]
    assert "auto chrony\n" in calls.read_text()


def test_a_package_that_its_owner_removed_is_not_installed_again(apt):
    apt("chrony", auto="chrony")
    Record().add({PACKAGE: ["chrony"]})
    calls = apt("")
    assert undo(with_packages=True).undone == []
    assert not calls.exists()


def test_packages_that_cannot_be_removed_keep_their_place_in_the_record(apt, tool):
    apt("systemd-timesyncd")
    Record().add({PACKAGE: ["chrony"]})
    apt("chrony")
    tool("apt-get", 'case "$*" in *--simulate*) ;; *) echo "E: dpkg was interrupted" >&2; exit 100;; esac')
    assert undo(with_packages=True).failures == ["apt-get: exit 100: E: dpkg was interrupted"]
    assert "chrony" in Record().names(PACKAGE)


def test_a_folder_that_a_package_keeps_full_goes_with_the_package(apt, root, tool):
    folder = root / "etc/postgresql-common"
    apt("systemd-timesyncd")
    Record().add({FILE: [str(folder)], PACKAGE: ["chrony"]})
    folder.mkdir()
    (folder / "of-the-package").write_text("")
    apt("chrony libfoo1 systemd-timesyncd")
    tool("apt-get", f'case "$*" in *--simulate*) ;; *) rm {folder}/of-the-package;; esac')
    done = undo(with_packages=True)
    assert (done.stays, done.failures) == ([], [])
    assert not folder.exists()
    assert not Record().exists


def test_every_kind_of_change_can_be_recorded_and_undone(root, systemd, tool, apt, fake):
    apt("")
    tool("modprobe", "")
    tool("true", "")
    names = {
        FILE: ["/a"],
        TREE: ["/a/b/c"],
        UNIT: [IOD],
        MODULE: ["bfq"],
        COMMAND: ["true"],
        PACKAGE: ["chrony"],
    }
    assert set(names) == set(records.KINDS)
    Record().add(names)
    assert Record().kinds() == list(records.KINDS)
    undo(with_packages=True)
    assert Record().kinds() == []


# --- on disk, also where the power fails


def test_a_hosts_file_is_on_disk_content_first_then_its_name(tmp_path, monkeypatch):
    disk = DiskCalls(tmp_path, monkeypatch)
    contents.replace(str(tmp_path / "outcome.json"), b"{}", 0o600)
    assert disk.seen == ["sync outcome.json.joulerig", "rename outcome.json", "sync ."]


def test_a_link_that_is_put_back_is_on_disk(tmp_path, monkeypatch):
    kept = contents.Contents(str(tmp_path / "kept"))
    (tmp_path / "localtime").symlink_to("UTC")
    before = kept.look([str(tmp_path / "localtime")])[str(tmp_path / "localtime")]
    (tmp_path / "localtime").unlink()
    disk = DiskCalls(tmp_path, monkeypatch)
    kept.restore(str(tmp_path / "localtime"), before)
    assert disk.seen == ["rename localtime", "sync ."]


def test_the_record_of_drives_is_written_by_the_same_writer(tmp_path, monkeypatch):
    disk = DiskCalls(tmp_path, monkeypatch)
    ownership.Record(str(tmp_path / "drives.json")).put("sata:1", {"made": None})
    assert disk.seen == ["sync drives.json.joulerig", "rename drives.json", "sync ."]


# --- packages of RPM


@pytest.fixture
def fedora(root, tool, monkeypatch, tmp_path):
    """A host of Fedora's with `installed`; `users`: what rpm says needs a package."""
    (tmp_path / "os").mkdir()
    (tmp_path / "os/os-release").write_text("ID=fedora\n")
    monkeypatch.setattr(paths, "ETC", str(tmp_path / "os"))

    def make(installed: str, users: str = "true") -> Path:
        lines = "; ".join(f"echo {name}" for name in installed.split()) or "true"
        tool("rpm", f'case "$*" in *--erase*--test*) {users} ;; *) {lines} ;; esac')
        return tool("dnf", "")

    return make


def test_packages_of_rpm_that_were_not_there_are_removed(fedora):
    fedora("fio")
    assert Record().add({PACKAGE: ["fio", "nvme-cli"]})
    assert Record().names(PACKAGE) == ["nvme-cli"]
    calls = fedora("fio nvme-cli")
    assert undo(with_packages=True).undone == ["removed package nvme-cli"]
    assert calls.read_text() == "--assumeyes remove nvme-cli\n"


def test_a_package_of_rpm_with_databases_stays_and_so_does_what_it_needs(fedora, tool, monkeypatch, tmp_path):
    monkeypatch.setattr(
        what_stays, "CLUSTERS", ((r"postgresql(?:\d*)-server", f"{tmp_path}/data/PG_VERSION"),)
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data/PG_VERSION").write_text("15")
    fedora("")
    Record().add({PACKAGE: ["postgresql-server", "postgresql", "libpq", "fio"]})
    calls = fedora("postgresql-server postgresql libpq fio")
    installed = "printf 'postgresql-server\\npostgresql\\nlibpq\\nfio\\n'"
    tool("rpm", f"""case "$*" in
        *--test*" libpq") echo '  libpq.so.5 is needed by (installed) postgresql-15.3-1.fc38.x86_64' >&2; exit 1 ;;
        *--test*" postgresql") echo '  postgresql is needed by (installed) postgresql-server-15.3-1.fc38.x86_64' >&2; exit 1 ;;
        *--test*) ;;
        *--list*|*--configfiles*) ;;
        *) {installed} ;; esac""")  # fmt: skip
    done = undo(with_packages=True)
    assert done.undone == ["removed package fio"]
    assert calls.read_text() == "--assumeyes remove fio\n"
    assert done.stays == [
        f"package postgresql-server: it has databases, at {tmp_path}/data/PG_VERSION; they are not the rig's",
        "package postgresql: postgresql-server needs it",
        "package libpq: postgresql needs it",
    ]


def test_what_a_removed_package_of_rpm_leaves_is_named(fedora, tool, monkeypatch, tmp_path):
    folder, conf = tmp_path / "data", tmp_path / "chrony.conf"
    folder.mkdir()
    (folder / "drift").write_text("")
    monkeypatch.setattr(rpm_packages, "DATA", f"{tmp_path}/")
    fedora("")
    Record().add({PACKAGE: ["chrony"]})
    fedora("chrony")
    tool("rpm", f"""case "$*" in
        *--test*) ;;
        *--list*) echo {folder}; echo {conf}; echo {tmp_path} ;;
        *--file*{tmp_path}) echo chrony; echo another ;;
        *--configfiles*) echo {conf} ;;
        *) echo chrony ;; esac""")  # fmt: skip
    (tmp_path / "chrony.conf.rpmsave").write_text("")
    assert undo(with_packages=True).stays == [
        f"package chrony: removed; of its configuration and data stays {conf}.rpmsave, {folder}"
    ]


def test_a_package_of_rpm_that_another_needs_stays(fedora):
    fedora("")
    Record().add({PACKAGE: ["nvme-cli"]})
    users = "echo '        libnvme.so.1()(64bit) is needed by (installed) cockpit-300.1-1.fc38.noarch' >&2; exit 1"
    calls = fedora("nvme-cli", users)
    assert undo(with_packages=True).stays == ["package nvme-cli: cockpit needs it"]
    assert not calls.exists()
