# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig results`: AI with its interval, what it rests on, the truth check, the baseline."""

import json
import sqlite3

import pytest

from joulerig.analysis.results.campaign import load
from joulerig.analysis.tables import runs_and_cells as tables
from joulerig.rig.cli import results
from tests.support import simulated_campaign

FIT = {"gain": 1.0, "offset": 0.0, "u_gain": 5e-4, "u_offset": 1e-4, "cov": 0.0}
EXPIRED = {
    "tap1a": {
        "state": "expired",
        "date": "2025-10-01",
        "expires": "2026-10-01",
        "certificate": "C-7",
        "channels": {"CH1": FIT, "CH2": FIT},
    }
}


@pytest.fixture
def folder(tmp_path):
    return simulated_campaign.build(tmp_path / "c", drives=("nvme-plp", "sata-plp"), calibration=EXPIRED)


def edit(folder, statement):
    with sqlite3.connect(folder / "journal.sqlite") as database:
        database.execute(statement)


def line_of(text, begin):
    [line] = [line for line in text.splitlines() if line.startswith(begin)]
    return line


def test_each_ai_has_the_interval_of_its_energy(folder):
    text = results.ai_table_text(folder)
    for run in results.as_json(folder)["runs"]:
        low, high = run["ai_ops_per_joule_energy_low"], run["ai_ops_per_joule_energy_high"]
        assert low < run["ai_ops_per_joule"] < high
        assert f"[{low:.1f}, {high:.1f}]" in text


def test_the_closing_lines_say_whether_the_truth_lies_within(folder):
    edit(folder, "UPDATE result SET joules_low = true_joules - 1, joules_high = true_joules + 1")
    line = line_of(results.ai_table_text(folder), "measured against true joules, 18 runs: worst ")
    assert line.endswith("; true joules within [low, high] in 18 of 18")
    edit(folder, "UPDATE result SET joules_low = true_joules + 0.1 WHERE run LIKE '%-0002'")
    line = line_of(results.ai_table_text(folder), "measured against true joules, 18 runs: worst ")
    assert line.endswith("; true joules within [low, high] in 17 of 18")


def test_without_bounds_nothing_is_said_of_them(folder):
    edit(folder, "UPDATE result SET joules_low = NULL, joules_high = NULL")
    assert "within" not in results.ai_table_text(folder)


def test_what_is_doubtful_in_runs_is_named_once(folder):
    edit(folder, "UPDATE run SET reason = 'precondition: slow; doubtful: late' WHERE id LIKE '%-000_'")
    text = results.ai_table_text(folder)
    assert line_of(text, "DOUBTFUL") == "DOUBTFUL, 9 runs from 1 on: late"
    assert "precondition: slow" not in text


def test_each_meter_is_named_with_its_ledger_and_what_vouches_for_it(folder):
    edit(folder, "UPDATE energy SET samples = samples - 1 WHERE meter = 'tap1b' AND phase = 'tail'")
    text = results.ai_table_text(folder)
    tap1a, tap1b = line_of(text, "meter tap1a:"), line_of(text, "meter tap1b:")
    assert ", balanced; † CALIBRATION of 2025-10-01 EXPIRED 2026-10-01, certificate C-7" in tap1a
    assert ", 9 unaccounted for; no calibration on record, meter class not stated" in tap1b


def test_an_expired_calibration_marks_every_ai_that_rests_on_it_and_no_other(folder):
    for row in results.ai_table_text(folder).split("AI in ops/J")[1:]:
        figures = [line for line in row.splitlines() if line.startswith(("│ ext4", "│ xfs", "│ f2fs"))]
        assert [line.count("†") for line in figures] == [3 if "· nvme-plp ·" in row else 0] * 3


def test_the_baseline_is_a_separate_table(tmp_path):
    given = {"drives": ("nvme-plp", "sata-plp"), "filesystems": ("ext4",), "traces": True}
    folder = simulated_campaign.build(tmp_path / "b", calibration=EXPIRED, **given)
    text = results.baseline_text(folder)
    assert text.startswith("idle watts, at rest; in no AI · demo-")
    assert "VIRTUAL LAB" in text
    found = {rail["drive"]: rail for rail in results.as_json(folder)["baseline"]}
    for drive, mark in (("nvme-plp", "†"), ("sata-plp", " ")):
        [line] = [line for line in text.splitlines() if f" {drive} " in line]
        assert f"{found[drive]['watts']:.4f}{mark}" in line
        assert f"[{found[drive]['low']:.4f}, {found[drive]['high']:.4f}]" in line
    assert "CALIBRATION of 2025-10-01 EXPIRED 2026-10-01" in text


