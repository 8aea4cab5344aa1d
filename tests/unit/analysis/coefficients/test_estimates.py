# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive's coefficients from a campaign: what is exported, what is withheld and why, in files."""

import json
import sqlite3

import jsonschema
import polars as pl
import pytest

from joulerig.analysis import results
from joulerig.analysis.coefficients import converters, design, document, estimates, table
from joulerig.analysis.export import columns
from joulerig.analysis.report import document as report_document
from joulerig.analysis.tables import runs_and_cells
from tests.support import modelled_campaign
from tests.support.modelled_campaign import DRIVE, LOADS, TRUE

IDLE_WATTS = 4.1  # of simulated_campaign's drive


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return results.load(modelled_campaign.build(tmp_path_factory.mktemp("c") / "c", traces=True))


@pytest.fixture(scope="module")
def written(whole):
    return document.document(whole)


@pytest.fixture
def build(tmp_path):
    return lambda **given: results.load(modelled_campaign.build(tmp_path / "c", **given))


def coefficients_of(campaign, cell=""):
    (drive,) = estimates.of_campaign(campaign)
    return {one.name: one for one in drive.estimates if not one.cell or cell in one.cell}


def loads(*names):
    return {name: LOADS[name] for name in names}


def edit(campaign, statement):
    with sqlite3.connect(campaign.folder / "journal.sqlite") as database:
        database.execute(statement)
    return results.load(campaign.folder)


@pytest.mark.parametrize("name", TRUE)
def test_a_models_own_coefficients_lie_in_their_intervals(whole, name):
    one = coefficients_of(whole)[name]
    assert one.withheld == ""
    assert one.interval.low <= TRUE[name] <= one.interval.high
    assert one.value == pytest.approx(TRUE[name], rel=0.1)


def test_idle_power_is_that_of_the_idle_phases(whole):
    one = coefficients_of(whole)["idle_watts"]
    assert one.interval.low <= IDLE_WATTS <= one.interval.high
    assert one.runs == 54


def test_a_durable_byte_is_of_the_cells_that_sync(build):
    # Idle watts are below the active ones here, as they are of a drive that does not doze.
    syncing = loads("mixed", "sync-each", "sync-16", "sync-paced")
    found = estimates.of_campaign(build(loads=syncing, true={**TRUE, "active_watts": 4.2}, traces=True))[0]
    cells = {one.cell for one in found.estimates if one.name == "joules_per_durable_byte"}
    assert len(cells) == 6
    assert all("sync" in cell for cell in cells)
    one = next(one for one in found.estimates if one.cell == f"{DRIVE}/ext4/none/sync-16")
    add = (
        TRUE["joules_per_written_byte"] + (TRUE["joules_per_request"] * 17 + TRUE["joules_per_flush"]) / 65536
    )
    assert one.value == pytest.approx(add + 0.1 / 7.5e7, rel=0.15)


def test_without_reads_the_reads_coefficient_is_withheld(build):
    found = coefficients_of(
        build(loads=loads("write-small", "write-large", "sync-16", "sync-paced", "sync-each"))
    )
    assert "have none of it" in found["joules_per_read_byte"].withheld
    assert found["joules_per_flush"].withheld == ""


def test_requests_of_one_size_cannot_be_separated_from_bytes(build):
    alike = {f"read {mb}": (mb * 1e6, 0.0, 4096, 0) for mb in (10, 50, 100, 200)}
    found = coefficients_of(build(loads=alike))
    assert "cannot separate" in found["joules_per_read_byte"].withheld or (
        "variance inflated" in found["joules_per_read_byte"].withheld
    )


def test_a_flush_that_one_load_has_is_withheld_with_its_name(build):
    names = ("read-small", "read-large", "write-small", "write-large", "mixed", "sync-16")
    found = coefficients_of(build(loads=loads(*names), filesystems=("ext4",)))
    assert found["joules_per_flush"].withheld == "only one load shows it: sync-16/ext4"


def test_a_drive_that_the_model_does_not_fit_gives_no_coefficient_of_loads(build):
    campaign = build()
    odd = "(SELECT id FROM run WHERE workload IN ('mixed', 'sync-each', 'read-paced'))"
    campaign = edit(
        campaign, f"UPDATE result SET corrected_joules = 2.2 * corrected_joules WHERE run IN {odd}"
    )
    found = coefficients_of(campaign)
    for name in design.TERMS:
        assert found[name].withheld, name
    assert "are predicted to" in found["joules_per_written_byte"].withheld


