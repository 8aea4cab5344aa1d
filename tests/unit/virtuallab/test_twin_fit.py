# SPDX-License-Identifier: GPL-3.0-or-later
"""A fit finds the truth that its rows were made from, and says how sure it is and what is open."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from joulerig.rig.common.errors import UserError
from joulerig.virtuallab import profile
from joulerig.virtuallab.fit import fitting, model, report
from joulerig.virtuallab.fit.rows import Row, read_table
from joulerig.virtuallab.profile import Profile

KIB = 1024
NOISE = 0.01
MEASURED = profile.FOLDER / "fitted" / "nvme-powersensor3.csv"


def changed(base, *, rail=None, latency=None, **flash):
    """A profile with other numbers."""
    found = base.model_dump(exclude_none=True)
    found["flash"] |= flash
    found["flash"]["latency_us"] |= latency or {}
    found["rails"]["3v3"] |= rail or {}
    return Profile.model_validate(found)


BASE = changed(profile.load("nvme-consumer"), slc_fraction=0.0)
TRUTH = changed(
    BASE,
    channels=16,
    read_bytes_per_second=2.4e9,
    write_bytes_per_second=1.1e9,
    latency={
        "read": 31.0,
        "write": 25.0,
        "page_read": 70.0,
        "short_read": 44.0,
        "next_page": 2.0,
        "program": 200.0,
    },
    rail={
        "idle_watts": 1.2,
        "read_joules_per_byte": 8e-10,
        "write_joules_per_byte": 2.1e-9,
        "command_joules": 4e-6,
        "work": {"gc": {"joules_per_byte": 1.7e-9}},
    },
)
WATTS = (1.2, 8e-10, 2.1e-9, 4e-6, 1.7e-9)


def loads():
    """Every kind of load."""
    sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
    for depth in (1, 2, 4, 64):
        yield from (("read", size * KIB, depth, 1.0) for size in sizes)
    yield from (("write", size * KIB, 1, 1.0) for size in (4, 8, 16, 32, 64, 256, 1024))
    yield from (("write", 4 * KIB, 8, 1.5 + n) for n in range(8))


def rows(truth, given, seed=None):
    """Rows as a drive of these times and of WATTS gives them; with a seed, of NOISE."""
    rng = np.random.default_rng(seed)
    times = model.Times.from_profile(truth.flash)
    for operation, size, depth, amplification in given:
        exact = Row(operation, size, depth, amplification, 1.0, {"3v3": 1.0})
        exact = replace(exact, bytes_per_second=model.bytes_per_second(times, exact))
        watts = float(np.dot(WATTS, model.watts_terms(exact)))
        rate_noise, watts_noise = NOISE * rng.standard_normal(2) if seed is not None else (0.0, 0.0)
        yield replace(
            exact,
            bytes_per_second=exact.bytes_per_second * (1 + rate_noise),
            watts={"3v3": watts * (1 + watts_noise)},
        )


def truths():
    latency, flash, rail = TRUTH.flash.latency_us, TRUTH.flash, TRUTH.rails["3v3"]
    found = {key: getattr(latency, key) for key in ("read", "write", "page_read", "short_read", "program")}
    found |= {"next_page": latency.next_page, "channels": flash.channels}
    found |= {key: getattr(flash, key) for key in ("read_bytes_per_second", "write_bytes_per_second")}
    found |= {f"3v3.{name}": getattr(rail, name) for name in model.WATTS[:-1]}
    return found | {"3v3.gc_joules_per_byte": rail.work["gc"].joules_per_byte}


def test_without_noise_the_fit_is_the_truth():
    fit = fitting.fit(list(rows(TRUTH, loads())), BASE, "", "made rows")
    for one in fit.parameters:
        assert one.value == pytest.approx(truths()[one.key], rel=1e-3), one.key
    assert max(abs(one.rate) for one in fit.residuals) < 1e-3
    assert max(abs(one.held_out_watts) for one in fit.residuals) < 1e-3


def test_with_noise_the_truth_is_as_near_as_the_uncertainties_say():
    """Over several noises: mean square of error over uncertainty near 1, none far out."""
    scores, held_out = [], []
    for seed in range(5):
        fit = fitting.fit(list(rows(TRUTH, loads(), seed)), BASE, "", "made rows")
        fitted = [one for one in fit.parameters if one.fitted and one.uncertainty is not None]
        assert len(fitted) == len(truths()) - 1  # all but channels, which are kept
        scores += [(one.value - truths()[one.key]) / one.uncertainty for one in fitted]
        held_out += [one.held_out_rate for one in fit.residuals]
    # 13 x 5 scores, of which those of one fit hang together.
    assert np.mean(np.square(scores)) == pytest.approx(1.0, abs=0.5)
    assert max(np.abs(scores)) < 4.5
    # A row that the fit has not seen is off by its own noise, and a little of the fit's.
    assert np.sqrt(np.mean(np.square(held_out))) == pytest.approx(NOISE, rel=0.25)


def test_what_the_rows_leave_open_is_kept_and_named():
    only_reads = [one for one in loads() if one[0] == "read" and one[2] == 1]
    fit = fitting.fit(list(rows(TRUTH, only_reads)), BASE, "", "made rows")
    found = {one.key: one for one in fit.parameters}
    kept = {key for key, one in found.items() if not one.fitted}
    assert kept == {
        "channels", "read", "write", "program", "write_bytes_per_second",
        "3v3.write_joules_per_byte", "3v3.gc_joules_per_byte",
    }  # fmt: skip
    latency = BASE.flash.latency_us
    assert (found["program"].value, found["read"].value) == (latency.program, latency.read)
    # One at a time a read is command and page together, whatever the one is taken for.
    for key in ("page_read", "short_read"):
        alone = getattr(TRUTH.flash.latency_us, key) + TRUTH.flash.latency_us.read - latency.read
        assert found[key].value == pytest.approx(alone, rel=1e-3)
    assert fit.profile.flash.latency_us.program == latency.program
    assert "program" in next(one for one in fit.profile.sources if one.startswith("left open"))


def test_a_row_of_unknown_depth_is_of_watts_alone():
    given = [replace(one, queue_depth=None) for one in rows(TRUTH, loads())]
    fit = fitting.fit(given, BASE, "", "made rows")
    assert {one.key for one in fit.parameters if one.fitted} == {f"3v3.{name}" for name in model.WATTS}
    assert all(one.rate is None for one in fit.residuals)


def test_more_units_are_found_where_the_bases_are_too_few():
    """Of a read of many pages few units would need several rounds."""
    fit = fitting.fit(list(rows(TRUTH, loads())), changed(BASE, channels=4), "", "made rows")
    assert fit.profile.flash.channels == TRUTH.flash.channels


def test_a_wrong_model_shows_in_the_rows_left_out():
    """Of a drive that is slow at one size only, that row, left out, is off by as much."""
    given = list(rows(TRUTH, loads()))
    off = next(n for n, row in enumerate(given) if row.request_bytes == 128 * KIB and row.queue_depth == 1)
    given[off] = replace(given[off], bytes_per_second=given[off].bytes_per_second * 0.8)
    fit = fitting.fit(given, BASE, "", "made rows")
    worst = max(fit.residuals, key=lambda one: abs(one.held_out_rate))
    assert worst.row == given[off]
    assert worst.held_out_rate == pytest.approx(0.25, abs=0.03)


def test_the_shipped_profile_is_what_its_table_gives():
    shipped = profile.load("nvme-powersensor3")
    fit = fitting.fit(read_table(MEASURED, shipped.rails), shipped, "", MEASURED.name)
    again, given = fit.profile.model_dump(), shipped.model_dump()
    for part in ("flash", "rails"):
        assert flat(again[part]) == pytest.approx(flat(given[part]), rel=2e-3)


def flat(values, prefix=""):
    found = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)):
            found[f"{prefix}{key}"] = value
    return found


def test_a_fitted_profile_is_one_that_can_be_read_back(tmp_path):
    head, *given = [line for line in MEASURED.read_text().splitlines() if not line.startswith("#")]
    table, path = tmp_path / "fewer.csv", tmp_path / "like-that.yml"
    table.write_text("\n".join([head, *given[::3]]))
    found = report.fit_table(table, "nvme-consumer", "a drive")
    path.write_text(found["profile"])
    again = profile.read(path)
    assert again.description == "a drive"
    assert report.fit_table(table, str(path), "a drive")["worst"] == pytest.approx(found["worst"], abs=2e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t.csv: no row in it; the first line is to name columns"),
        (
            "operation,request_bytes\nread,1",
            "t.csv: no column bytes_per_second; it has operation, request_bytes",
        ),
        (
            "operation,request_bytes,bytes_per_second\nread,1,1",
            "t.csv: no column watts_3v3 (or watts); it has operation, request_bytes, bytes_per_second",
        ),
        (
            "operation,request_bytes,bytes_per_second,watts\n# a comment\nseek,1,1,1",
            "t.csv: line 3: operation: 'seek'; allowed: 'idle', 'read' or 'write'",
        ),
        (
            "operation,request_bytes,bytes_per_second,watts\nread,512,1,many",
            "t.csv: line 2: watts: 'many'; allowed: a number of watts, at least 0",
        ),
        (
            "operation,request_bytes,bytes_per_second,watts\nread,512,1,0",
            "t.csv: line 2: watts: 0; allowed: more than that, of all rails together",
        ),
        (
            "operation,request_bytes,bytes_per_second,watts\nread,512,1",
            "t.csv: line 2: cells: 3; columns of the table: 4",
        ),
        (
            "operation,request_bytes,bytes_per_second,watts\nread,,1,1",
            "t.csv: line 2: request_bytes: a row of read has one",
        ),
        (
            "operation,request_bytes,bytes_per_second,watts\nread,512,1,1",
            "t.csv: rows: 1; a fit needs at least 3",
        ),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(tmp_path, monkeypatch, text, said):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(text)
    with pytest.raises(UserError) as refused:
        report.fit_table(Path("t.csv"), "nvme-consumer", "a drive")
    assert str(refused.value) == said


def test_a_wrong_base_is_refused():
    with pytest.raises(UserError, match="--base: hdd-7200: a hard disk; allowed: a flash profile"):
        report.fit_table(MEASURED, "hdd-7200", "a drive")
    with pytest.raises(UserError, match="--base: 'nvme' is no drive profile; allowed: hdd-7200"):
        report.fit_table(MEASURED, "nvme", "a drive")
    with pytest.raises(UserError, match="a campaign: rails 12v; the base profile nvme-consumer has 3v3"):
        report.fit_loads([({}, {"12v": 1.0})], "nvme-consumer", "a drive", "a campaign")


def test_of_small_reads_alone_no_part_of_a_page_takes_longer_than_the_whole():
    """The base's page is read in 48.5 us, these reads of a part take more."""
    small = [("read", size, 1, 1.0) for size in (512, 1024, 2048, 4096)]
    slow = changed(TRUTH, latency={"short_read": 65.0})
    fit = fitting.fit(list(rows(slow, small)), BASE, "", "made rows")
    latency = fit.profile.flash.latency_us
    assert latency.page_read == latency.short_read
    assert latency.short_read + latency.read == pytest.approx(65.0 + TRUTH.flash.latency_us.read, rel=1e-3)


