# SPDX-License-Identifier: GPL-3.0-or-later
"""One new file next to an inventory adds a file system, a program or a meter family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from joulerig.rig import workloads
from joulerig.rig.campaign import definition as campaigns
from joulerig.rig.campaign import power_cut_definition as power_cuts
from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import filesystems, kernels, meters, packages, programs, virtual
from joulerig.rig.lab.kernels import build
from joulerig.rig.lab.meters import source
from joulerig.rig.lab.model import Lab
from joulerig.rig.workloads import place, trial
from tests.support.additions import COPY_PROGRAM, COPY_SCRIPT, METER_FAMILY, NEW_FILE_SYSTEM
from tests.support.lab_files import LabFiles


def add(lab_files: LabFiles, path: str, text: str | dict[str, Any]) -> None:
    """Write a file next to the inventory."""
    target = lab_files.folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text if isinstance(text, str) else yaml.safe_dump(text))


def refusal(mapping: dict[str, Any], lab: Lab) -> str:
    with pytest.raises(UserError) as caught:
        campaigns.parse(mapping, lab, "playbooks/study.yml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- a file system

CUTS = {
    "kind": "power-cut",
    "name": "cuts",
    "question": "Is it still there?",
    "subjects": [{"drive": "fast", "filesystem": "new"}],
}


@pytest.fixture
def with_filesystem(lab_files: LabFiles) -> Lab:
    add(lab_files, "filesystems/new.yml", NEW_FILE_SYSTEM)
    return lab_files.load()


def test_a_new_file_system_is_a_level_of_a_campaign(with_filesystem: Lab, mapping: dict[str, Any]) -> None:
    mapping["factors"]["filesystem"] = ["new"]
    campaign = campaigns.parse(mapping, with_filesystem, "playbooks/study.yml")
    cells = {run.cell for run in campaigns.plan(campaign, with_filesystem)}
    assert "fast/new/none/randread" in cells


def test_a_new_file_system_is_among_the_allowed_names(with_filesystem: Lab, mapping: dict[str, Any]) -> None:
    mapping["factors"]["filesystem"] = ["knew"]
    message = refusal(mapping, with_filesystem)
    assert "nearest is 'new'; allowed: btrfs, ext2," in message
    assert message.endswith(", new")


def test_a_new_file_systems_packages_are_provisioned_and_in_the_guest_image(with_filesystem: Lab) -> None:
    assert "bcachefs-tools" in packages.for_filesystems(with_filesystem)
    assert "bcachefs-tools" in packages.for_guests(with_filesystem)
    assert virtual.missing_packages(with_filesystem, "bench1", ["bcachefs-tools"]) == []


def test_a_new_file_systems_module_is_in_a_virtual_hosts_kernel(with_filesystem: Lab) -> None:
    modules = filesystems.modules(filesystems.load(with_filesystem))
    hz100 = kernels.load(with_filesystem)["hz100"]
    assert "bcachefs" in build.recipe(hz100, "virtual", modules).modules.split()
    assert build.recipe(hz100, "debian", modules).modules == ""


def test_a_new_file_system_can_be_power_cut(with_filesystem: Lab) -> None:
    [subject] = power_cuts.make_subjects(power_cuts.parse(CUTS, with_filesystem, "x.yml"), with_filesystem)
    assert (subject.filesystem, subject.atomic_rename, subject.fsync_flushes) == ("new", True, False)
    after = filesystems.with_power_cuts(with_filesystem)["new"]
    assert after.commands == {"before_mount": [], "repair": [], "check": ["bcachefs", "fsck", "-n"]}


def test_a_new_file_system_without_promises_cannot_be_power_cut(lab_files: LabFiles) -> None:
    add(
        lab_files, "filesystems/new.yml", {k: v for k, v in NEW_FILE_SYSTEM.items() if k != "after_power_cut"}
    )
    with pytest.raises(UserError, match=r"'new' is unknown; allowed: none, btrfs, .*xfs"):
        power_cuts.parse(CUTS, lab_files.load(), "x.yml")


def test_a_test_host_gets_what_makes_and_mounts_a_new_file_system(with_filesystem: Lab) -> None:
    given = filesystems.load(with_filesystem)["new"].for_host("new")
    assert given["name"] == "new"
    assert given["mkfs"] == NEW_FILE_SYSTEM["mkfs"]
    assert not {"packages", "after_power_cut", "description"} & set(given)


def test_a_new_file_system_is_in_the_reference(with_filesystem: Lab) -> None:
    text = filesystems.reference(filesystems.load(with_filesystem))
    assert "| `new` | bcachefs, copy on write | bcachefs-tools | `bcachefs format --quiet --force` |" in text


def test_the_reference_of_file_systems_describes_every_key() -> None:
    rows = [line.split(" | ") for line in filesystems.reference().splitlines()]
    keys = {cells[0].strip("| `"): cells[1] for cells in rows if len(cells) == 3}
    assert "left out: it cannot be used in them" in keys["after_power_cut"]
    assert {"type", "mkfs", "external_journal.make", "after_power_cut.check"} <= set(keys)
    assert all(keys.values())


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (
            "filesystems/ext4.yml",
            NEW_FILE_SYSTEM,
            "filesystems/ext4.yml: ext4: is a shipped file system; give another",
        ),
        (
            "filesystems/New.yml",
            NEW_FILE_SYSTEM,
            "filesystems/New.yml: 'New' is not a valid name of a file system; allowed:",
        ),
        ("filesystems/new.yml", {"type": "x"}, "filesystems/new.yml: mkfs: "),
        (
            "filesystems/new.yml",
            {**NEW_FILE_SYSTEM, "mkfz": 1},
            "filesystems/new.yml: .*unknown key 'mkfz'; allowed:",
        ),
        ("filesystems/new.yml", ["ext4"], "filesystems/new.yml: a list; allowed: a mapping"),
        (
            "filesystems/new.yml",
            {**NEW_FILE_SYSTEM, "packages": ["A b"]},
            "filesystems/new.yml: packages.0: 'A b'",
        ),
    ],
)
def test_a_mistake_in_a_new_file_system_is_one_line(
    lab_files: LabFiles, path: str, text: Any, message: str
) -> None:
    add(lab_files, path, text)
    with pytest.raises(UserError, match=message) as caught:
        filesystems.load(lab_files.load())
    assert "\n" not in str(caught.value)


def test_a_file_system_is_declared_once(lab_files: LabFiles) -> None:
    add(lab_files, "filesystems/new.yml", NEW_FILE_SYSTEM)
    add(lab_files, "filesystems.yml", {"new": NEW_FILE_SYSTEM})
    with pytest.raises(UserError, match=r"filesystems.yml: new: is defined twice"):
        filesystems.load(lab_files.load())


# --- a program


@pytest.fixture
def with_program(lab_files: LabFiles) -> Lab:
    add(lab_files, "programs/clone/program.yml", COPY_PROGRAM)
    add(lab_files, "programs/clone/clone.py", COPY_SCRIPT)
    add(lab_files, "programs/clone/words.txt", "data")
    return lab_files.load()


def test_a_new_programs_workload_is_a_level_of_a_campaign(with_program: Lab, mapping: dict[str, Any]) -> None:
    mapping["factors"]["workload"] = ["copies"]
    campaign = campaigns.parse(mapping, with_program, "playbooks/study.yml")
    assert "fast/ext4/none/copies" in {run.cell for run in campaigns.plan(campaign, with_program)}


def test_a_new_programs_workload_is_among_the_allowed_names(
    with_program: Lab, mapping: dict[str, Any]
) -> None:
    mapping["factors"]["workload"] = ["copie"]
    assert "nearest is 'copies'; allowed: " in refusal(mapping, with_program)


def test_a_new_programs_packages_are_in_the_guest_image_and_on_its_hosts(with_program: Lab) -> None:
    assert "coreutils-extra" in packages.for_guests(with_program)
    assert workloads.deployment(["copies"], with_program)["campaign_packages"] == ["coreutils-extra"]


def test_a_new_programs_whole_directory_goes_to_its_hosts(with_program: Lab) -> None:
    share = f"{place.SHARE}/programs"
    put = [entry["dest"] for entry in workloads.deployment(["copies"], with_program)["campaign_programs"]]
    assert put == [f"{share}/clone/clone.py", f"{share}/clone/words.txt", f"{share}/program.py"]
    delivered = workloads.load(with_program)["copies"].delivered(place.on_host)
    assert delivered["program"] == f"{share}/clone/clone.py"
    assert delivered["common_code"] == f"{share}/program.py"
    assert delivered["settings"] == {"bytes": 10}


def test_a_new_program_runs(with_program: Lab, tmp_path: Path) -> None:
    directory = tmp_path / "work"
    directory.mkdir()
    done = trial.run("copies", workloads.load(with_program)["copies"], directory, seconds=1, seed=1)
    assert done.problem == ""
    assert done.performance["unit"] == "copy"
    assert done.performance["ops"] > 0


def test_another_variant_of_a_new_program_is_named_in_workloads_yml(
    lab_files: LabFiles, with_program: Lab
) -> None:
    add(lab_files, "workloads.yml", {"more": {"engine": "program", "program": "clone"}})
    assert workloads.load(with_program)["more"].needed_packages() == ["coreutils-extra"]
    unknown = {"engine": "program", "program": "clone", "settings": {"byte": 1}}
    add(lab_files, "workloads.yml", {"more": unknown})
    with pytest.raises(UserError, match=r"workloads\.yml: more: settings\.byte: unknown; nearest is 'bytes'"):
        workloads.load(with_program)


def test_a_new_program_is_in_the_reference(with_program: Lab) -> None:
    text = programs.reference(programs.load(with_program))
    assert "| `clone` | copies of a file | `copies` | copy |  | coreutils-extra |" in text
    assert "| `clone` | `bytes` | size of the file | `4096` |" in text


def test_the_reference_of_programs_has_every_shipped_one() -> None:
    text = programs.reference()
    assert all(f"| `{path.parent.name}` | " in text for path in programs.SHIPPED.glob("*/program.yml"))


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (
            "programs/clone/program.yml",
            {**COPY_PROGRAM, "package": []},
            r"clone/program\.yml: .*unknown key 'package'",
        ),
        ("programs/clone/program.yml", {"description": "x"}, r"clone/program\.yml: workloads: "),
        ("programs/tpcc/program.yml", COPY_PROGRAM, r"programs/tpcc: tpcc: is a shipped program"),
        ("programs/other/program.yml", COPY_PROGRAM, r"other/program\.yml: .*other\.py: no such file"),
        (
            "programs/clone/program.yml",
            {**COPY_PROGRAM, "workloads": {"seqread": {}, "randread": {}}},
            r"programs: randread: is a shipped workload",
        ),
        (
            "programs/clone/program.yml",
            {**COPY_PROGRAM, "workloads": {"copies": {"setting": {}}}},
            r"clone/program\.yml: copies: unknown key 'setting'",
        ),
    ],
)
def test_a_mistake_in_a_new_program_is_one_line(
    lab_files: LabFiles, with_program: Lab, path: str, text: Any, message: str
) -> None:
    if "tpcc" in path:
        add(lab_files, "programs/tpcc/tpcc.py", COPY_SCRIPT)
    add(lab_files, path, text)
    with pytest.raises(UserError, match=message) as caught:
        workloads.load(with_program)
    assert "\n" not in str(caught.value)


# --- a meter family

METER = {"driver": "gwinstek-gpd", "connection": "/dev/ttyUSB0", "accuracy": "gwinstek-gpd"}


@pytest.fixture
def with_family(lab_files: LabFiles) -> LabFiles:
    add(lab_files, "meters/gwinstek_gpd.py", METER_FAMILY)
    lab_files.controller["meters"]["supply"] = dict(METER)
    rail = {"meter": "supply", "volts": "V1", "amps": "I1"}
    lab_files.drives["bare"]["rails"] = {"5v": rail}
    return lab_files


def test_a_new_familys_values_stand_for_what_the_inventory_leaves_out(with_family: LabFiles) -> None:
    meter = with_family.load().controller.meters["supply"]
    assert (meter.timing, meter.samples, meter.sample_rate_hz) == ("poll", "point", 2.0)
    assert meter.accuracy["volts"].gain_percent == 0.03


def test_a_new_familys_options_and_settings_reach_the_capture(with_family: LabFiles) -> None:
    lab = with_family.load()
    driver = source.driver(lab, "supply")
    assert driver == "gwinstek-gpd:conn=/dev/ttyUSB0:force_detect=GPD-2303S"
    meter = lab.controller.meters["supply"]
    assert source.settings(meter) == {"over_current_protection_enabled": "off"}
    assert source.srcap_options(meter.family) == ["--open-seconds", "9", "--fixed-settings"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"volts": "V7"}, r"rails\.5v\.volts: 'V7': gwinstek-gpd has no such channel; allowed: V1, I1, V2"),
        ({"volts": None, "amps": None, "watts": "V1"}, r"rails\.5v\.watts: .*volts and amps only"),
    ],
)
def test_a_rail_that_a_new_family_cannot_measure_is_refused(
    with_family: LabFiles, change: dict[str, Any], message: str
) -> None:
    rail = with_family.drives["bare"]["rails"]["5v"] | change
    with_family.drives["bare"]["rails"]["5v"] = {key: value for key, value in rail.items() if value}
    with pytest.raises(UserError, match=message):
        with_family.load()


def test_a_new_family_is_among_the_allowed_drivers(with_family: LabFiles) -> None:
    with_family.controller["meters"]["supply"]["driver"] = "gwinstek"
    with pytest.raises(
        UserError, match=r"'gwinstek' is not a driver .*allowed: .*, gwinstek-gpd, or another"
    ):
        with_family.load()


def test_a_new_family_is_known_to_its_lab_alone(with_family: LabFiles) -> None:
    assert "gwinstek-gpd" in meters.available(with_family.folder).by_driver
    assert "gwinstek-gpd" not in meters.shipped().by_driver


def test_a_new_family_is_in_the_reference(with_family: LabFiles) -> None:
    text = meters.reference(meters.available(with_family.folder).by_driver.values())
    row = "| `gwinstek-gpd` | GW Instek GPD supplies | serial | poll | point | V1, I1, V2, I2 | `gwinstek-gpd` |"
    assert row in text


def test_the_reference_of_meters_has_every_shipped_family() -> None:
    packages = [Path(package.__file__ or "").parent for package in (meters.families, meters.captured)]
    drivers = {path.stem.replace("_", "-") for package in packages for path in package.glob("[a-z]*.py")}
    assert drivers == set(meters.FAMILIES)
    assert all(f"| `{driver}` | " in meters.reference() for driver in drivers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FAMILY = 1", r"meters/gwinstek_gpd\.py: FAMILY: missing; allowed: "),
        ("import no_such_module", r"meters/gwinstek_gpd\.py: ModuleNotFoundError: .*no_such_module"),
        ("FAMILY = (", r"meters/gwinstek_gpd\.py: SyntaxError: "),
        (METER_FAMILY.replace("gwinstek-gpd", "demo"), r"FAMILY\.driver: 'demo' is a shipped family's"),
    ],
)
def test_a_mistake_in_a_new_family_is_one_line(with_family: LabFiles, text: str, message: str) -> None:
    add(with_family, "meters/gwinstek_gpd.py", text)
    with pytest.raises(UserError, match=message) as caught:
        with_family.load()
    assert "\n" not in str(caught.value)


def test_the_collectors_know_no_family_of_meters() -> None:
    sources = [
        path
        for pattern in ("srcap/*.[ch]", "powerd/*.go", "internal/**/*.go")
        for path in (paths.ROOT / "collectors").glob(pattern)
        if not path.name.endswith("_test.go")
    ]
    assert len(sources) > 20
    of_sigrok = {name for name, family in meters.shipped().by_driver.items() if not family.capturer}
    drivers = of_sigrok - {"demo"}  # a word of English, too
    found = [(path.name, driver) for path in sources for driver in drivers if driver in path.read_text()]
    assert found == []
