# SPDX-License-Identifier: GPL-3.0-or-later
"""The study of file systems on memory: DAX and the page cache, PMFS against HiNFS."""

import dataclasses
import json

import pytest

from joulerig.analysis import results
from joulerig.analysis.report import document
from joulerig.analysis.studies import nvmm_fs
from joulerig.analysis.studies.claims import DOES_NOT, HOLDS, OPEN, Measured
from tests.support import simulated_campaign

TWO = ("nvme-plp", "nvme-consumer")


def campaign(
    folder,
    filesystems,
    workloads=("varmail",),
    virtual=True,
    outcome=simulated_campaign.always_ok,
    drives=("nvme-plp",),
):
    for name in filesystems:
        simulated_campaign.FILESYSTEM_SPEED.setdefault(name, 1.0)
    simulated_campaign.build(
        folder,
        drives=drives,
        filesystems=filesystems,
        schedulers=("none",),
        workloads=workloads,
        replicates=3,
        virtual=virtual,
        outcome=outcome,
    )
    loaded = results.load(folder)
    return dataclasses.replace(loaded, definition={**loaded.definition, "study": "nvmm_fs"})


def cached(loaded, shares):
    """Runs that leave `shares` of their files' pages in the page cache, by file system."""
    for run in loaded.runs:
        pages = {"pages_asked": 4000, "pages_cached": round(4000 * shares[run.filesystem])}
        dax = run.filesystem.endswith("-dax")
        run.folder.mkdir(parents=True, exist_ok=True)
        content = {"dax": {"asked": dax, "in_effect": dax}, "caches_after": pages}
        (run.folder / "settings.json").write_text(json.dumps(content))
    return loaded


def verdicts_of(loaded):
    return {one.claim.key: one for one in map(Measured.judged, nvmm_fs.measure(loaded))}


@pytest.mark.parametrize(
    ("dax", "plain", "verdict"),
    [(0.0, 0.9, HOLDS), (0.3, 0.9, DOES_NOT), (0.0, 0.05, OPEN), (0.01, 0.1, HOLDS)],
)
def test_pages_left_in_the_page_cache_show_whether_dax_went_past_it(tmp_path, dax, plain, verdict):
    loaded = cached(campaign(tmp_path / "c", ("ext4-dax", "ext4")), {"ext4-dax": dax, "ext4": plain})
    found = verdicts_of(loaded)["bypass"]
    assert (found.verdict, found.effect.value) == (verdict, pytest.approx(dax))


def test_one_run_that_is_cached_denies_it(tmp_path):
    loaded = cached(campaign(tmp_path / "c", ("ext4-dax", "ext4")), {"ext4-dax": 0.0, "ext4": 0.9})
    run = next(run for run in loaded.runs if run.filesystem == "ext4-dax")
    content = json.loads((run.folder / "settings.json").read_text())
    content["caches_after"]["pages_cached"] = 400
    (run.folder / "settings.json").write_text(json.dumps(content))
    found = verdicts_of(results_again(loaded))["bypass"]
    assert (found.verdict, found.effect.high) == (DOES_NOT, pytest.approx(0.1))


def results_again(loaded):
    """As read again from its files."""
    return dataclasses.replace(results.load(loaded.folder), definition=loaded.definition)


def test_dax_alone_has_nothing_to_compare_with(tmp_path):
    loaded = cached(campaign(tmp_path / "c", ("ext4-dax",)), {"ext4-dax": 0.0})
    assert verdicts_of(loaded)["bypass"].verdict == OPEN


def test_a_drive_without_dax_has_no_claim_on_it(tmp_path):
    loaded = cached(campaign(tmp_path / "c", ("ext2", "ext4")), {"ext2": 0.9, "ext4": 0.9})
    assert "bypass" not in verdicts_of(loaded)


def test_without_the_modules_of_the_study_its_times_are_open_and_the_hosts_say_why(tmp_path):
    def outcome(levels):
        if levels["filesystem"] in ("pmfs", "hinfs"):
            reason = (
                f"refused: {levels['filesystem']}: this kernel has no file system '{levels['filesystem']}'"
            )
            return simulated_campaign.Outcome("not-run", reason)
        return simulated_campaign.always_ok(levels)

    loaded = campaign(tmp_path / "c", ("ext4", "pmfs", "hinfs"), ("postmark",), outcome=outcome)
    found = verdicts_of(loaded)
    assert {one.verdict for one in found.values()} == {OPEN}
    assert {one.where for one in found.values()} == {"nvme-plp"}
    assert "this kernel has no file system 'hinfs'" in found["postmark"].why
    assert found["tpcc"].why == "no run of hinfs and pmfs"