def test_a_base_whose_commands_take_too_long_gives_way():
    """A read that took less than the base's command alone."""
    slow = changed(BASE, latency={"read": 400.0})
    only_reads = [one for one in loads() if one[0] == "read" and one[2] == 1]
    fit = fitting.fit(list(rows(TRUTH, only_reads)), slow, "", "made rows")
    assert max(abs(one.rate) for one in fit.residuals) < 1e-3
    assert fit.profile.flash.latency_us.read < 75.0  # the shortest of them takes so long
    assert next(one for one in fit.parameters if one.key == "read").uncertainty is None


def test_a_drive_that_draws_more_than_the_bases_limit_may():
    limited = changed(BASE, rail={"active_watts": 0.5})
    limited = limited.model_copy(update={"power_states": [], "operating_state": None})
    many = [replace(one, watts={"3v3": one.watts["3v3"] + 30.0}) for one in rows(TRUTH, loads())]
    most = max(one.watts["3v3"] for one in many)
    for base in (BASE, limited):
        found = fitting.fit(many, base, "", "made rows").profile
        allowed = found.active_watts("3v3") + found.rails["3v3"].idle_watts
        assert allowed == pytest.approx(1.1 * most, rel=1e-3)
        assert sum("raised, for more was measured" in one for one in found.sources) == 1