def test_scatter_makes_a_coefficient_too_wide_to_export(build):
    found = coefficients_of(build(scatter=0.3, replicates=2))
    assert any("reaches 0" in one.withheld or "only; at most" in one.withheld for one in found.values())


def test_one_run_a_cell_still_fits_loads_but_gives_no_durable_byte(build):
    found = coefficients_of(build(replicates=1, traces=True), cell="sync-16")
    assert found["joules_per_durable_byte"].withheld.startswith("1 run; at least 3")
    assert found["joules_per_written_byte"].withheld == ""


def test_idle_power_takes_runs_at_rest_alone(build):
    campaign = build(loads=loads("mixed"), filesystems=("ext4",), traces=True)
    power = pl.read_csv(campaign.runs[0].folder / "power.csv")
    phase = campaign.runs[0].phases["idle"]
    folding = pl.col("time_ns").is_between(phase.start_ns, phase.start_ns + round(0.6e9 * phase.seconds))
    power.with_columns(watts=pl.when(folding).then(9.0).otherwise("watts")).write_csv(
        campaign.runs[0].folder / "power.csv"
    )
    one = coefficients_of(campaign)["idle_watts"]
    assert one.runs == 2
    assert one.value == pytest.approx(IDLE_WATTS, rel=0.01)


def test_two_runs_at_rest_are_the_fewest():
    assert estimates.idle_power([1.0], [0.0]).withheld == "known of 1 run; at least 2"
    assert estimates.idle_power([1.0, 1.01], [0.0, 0.0]).withheld == ""
    assert estimates.idle_power([], []).value is None


def test_a_meter_widens_idle_power():
    plain, metered = (estimates.idle_power([1.0, 1.01, 0.99], [limit] * 3) for limit in (0.0, 0.1))
    assert metered.interval.high - 1 == pytest.approx(((plain.interval.high - 1) ** 2 + 0.01) ** 0.5)


def test_a_meter_without_a_class_is_said_to_be_missing_from_the_intervals(build):
    campaign = edit(build(accuracy=None), "UPDATE energy SET meter_joules = NULL")
    (drive,) = estimates.of_campaign(campaign)
    assert not drive.meter_known
    assert document.document(campaign)["drives"][0]["intervals_include_meter"] is False


def test_runs_that_are_not_measured_are_left_out_and_counted(build):
    campaign = edit(build(), "UPDATE run SET status = 'partial' WHERE replicate = 2")
    (drive,) = estimates.of_campaign(campaign)
    assert drive.left_out == {design.NOT_MEASURED: 18}
    assert drive.fit.rows == 36


def test_runs_with_gaps_that_nothing_bounds_are_left_out(build):
    campaign = edit(build(), "UPDATE energy SET gap_low_joules = NULL, gap_high_joules = NULL")
    (drive,) = estimates.of_campaign(campaign)
    assert drive.left_out == {design.NOT_BOUNDED: 54}


def test_runs_whose_requests_were_not_counted_are_left_out(build):
    campaign = edit(build(), "DELETE FROM io")
    (drive,) = estimates.of_campaign(campaign)
    assert drive.left_out == {design.NOT_COUNTED: 54}
    assert all(one.withheld for one in drive.estimates if one.name in design.TERMS)
    jsonschema.validate(document.document(campaign), json.loads(document.SCHEMA.read_text()))


def test_a_scheduler_makes_no_other_load(build):
    campaign = build(schedulers=("none", "bfq"), replicates=1)
    (drive,) = estimates.of_campaign(campaign)
    assert (drive.fit.rows, drive.fit.groups) == (36, 18)


def test_the_table_has_every_coefficient_and_why_it_is_withheld(whole):
    rows = table.table(whole).to_dicts()
    assert [row["coefficient"] for row in rows[:6]] == ["idle_watts", *design.TERMS]
    for row in rows:
        assert row["exported"] == (row["withheld"] == "")
    assert rows[1]["condition_number"] > 1
    assert rows[0]["condition_number"] is None
    assert runs_and_cells.frames(whole)["coefficients"].equals(table.table(whole))


def test_the_document_is_as_its_schema_says(written):
    schema = json.loads(document.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(document.as_text(written)), schema)