def test_where_no_drive_was_to_run_the_modules_of_the_study_its_times_are_named_once(tmp_path):
    loaded = cached(
        campaign(tmp_path / "c", ("ext4-dax", "ext4"), drives=TWO), {"ext4-dax": 0.0, "ext4": 0.9}
    )
    found = [(one.claim.key, one.where) for one in map(Measured.judged, nvmm_fs.measure(loaded))]
    assert sorted(found) == sorted(
        [(key, of) for drive in TWO for key, of in (("bypass", drive), ("dax", f"{drive}, varmail, ext4"))]
        + [(claim.key, ", ".join(TWO)) for claim, _, _ in nvmm_fs.TIMES]
    )


@pytest.mark.parametrize(
    ("speed", "virtual", "verdict"), [(2.5, False, HOLDS), (1.1, False, DOES_NOT), (2.5, True, OPEN)]
)
def test_times_are_judged_on_a_bench(tmp_path, monkeypatch, speed, virtual, verdict):
    monkeypatch.setitem(simulated_campaign.FILESYSTEM_SPEED, "hinfs", speed)
    loaded = campaign(tmp_path / "c", ("pmfs", "hinfs"), ("postmark",), virtual=virtual)
    found = verdicts_of(loaded)["postmark"]
    assert (found.verdict, found.effect.value) == (verdict, pytest.approx(1 / speed, rel=0.03))


@pytest.mark.parametrize("speed", [0.7, 1.5])
def test_an_emulated_processor_judges_no_dax(tmp_path, monkeypatch, speed):
    monkeypatch.setitem(simulated_campaign.FILESYSTEM_SPEED, "ext4-dax", speed)
    monkeypatch.setitem(simulated_campaign.FILESYSTEM_SPEED, "ext4", 1.0)
    found = verdicts_of(campaign(tmp_path / "c", ("ext4-dax", "ext4")))["dax"]
    assert (found.verdict, found.where) == (OPEN, "nvme-plp, varmail, ext4")
    assert found.effect.value == pytest.approx(speed, rel=0.03)
    assert "memory has no model of time" in found.why


def test_on_a_bench_dax_is_judged_by_the_times_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(simulated_campaign.FILESYSTEM_SPEED, "xfs-dax", 2.0)
    loaded = campaign(tmp_path / "c", ("xfs-dax", "xfs"), virtual=False)
    found = verdicts_of(loaded)["dax"]
    assert (found.verdict, found.where) == (HOLDS, "nvme-plp, varmail, xfs")


def test_the_report_draws_times_of_drives_without_a_rail(tmp_path):
    loaded = cached(campaign(tmp_path / "c", ("ext4-dax", "ext4")), {"ext4-dax": 0.0, "ext4": 0.9})
    runs = tuple(dataclasses.replace(run, result=None, energy=()) for run in loaded.runs)
    page = document.html(dataclasses.replace(loaded, runs=runs))
    assert "Normalised execution time" in page
    assert "Writes by DAX bypass the page cache." in page


def replayed(loaded, seconds):
    """Runs of a trace whose classes of calls took `seconds(run)`."""
    for run in loaded.runs:
        classes = [{"name": name, "seconds": taken} for name, taken in seconds(run).items()]
        run.folder.mkdir(parents=True, exist_ok=True)
        (run.folder / "load.json").write_text(json.dumps({"command": "replay", "classes": classes}))
    return loaded


def test_a_replays_time_is_reported_by_class(tmp_path):
    seconds = {"read": 1.0, "write": 2.0, "append": 0.5, "fsync": 3.0, "fdatasync": 0.25, "stat": 0.125}
    loaded = replayed(
        campaign(tmp_path / "c", ("ext4-dax", "ext4"), ("trace-all-syncs",)), lambda run: seconds
    )
    assert nvmm_fs.replayed_seconds(loaded.runs[0]) == {
        "read": 1.0, "write": 2.5, "fsync": 3.25, "unlink": 0, "other": 0.125
    }  # fmt: skip
    assert "Where the time of a replayed trace goes" in document.html(loaded)


def test_a_load_other_than_replay_has_no_such_figure(tmp_path):
    loaded = campaign(tmp_path / "c", ("ext4-dax", "ext4"))
    assert nvmm_fs.replayed_seconds(loaded.runs[0]) is None
    assert "Where the time of a replayed trace goes" not in document.html(loaded)


def test_time_of_a_published_trace_is_judged(tmp_path, monkeypatch):
    monkeypatch.setitem(simulated_campaign.FILESYSTEM_SPEED, "hinfs", 1 / 0.62)
    found = verdicts_of(campaign(tmp_path / "c", ("pmfs", "hinfs"), ("lasr",), virtual=False))
    assert found["lasr"].verdict == HOLDS
    assert found["usr0"].why == "no run of hinfs and pmfs"
