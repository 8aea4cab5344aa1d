# SPDX-License-Identifier: GPL-3.0-or-later
"""Calibrations: the line and its uncertainty, instrument, expiry, and history."""

import datetime
import json
import math

import numpy as np
import pytest
import yaml

from joulerig.rig.campaign import provenance
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab import model
from joulerig.rig.lab.meters import bench, calibration, source, uncertainty
from joulerig.rig.lab.meters.family import Accuracy

TODAY = datetime.date(2026, 3, 1)


@pytest.fixture
def described(tmp_path, monkeypatch):
    """A lab of one supply, and its own var/."""
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))
    (tmp_path / "inventory.ini").write_text("[controller]\nboss\n[test_hosts]\nbench1\n")
    (tmp_path / "host_vars").mkdir()
    psu = {"driver": "scpi-pps", "connection": "tcp-raw/192.0.2.7/5025", "serial": "S1"}
    spare = {"driver": "demo", "set": {"A1.measured_quantity": "current"}}
    boss = {"clock_listen": "0.0.0.0:12300", "meters": {"psu": psu, "spare": spare}}
    drive = {"interface": "hdd", "serial": "SERIAL-A", "size_bytes": 10**12}
    drive["rails"] = {"5v": {"meter": "psu", "volts": "V1", "amps": "I1"}}
    bench1 = {"controller_address": "192.0.2.1", "drives": {"fast": drive}}
    for name, values in (("boss", boss), ("bench1", bench1)):
        (tmp_path / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values))
    return model.load(tmp_path / "inventory.ini")


def record(serial="S1", expires=datetime.date(2027, 1, 1), gain=1.001, quantity="volts", **more):
    points = [{"reference": r, "reading": r / gain, "residual": 0.0} for r in (1.0, 5.0)]
    known = {"u_gain": 1e-4, "u_offset": 2e-4, "cov": -1e-8, "residual_rms": 0.0}
    return calibration.Record(
        instrument={"driver": "scpi-pps", "vendor": "Rigol", "model": "DP832", "serial": serial},
        quantity=quantity, date=datetime.date(2026, 1, 1), expires=expires, gain=gain, offset=0.002,
        points=points, certificate="C-17", **{**known, **more},
    )  # fmt: skip


def test_a_line_through_two_points_is_exact_and_says_nothing_of_its_uncertainty():
    fit = calibration.fit(np.array([3.2987, 4.9981]), np.array([3.3, 5.0]))
    assert fit.gain * 3.2987 + fit.offset == pytest.approx(3.3, abs=1e-12)
    assert fit.gain * 4.9981 + fit.offset == pytest.approx(5.0, abs=1e-12)
    assert math.isnan(fit.u_gain)


def test_ordinary_least_squares_is_numpys():
    x = np.array([0.0, 1.0, 2.0, 3.0, 5.0])
    y = 1.002 * x + 0.01 + np.array([1, -2, 0.5, 2, -1.5]) * 1e-4
    fit = calibration.fit(x, y)
    (gain, offset), covariance = np.polyfit(x, y, 1, cov=True)
    assert (fit.gain, fit.offset) == pytest.approx((gain, offset), rel=1e-9)
    assert (fit.u_gain, fit.u_offset) == pytest.approx(tuple(np.sqrt(np.diag(covariance))), rel=1e-9)
    assert fit.cov == pytest.approx(covariance[0, 1], rel=1e-9)
    assert fit.residual_rms == pytest.approx(np.sqrt(np.mean((y - gain * x - offset) ** 2)))


def test_weights_draw_the_line_to_the_points_that_are_known_better():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.3])
    fit = calibration.fit(x, y, np.array([1e-4, 1e-4, 1.0]))
    assert fit.gain == pytest.approx(1.0, abs=1e-6)


def test_uncertainties_hold_what_they_promise():
    """Over many calibrations, gain and offset scatter by their standard uncertainties."""
    generator = np.random.default_rng(7)
    x = np.array([1.0, 2.0, 4.0, 8.0])
    fits = [
        calibration.fit(x + generator.normal(0, 1e-3, 4), 1.01 * x + 0.05, np.full(4, 1e-3))
        for _ in range(4000)
    ]
    # Enlarged where the points scatter more than they should: never below, at most half above.
    assert np.std([f.gain for f in fits]) <= 1.05 * np.mean([f.u_gain for f in fits])
    assert np.mean([f.u_gain for f in fits]) < 1.5 * np.std([f.gain for f in fits])
    assert np.std([f.offset for f in fits]) <= 1.05 * np.mean([f.u_offset for f in fits])


def test_the_references_own_uncertainty_is_not_averaged_away():
    x = np.linspace(1, 10, 100)
    fit = calibration.fit(x, x, np.full(100, 1e-6), reference_offset_uncertainty=0.003)
    assert fit.u_offset == pytest.approx(0.003, rel=1e-3)
    fit = calibration.fit(x, x, np.full(100, 1e-6), reference_gain_uncertainty=1e-4)
    assert fit.u_gain == pytest.approx(1e-4, rel=1e-3)