def test_the_schema_knows_every_coefficient_and_unit():
    definitions = json.loads(document.SCHEMA.read_text())["$defs"]
    assert definitions["name"]["enum"] == list(estimates.UNITS) == list(estimates.MEANINGS)
    assert set(definitions["coefficient"]["properties"]["unit"]["enum"]) == set(estimates.UNITS.values())


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.pop("provenance"),
        lambda content: content.update(version=2),
        lambda content: content["drives"][0]["coefficients"][0].update(value=-1.0),
        lambda content: content["drives"][0]["coefficients"][0].update(name="watts"),
        lambda content: content["drives"][0]["withheld"].append(
            {"name": "idle_watts", "cell": None, "reason": ""}
        ),
        lambda content: content["drives"][0].update(more=1),
    ],
)
def test_the_schema_refuses_what_is_no_such_document(written, spoil):
    content = json.loads(document.as_text(written))
    spoil(content)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content, json.loads(document.SCHEMA.read_text()))


def test_the_document_names_conditions_and_provenance(written, whole):
    (drive,) = written["drives"]
    assert written["provenance"]["campaign"] == whole.id
    assert written["provenance"]["virtual_lab"] is True
    assert drive["conditions"]["factors"]["filesystem"] == ["ext4", "xfs"]
    assert drive["conditions"]["runs"] == 54
    assert drive["conditions"]["kernels"] == ["6.1.0-38-amd64"]
    assert drive["conditions"]["requests_per_second"][0] < drive["conditions"]["requests_per_second"][1]
    assert "class volts" in drive["meters"][0]["vouched_by"]
    assert drive["size_bytes"] == 4294967296


def test_alumets_formulas_are_toml_with_the_coefficients(written):
    import tomllib

    found = tomllib.loads(converters.alumet(written))
    (formula,) = found["plugins"]["energy-attribution"]["formulas"].values()
    assert formula["ref"] in formula["per_resource"]
    assert set(formula["per_consumer"]) == set(converters.COUNTERS.values())
    names = dict.fromkeys(formula["per_consumer"], 0.0) | {"disk_read_bytes": 1e9}
    value = sum(
        names[part.split(" * ")[0]] * float(part.split(" * ")[1]) for part in formula["expr"].split(" + ")
    )
    assert value == pytest.approx(2.2, rel=0.1)


def test_keplers_weights_give_the_models_watts(written):
    (model,) = json.loads(converters.kepler(written)).values()
    weights = model["All_Weights"]
    assert set(weights) == {"Bias_Weight", "Categorical_Variables", "Numerical_Variables"}
    watts = weights["Bias_Weight"] + sum(
        one["weight"] * {"disk_read_bytes": 1e8, "disk_requests": 1e3}.get(name, 0) / one["scale"]
        for name, one in weights["Numerical_Variables"].items()
    )
    assert watts == pytest.approx(2.0 + 0.22 + 0.015, rel=0.05)


def test_the_clouds_coefficient_is_idle_watts_a_terabyte(written):
    (one,) = json.loads(converters.cloud_carbon_footprint(written)).values()
    assert one["SSDCOEFFICIENT"] == pytest.approx(IDLE_WATTS / 0.004294967296, rel=0.01)
    assert one["interval"][0] < one["SSDCOEFFICIENT"] < one["interval"][1]


def test_a_disk_has_the_clouds_other_coefficient(written):
    content = json.loads(document.as_text(written))
    content["drives"][0]["interface"] = "hdd"
    (one,) = json.loads(converters.cloud_carbon_footprint(content)).values()
    assert "HDDCOEFFICIENT" in one


@pytest.mark.parametrize("name", converters.CONVERTERS)
def test_a_document_without_coefficients_converts_to_nothing(written, name):
    content = json.loads(document.as_text(written))
    content["drives"][0]["coefficients"] = []
    with pytest.raises(converters.ConversionError, match="no drive has"):
        converters.CONVERTERS[name](content)


def test_without_active_watts_keplers_bias_is_idle_power(written):
    content = json.loads(document.as_text(written))
    own = content["drives"][0]["coefficients"]
    own[:] = [one for one in own if one["name"] != "active_watts"]
    (model,) = json.loads(converters.kepler(content)).values()
    assert model["All_Weights"]["Bias_Weight"] == pytest.approx(IDLE_WATTS, rel=0.01)


def test_the_report_has_the_coefficients_and_those_withheld(whole):
    html = report_document.html(whole)
    assert "Energy coefficients of the drives" in html
    assert "joules_per_flush" in html
    assert "condition number" in html


def test_the_report_gives_a_reason_once_for_all_that_it_withholds(build):
    html = report_document.html(build(loads=loads("write-small", "sync-each"), traces=True))
    names = "joules_per_written_byte, joules_per_request, joules_per_flush"
    assert f"Withheld: {names}: only one load shows it: sync-each/ext4." in html


def test_every_column_of_the_table_is_described():
    for name in table.COLUMNS:
        assert columns.described("coefficients", name)