def test_json_has_the_ledger_and_the_bounds(folder):
    found = results.as_json(folder)
    run = found["runs"][0]
    assert run["joules_low"] < run["joules"] < run["joules_high"]
    assert run["truth_within"] in (True, False)
    states = {run["cell"].split("/")[0]: run["calibration"] for run in found["runs"]}
    assert states == {"nvme-plp": "expired", "sata-plp": None}
    assert [meter["balanced"] for meter in found["ledger"]] == [True, True]


def test_a_drive_without_a_rail_shows_its_rate(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "r", drives=["sata-plp"], outcome=lambda _: simulated_campaign.Outcome(joules=False)
    )
    run = results.as_json(folder)["runs"][0]
    assert run["ai_ops_per_joule"] is None
    assert f"{run['performance']['ops_per_second']:.1f} ops/s, no rail" in results.ai_table_text(folder)


MERIT = (
    "UPDATE performance SET read_bytes = NULL, syncs = NULL, mb_per_second = NULL, unit = 'transaction',"
    " figure_name = 'notpm', figure_unit = '1/min', figure = 480.25, figure_better = 'higher'"
)


def test_a_programs_figure_of_merit_has_its_own_table(folder):
    assert "notpm" not in results.ai_table_text(folder)
    edit(folder, MERIT)
    text = results.ai_table_text(folder)
    assert "notpm in 1/min, higher is better · nvme-plp · randwrite-fsync · VIRTUAL LAB" in text
    assert text.count(" 480.2 ") == len(results.as_json(folder)["runs"])
    assert "VIRTUAL LAB · an op is a transaction" in text
    run = results.as_json(folder)["runs"][0]
    assert (run["performance"]["figure"], run["performance"]["mb_per_second"]) == (480.25, None)
    assert run["ai_mb_per_joule_energy_low"] is None


def test_each_level_of_a_further_factor_has_its_own_table(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "j", drives=["nvme-plp"], extra_factors={"journal": ["internal", "sata-plp"]}
    )
    text = results.ai_table_text(folder)
    assert "· nvme-plp · randwrite-fsync · journal=internal" in text
    assert "· nvme-plp · randwrite-fsync · journal=sata-plp" in text
    factors = {run["factors"]["journal"] for run in results.as_json(folder)["runs"]}
    assert factors == {"internal", "sata-plp"}


def test_emulated_drives_are_named_with_every_run_and_table(folder):
    host = results.as_json(folder)["runs"][0]["host"]
    by = "scsi_debug, 8 ms a request"
    emulated = json.dumps({host: {"sata-plp": by}})
    edit(folder, f"UPDATE campaign SET provenance = json_set(provenance, '$.emulated', json('{emulated}'))")
    for run in results.as_json(folder)["runs"]:
        assert run["emulated"] == ({"sata-plp": by} if run["cell"].startswith("sata-plp/") else {})
    tables = [line for line in results.ai_table_text(folder).splitlines() if line.startswith("AI in")]
    assert [line.endswith(f"emulated by {by}") for line in tables] == ["sata-plp" in line for line in tables]


def test_replicates_come_with_half_of_their_interval_and_letters(tmp_path):
    folder = simulated_campaign.build(
        tmp_path / "c", drives=["nvme-plp"], filesystems=["f2fs"], schedulers=["none", "bfq"], replicates=3
    )
    text = results.ai_table_text(folder)
    best = tables.cells(load(folder)).sort("ai_ops_per_joule").row(-1, named=True)
    half = (best["ai_ops_per_joule_interval_high"] - best["ai_ops_per_joule_interval_low"]) / 2
    assert f"{best['ai_ops_per_joule']:.1f} ± {half:.1f} a *" in text
    closing = "* may be the best of its table, of what these runs show; ± is half of the 95 % interval; cells of a table that share a letter are not separated"
    assert text.endswith(closing)


def test_one_run_a_cell_has_no_star_and_says_why(folder):
    text = results.ai_table_text(folder)
    assert text.splitlines()[-1].endswith("; one run a cell: nothing can be separated")
    assert "*" not in text