@pytest.mark.parametrize("readings", [[3.3], [3.3, 3.3], [3.3, 3.3, 3.3]])
def test_fewer_than_two_distinct_points_are_no_calibration(readings):
    with pytest.raises(ValueError, match=r"1 distinct reading\(s\); a gain and an offset need two"):
        calibration.fit(np.array(readings), np.arange(len(readings)) + 1.0)


def test_a_mean_is_known_by_its_blocks_not_by_its_samples():
    hum = np.sin(np.arange(100000) / 10000)
    assert source.uncertainty_of_mean(hum) > 20 * hum.std() / math.sqrt(len(hum))
    assert math.isnan(source.uncertainty_of_mean(np.array([1.0])))


def test_what_is_in_force_corrects_in_powerd(described):
    calibration.store(described, "psu", "V1", record())
    assert calibration.corrections(described, "psu") == {"V1": {"gain": 1.001, "offset": 0.002}}
    config = services._meter(described, "psu", [])
    assert config["calibration"] == {"V1": {"gain": 1.001, "offset": 0.002}}
    assert config["timing"] == "poll"


def test_without_a_calibration_powerd_gets_none(described):
    assert "calibration" not in services._meter(described, "psu", [])


def test_history_stays(described):
    for gain in (1.001, 1.002, 1.003):
        calibration.store(described, "psu", "V1", record(gain=gain))
    channel = calibration.load(described, "psu").channels["V1"]
    assert channel.current.gain == 1.003
    assert [r.gain for r in channel.history] == [1.001, 1.002]


def test_states(described):
    assert calibration.summary(described, "psu", TODAY)["state"] == "none"
    calibration.store(described, "psu", "V1", record())
    half = calibration.summary(described, "psu", TODAY)
    assert (half["state"], half["reason"]) == ("none", "no calibration of channel I1")
    calibration.store(described, "psu", "I1", record(quantity="amps"))
    assert calibration.summary(described, "psu", TODAY)["state"] == "valid"
    assert calibration.summary(described, "psu", datetime.date(2027, 1, 1))["state"] == "valid"
    late = calibration.summary(described, "psu", datetime.date(2027, 1, 2))
    assert late["state"] == "expired"
    assert late["channels"]["V1"]["state"] == "expired"
    # It is shown with every figure, and goes on correcting: no correction would be further off.
    assert calibration.corrections(described, "psu")
    [first, _] = calibration.warnings(described, datetime.date(2027, 1, 2))
    assert first == "meter psu: calibration of V1 expired on 2027-01-01"


def test_another_instrument_in_its_place_is_not_corrected(described):
    calibration.store(described, "psu", "V1", record(serial="S2"))
    assert calibration.corrections(described, "psu") == {}
    summary = calibration.summary(described, "psu", TODAY)
    assert summary["state"] == "none"
    assert (
        "another instrument's calibration: it is of serial 'S2', this instrument's is 'S1'"
        in summary["reason"]
    )
    assert "is not used: it is of serial 'S2'" in calibration.warnings(described, TODAY)[0]


def test_another_instruments_other_channels_become_history(described):
    calibration.store(described, "psu", "I1", record(serial="S2", quantity="amps"))
    calibration.store(described, "psu", "V1", record(serial="S1"))
    found = calibration.load(described, "psu")
    assert set(found.records) == {"V1"}
    assert [r.instrument.serial for r in found.channels["I1"].history] == ["S2"]


def test_a_campaign_says_what_its_meters_rest_on(described):
    calibration.store(described, "psu", "V1", record())
    calibration.store(described, "psu", "I1", record(quantity="amps"))
    reported = calibration.provenance(described, TODAY)
    assert set(reported) == {"psu"}  # the spare measures no rail
    psu = json.loads(json.dumps(reported))["psu"]
    assert (psu["state"], psu["date"], psu["expires"], psu["certificate"]) == (
        "valid", "2026-01-01", "2027-01-01", "C-17"
    )  # fmt: skip
    channel = psu["channels"]["V1"]
    assert {k: channel[k] for k in ("gain", "offset", "u_gain", "u_offset", "cov")} == {
        "gain": 1.001, "offset": 0.002, "u_gain": 1e-4, "u_offset": 2e-4, "cov": -1e-8
    }  # fmt: skip
    assert set(provenance.calibration(described)) == {"psu"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: data.update(meter="other"), ["meter: 'other'", "'psu'"]),
        (lambda data: data.update(version=2), ["version", "2", "1"]),
        (lambda data: data["channels"]["V1"]["current"].update(gain=-1), ["channels.V1.current.gain", "-1"]),
        (lambda data: data["channels"]["V1"]["current"].update(colour=1), ["unknown key 'colour'"]),
    ],
)
def test_a_file_that_was_spoilt_by_hand(described, change, expected):
    file = calibration.store(described, "psu", "V1", record())
    data = yaml.safe_load(file.read_text())
    change(data)
    file.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError) as caught:
        calibration.load(described, "psu")
    message = str(caught.value)
    assert "calibration/psu.yml" in message
    assert "\n" not in message
    for part in expected:
        assert part in message


def test_a_file_that_is_not_yaml(described):
    file = calibration.store(described, "psu", "V1", record())
    file.write_text("channels: [unclosed\n")
    with pytest.raises(UserError, match=r"calibration/psu\.yml: "):
        calibration.load(described, "psu")


def test_a_gain_that_no_instrument_has_is_two_points_mixed_up(described):
    taken = bench.Points("volts", np.array([3.3, 5.0]), np.array([5.0, 3.3]), np.full(2, math.nan), {})
    with pytest.raises(UserError, match=r"gain: -1; allowed: 0\.5 to 2\.0"):
        bench.record(described, "psu", "V1", taken, 0.0, 0.0, date=TODAY, expires=TODAY)


CLASS = Accuracy(gain_percent=0.1, offset=0.005, resolution=0.001)


def test_budget_of_a_meter_that_is_not_calibrated():
    budget = uncertainty.reading_budget(5.0, CLASS, None)
    assert budget.meter_class == pytest.approx(0.010 / math.sqrt(3))
    assert budget.quantisation == pytest.approx(0.001 / math.sqrt(12))
    assert budget.standard == pytest.approx(math.hypot(0.010 / math.sqrt(3), 0.001 / math.sqrt(12)))


def held(state):
    line = {"state": state, "gain": 1.0, "offset": 0.0, "u_gain": 1e-4, "u_offset": 3e-4, "cov": 0.0}
    return {**line, "u_reference_gain": 0.0, "u_reference_offset": 0.0, "reference": "", "date": "2026-03-01"}


STABLE = CLASS.model_copy(update={"stability_percent_per_year": 0.0})


def test_a_calibration_takes_the_place_of_the_class_while_it_holds():
    budget = uncertainty.reading_budget(4.0, STABLE, held("valid"))
    assert (budget.meter_class, budget.calibration) == (0.0, pytest.approx(5e-4))
    expired = uncertainty.reading_budget(4.0, STABLE, held("expired"))
    assert expired.meter_class > 0
    assert expired.calibration == pytest.approx(5e-4)


def test_what_was_not_declared_is_not_known():
    assert math.isnan(uncertainty.reading_budget(5.0, None, None).standard)
    assert uncertainty.reading_budget(5.0, None, None).as_dict()["standard"] is None


def test_a_calibration_of_unknown_uncertainty_leaves_the_word_to_the_class():
    two_points = {**held("valid"), "u_gain": None, "u_offset": None, "cov": None}
    budget = uncertainty.reading_budget(4.0, CLASS, two_points)
    assert (budget.meter_class, budget.calibration) == (pytest.approx(0.009 / math.sqrt(3)), 0.0)
    assert math.isnan(uncertainty.reading_budget(4.0, None, two_points).standard)


def test_power_is_as_uncertain_as_volts_and_amps_together():
    volts = uncertainty.Budget(5.0, 0.01, 0.0, 0.0, 0.0, 0.0)
    amps = uncertainty.Budget(2.0, 0.003, 0.0, 0.0, 0.0, 0.0)
    assert uncertainty.power_uncertainty(volts, amps) == pytest.approx(math.hypot(2.0 * 0.01, 5.0 * 0.003))


@pytest.mark.parametrize(("amps_by", "common"), [("C-17", 0.03), ("C-18", math.hypot(0.02, 0.01))])
def test_of_one_reference_volts_and_amps_err_together(amps_by, common):
    volts = uncertainty.Budget(5.0, 0.0, 0.0, 0.01, 0.0, 0.0, "C-17")
    amps = uncertainty.Budget(2.0, 0.0, 0.0, 0.002, 0.0, 0.0, amps_by)
    assert uncertainty.power_uncertainty(volts, amps) == pytest.approx(common)


def test_since_its_calibration_a_meter_can_have_moved():
    moving = Accuracy(
        stability_percent_per_year=0.03, temperature_ppm_per_k=50, temperature_k=20, loading_percent=0.06
    )
    day = datetime.date(2026, 6, 1)
    budget = uncertainty.reading_budget(4.0, moving, held("valid"), day)
    assert budget.since == pytest.approx(4 * math.sqrt((3e-4**2 + 1e-3**2 + 6e-4**2) / 3))
    later = uncertainty.reading_budget(4.0, moving, held("valid"), datetime.date(2027, 6, 1))
    assert later.since == pytest.approx(4 * math.sqrt((6e-4**2 + 1e-3**2 + 6e-4**2) / 3))


@pytest.mark.parametrize("alone", ["temperature_ppm_per_k", "temperature_k"])
def test_a_temperature_coefficient_without_a_span_is_refused(alone):
    with pytest.raises(ValueError, match=f"{alone} alone says nothing"):
        Accuracy(**{alone: 20})
