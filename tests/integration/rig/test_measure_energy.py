# SPDX-License-Identifier: GPL-3.0-or-later
"""Host times on the controller's axis, and energy of phases from a real InfluxDB: never a guess."""

import math
import threading

import pytest

from joulerig.analysis.energy import meters
from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results import twin_truth
from joulerig.rig.campaign import measure
from joulerig.rig.common.errors import UserError

S = 1_000_000_000


def host_phase(start, end, phase="workload"):
    return {"phase": phase, "start_ns": start, "end_ns": end}


def clock(at, offset, error=10):
    return {"at_ns": at, "offset_ns": offset, "error_ns": error}


# --- one time axis


def test_the_offset_is_added_to_the_hosts_time():
    [phase] = run_phases.on_controller_time([host_phase(100, 200)], [clock(0, 1000), clock(1000, 1000)])
    assert (phase.start_ns, phase.end_ns, phase.clock_offset_ns, phase.clock_error_ns) == (
        1100,
        1200,
        1000,
        10,
    )


def test_between_two_measurements_the_offset_is_interpolated():
    [phase] = run_phases.on_controller_time([host_phase(250, 750)], [clock(0, 1000), clock(1000, 2000)])
    assert (phase.start_ns, phase.end_ns) == (250 + 1250, 750 + 1750)


def test_the_error_has_half_of_what_the_offset_moved_by():
    [phase] = run_phases.on_controller_time([host_phase(1, 2)], [clock(0, 1000, 30), clock(1000, 900, 50)])
    assert phase.clock_error_ns == 50 + 50


def test_a_single_measurement_is_used_unchanged():
    [phase] = run_phases.on_controller_time([host_phase(100, 200)], [clock(50, -70, 5)])
    assert (phase.start_ns, phase.end_ns, phase.clock_error_ns) == (30, 130, 5)


def test_real_times_lose_no_nanosecond():
    now = 1_790_000_000_123_456_789
    [phase] = run_phases.on_controller_time([host_phase(now, now + 1)], [clock(now, 3), clock(now + S, 3)])
    assert (phase.start_ns, phase.end_ns) == (now + 3, now + 4)


def test_without_a_measurement_there_is_no_time_axis():
    with pytest.raises(ValueError, match="no clock offset"):
        run_phases.on_controller_time([host_phase(1, 2)], [])


# --- energy

BEGIN = 1_700_000_000 * S
PHASES = [
    measure.Phase("idle", BEGIN + 2 * S, BEGIN + 4 * S, 0, 0),
    measure.Phase("workload", BEGIN + 4 * S, BEGIN + 8 * S, 0, 0),
]


@pytest.fixture
def database(influxd):
    return influxd.databases()


def write_rail(
    server,
    drive,
    meter,
    watts,
    *,
    rail="12v",
    host="bench1",
    seconds=range(1001),
    session="s1",
    gap=0.0,
    fields=(),
):
    """Write 100 points a second from BEGIN of a rail's counter, `gap` seconds of them lost.

    `fields`: only these of each point.
    """
    lines = []
    lost = round(gap * 1000)
    for n in seconds:
        values = (
            f"volts=12,amps={watts / 12},watts={watts},"
            f"watts_min={watts},watts_max={watts},joules={watts * (n / 100 - gap)},samples={n * 10 - lost}i,"
            f"expected={n * 10}i,lost={lost}i,"
            f'repeated=0i,gap_seconds={gap},clock_residual_seconds=0,session="{session}"'
        )
        if fields:
            values = ",".join(one for one in values.split(",") if one.split("=")[0] in fields)
        lines.append(
            f"power,meter={meter},rail={rail},host={host},drive={drive} {values} {BEGIN + n * S // 100}"
        )
    server.write(*lines)


@pytest.fixture
def streaming(monkeypatch):
    """powerd's word that all meters stream."""
    meters = [{"name": name, "state": "streaming"} for name in ("tap1", "tap2")]
    monkeypatch.setattr(measure.services, "powerd_status", lambda: {"meters": meters})
    monkeypatch.setattr(measure.services, "power_sessions", lambda: frozenset({"s1", "s2"}))
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.3)


def workload(rows):
    return {row["drive"]: row["joules"] for row in rows if row["phase"] == "workload"}


def test_energy_of_each_phase_and_rail(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 5.0)
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert missing == []
    assert {row["phase"]: row["joules"] for row in rows} == {
        "idle": pytest.approx(10.0),
        "workload": pytest.approx(20.0),
    }
    assert rows[1]["samples"] == rows[1]["expected"] == 4000
    assert rows[1]["true_joules"] is None


@pytest.mark.parametrize("first", [("watts", "watts_min", "watts_max", "volts"), ("joules", "session")])
def test_points_of_which_only_some_fields_have_arrived_are_waited_for(
    influxd, database, bench, streaming, tmp_path, monkeypatch, first
):
    """InfluxDB takes a batch field by field: one of all fields and one of some are two instants."""
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 20.0)
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(601))
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(660, 1001), gap=0.5, fields=first)
    rest = threading.Timer(
        0.5, write_rail, (influxd, "fast", "tap1", 5.0), {"seconds": range(660, 1001), "gap": 0.5}
    )
    rest.start()
    try:
        row = workload_energy(bench, database, tmp_path, campaign_of(bench))
    finally:
        rest.join()
    assert row["joules"] == pytest.approx(5.0 * 3.5)
    assert row["gap_seconds"] == pytest.approx(0.5)
    assert row["gap_high_joules"] == pytest.approx(2.5)


def test_points_that_never_arrive_whole_are_not_waited_for_without_end(
    influxd, database, bench, streaming, tmp_path
):
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(601))
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(601, 1001), fields=("watts",))
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert [row["joules"] for row in rows] == [pytest.approx(10.0), None]
    assert missing == ["no energy of fast 12v: interval not covered: the last point is 2 s before its end"]


# --- the interval around it


ACCURACY = {"volts": {"gain_percent": 0.1, "offset": 0.01}, "amps": {"gain_percent": 0.2, "offset": 0.001}}


def campaign_of(bench, calibration=None, **meter):
    """The journal's campaign: the lab as it was, and what was known of calibrations."""
    described = bench.model_dump(mode="json", exclude={"inventory": True})
    described["controller"]["meters"]["tap1"] |= meter
    return {"lab": described, "provenance": {"calibration": calibration or {}}}


def workload_energy(bench, database, tmp_path, campaign, phases=PHASES):
    rows, _, _ = measure.energies(
        bench, database, "bench1", ["fast"], phases, tmp_path / "power.csv", campaign
    )
    return next(row for row in rows if row["phase"] == "workload")


def test_low_and_high_have_the_hosts_clock_and_the_way_of_the_samples(
    influxd, database, bench, streaming, tmp_path
):
    write_rail(influxd, "fast", "tap1", 5.0)
    phases = [measure.Phase("workload", BEGIN + 4 * S, BEGIN + 8 * S, 0, 1_000_000)]
    row = workload_energy(bench, database, tmp_path, campaign_of(bench), phases)
    reach = 2 * 5.0 * (1_000_000 + meters.LATENCY_NS) * 1e-9
    assert row["alignment_joules"] == pytest.approx(reach)
    assert (row["joules_low"], row["joules_high"]) == (
        pytest.approx(20.0 - reach),
        pytest.approx(20.0 + reach),
    )
    assert row["meter_joules"] is None


def test_a_meter_that_is_asked_for_each_reading_is_late_by_up_to_the_time_between_two(
    influxd, database, bench, streaming, tmp_path
):
    write_rail(influxd, "fast", "tap1", 5.0)
    polled = campaign_of(bench, timing="poll", sample_rate_hz=10)
    row = workload_energy(bench, database, tmp_path, polled)
    assert row["alignment_joules"] == pytest.approx(2 * 5.0 * (0.1 + meters.LATENCY_NS * 1e-9))


def test_a_path_that_holds_samples_back_is_in_the_ends(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 5.0)
    slow = campaign_of(bench, latency_seconds=0.018)
    row = workload_energy(bench, database, tmp_path, slow)
    assert row["alignment_joules"] == pytest.approx(2 * 5.0 * 0.018)
    # Samples that arrive 16 ms late each: the truth is what the rail drew 16 ms later.
    late = 0.016 * 5.0
    assert row["joules_low"] <= 20.0 - late
    assert 20.0 + late <= row["joules_high"]


def test_the_meters_class_widens_the_interval(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 6.0)
    row = workload_energy(bench, database, tmp_path, campaign_of(bench, accuracy=ACCURACY))
    volts = 0.5 * (0.001 * 12 + 0.01) / math.sqrt(3)
    amps = 12 * (0.002 * 0.5 + 0.001) / math.sqrt(3)
    assert row["meter_joules"] == pytest.approx(2 * 4 * math.hypot(volts, amps))
    assert row["volt_seconds"] == pytest.approx(48.0)
    assert row["amp_seconds"] == pytest.approx(2.0)
    assert row["joules_high"] == pytest.approx(24.0 + row["alignment_joules"] + row["meter_joules"])


def test_a_calibration_takes_the_place_of_the_class(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 6.0)
    fit = {"gain": 1.0, "offset": 0.0, "u_gain": 1e-4, "u_offset": 0.0, "cov": 0.0, "u_reference_gain": 0.0}
    calibration = {"tap1": {"state": "valid", "expires": "2099-01-01", "channels": {"CH1": fit, "CH2": fit}}}
    stable = {kind: {**limits, "stability_percent_per_year": 0.0} for kind, limits in ACCURACY.items()}
    row = workload_energy(bench, database, tmp_path, campaign_of(bench, calibration, accuracy=stable))
    assert row["meter_joules"] == pytest.approx(2 * 24.0 * math.hypot(1e-4, 1e-4))


def test_a_gap_inside_is_bounded_by_what_the_rail_was_seen_to_draw(
    influxd, database, bench, streaming, tmp_path
):
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(500))
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(600, 1001), gap=1.0)
    row = workload_energy(bench, database, tmp_path, campaign_of(bench))
    assert row["joules"] == pytest.approx(20.0 - 5.0)
    assert (row["gap_low_joules"], row["gap_high_joules"]) == (pytest.approx(5.0), pytest.approx(5.0))
    assert row["joules_low"] <= 20.0 <= row["joules_high"]
    assert (row["lost"], row["worst_gap_seconds"]) == (1000, pytest.approx(1.0))


def test_the_trace_is_kept_with_the_run(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 5.0)
    measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert (tmp_path / "power.csv").read_text().startswith("time_ns,rail,watts")


def test_an_arrays_energy_is_that_of_all_its_members(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "hdd-1", "tap1", 6.0)
    write_rail(influxd, "hdd-2", "tap2", 7.0)
    rows, missing, _ = measure.energies(bench, database, "bench1", ["pair"], PHASES, tmp_path / "power.csv")
    assert missing == []
    assert workload(rows) == {"hdd-1": pytest.approx(24.0), "hdd-2": pytest.approx(28.0)}


def test_a_rail_without_points_has_no_joules_and_the_reason(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "hdd-1", "tap1", 6.0)
    rows, missing, _ = measure.energies(bench, database, "bench1", ["pair"], PHASES, tmp_path / "power.csv")
    assert workload(rows) == {"hdd-1": pytest.approx(24.0), "hdd-2": None}
    assert missing == ["no energy of hdd-2 12v: no points"]


def test_points_of_another_host_or_meter_are_ignored(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 5.0, host="bench2")
    write_rail(influxd, "fast", "tap2", 5.0)
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert workload(rows) == {"fast": None}
    assert missing == ["no energy of fast 12v: no points"]


def test_points_that_end_too_early_give_no_joules(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(500))
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert [row["joules"] for row in rows] == [pytest.approx(10.0), None]
    assert len(missing) == 1


def test_a_new_session_within_a_phase_gives_no_joules(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(600))
    write_rail(influxd, "fast", "tap1", 5.0, seconds=range(600, 1001), session="s2")
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert workload(rows) == {"fast": None}
    assert len(missing) == 1


def test_a_silent_meter_is_named_and_not_waited_for(influxd, database, bench, monkeypatch, tmp_path):
    meters = [{"name": "tap1", "state": "silent"}]
    monkeypatch.setattr(measure.services, "powerd_status", lambda: {"meters": meters})
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 600)
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert workload(rows) == {"fast": None}
    assert missing == ["no energy of fast 12v: meter tap1 is silent"]


def test_a_power_daemon_that_is_down_is_named(influxd, database, bench, monkeypatch, tmp_path):
    def down():
        raise UserError("powerd does not answer")

    monkeypatch.setattr(measure.services, "powerd_status", down)
    _, missing, _ = measure.energies(bench, database, "bench1", ["fast"], PHASES, tmp_path / "power.csv")
    assert missing == ["no energy of fast 12v: meter tap1 is unknown: powerd is not running"]


def test_a_drive_without_rails_has_no_energy_to_miss(database, bench, streaming, tmp_path):
    found = measure.energies(bench, database, "bench1", ["bare"], PHASES, tmp_path / "power.csv")
    assert found == ([], [], [])


def test_a_journal_on_a_drive_without_rails_is_missed(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 6.0)
    trace = tmp_path / "power.csv"
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast", "bare"], PHASES, trace)
    assert {row["drive"] for row in rows} == {"fast"}
    assert missing == ["no energy of bare: the inventory gives it no rails"]


def test_energy_is_of_a_drive_and_of_its_journals(influxd, database, bench, streaming, tmp_path):
    write_rail(influxd, "fast", "tap1", 6.0)
    write_rail(influxd, "hdd-1", "tap1", 7.0)
    trace = tmp_path / "power.csv"
    rows, missing, _ = measure.energies(bench, database, "bench1", ["fast", "hdd-1"], PHASES, trace)
    assert missing == []
    assert {row["drive"] for row in rows if row["phase"] == "workload"} == {"fast", "hdd-1"}


def test_an_array_with_a_member_that_is_not_measured_says_so(
    influxd, database, lab_files, streaming, tmp_path
):
    lab_files.drives["hdd-2"]["rails"] = {}
    write_rail(influxd, "hdd-1", "tap1", 6.0)
    _, missing, _ = measure.energies(
        lab_files.load(), database, "bench1", ["pair"], PHASES, tmp_path / "power.csv"
    )
    assert missing == ["no energy of hdd-2: the inventory gives it no rails"]


# --- what the agent counted


def write_io(server, *points):
    server.write(
        *(
            f"blockio,host=bench1,drive=fast reads={n}i,read_bytes={n * 4096}i,writes={2 * n}i,write_bytes={n * 8192}i,"
            f"flushes={n}i,discards=0i {at}"
            for at, n in points
        )
    )


def test_agents_io_is_the_rise_between_the_points_that_enclose(influxd, database):
    write_io(influxd, (BEGIN, 100), (BEGIN + S, 110), (BEGIN + 2 * S, 150), (BEGIN + 3 * S, 400))
    found = measure.agent_io(database, "bench1", "fast", BEGIN + S, BEGIN + 2 * S)
    assert (found["source"], found["reads"], found["write_bytes"], found["flushes"]) == (
        "iod",
        40,
        40 * 8192,
        40,
    )


def test_an_agents_point_without_all_its_counts_does_not_enclose(influxd, database, monkeypatch):
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.1)
    write_io(influxd, (BEGIN, 100), (BEGIN + S, 110))
    influxd.write(f"blockio,host=bench1,drive=fast reads=150i {BEGIN + 2 * S}")
    assert measure.agent_io(database, "bench1", "fast", BEGIN, BEGIN + 2 * S) is None
    write_io(influxd, (BEGIN + 2 * S, 150))
    assert measure.agent_io(database, "bench1", "fast", BEGIN, BEGIN + 2 * S)["reads"] == 50


def test_a_journals_count_on_its_way_is_waited_for(influxd, database, monkeypatch):
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 20.0)
    write_io(influxd, (BEGIN, 100), (BEGIN + S, 110))
    journal = "fsjournal,host=bench1,drive=fast,filesystem=ext4 transactions="
    influxd.write(f"{journal}5i {BEGIN}")
    late = threading.Timer(0.5, influxd.write, (f"{journal}9i {BEGIN + S}",))
    late.start()
    try:
        found = measure.agent_io(database, "bench1", "fast", BEGIN, BEGIN + S)
    finally:
        late.join()
    assert found["journal_transactions"] == 4


def test_agents_io_that_does_not_enclose_is_none(influxd, database, monkeypatch):
    monkeypatch.setattr(measure, "ARRIVAL_SECONDS", 0.1)
    write_io(influxd, (BEGIN, 100), (BEGIN + S, 110))
    assert measure.agent_io(database, "bench1", "fast", BEGIN, BEGIN + 2 * S) is None


def test_counts_of_a_drive_and_of_its_journals_are_added_up_and_kept_separate():
    data = {"source": "iod", "writes": 10, "flushes": 1, "journal_transactions": None}
    log = {"source": "iod", "writes": 5, "flushes": 7, "journal_transactions": 3}
    assert measure.added_up({"hdd-array": data, "sata": log}) == [
        {"source": "iod", "writes": 15, "flushes": 8, "journal_transactions": 3},
        {**data, "source": "iod hdd-array"},
        {**log, "source": "iod sata"},
    ]


def test_the_count_of_one_drive_stands_alone():
    data = {"source": "iod", "writes": 10, "journal_transactions": None}
    assert measure.added_up({"fast": data}) == [{"source": "iod", "writes": 10}]


def test_a_part_of_the_counts_does_not_pass_for_the_whole():
    assert measure.added_up({"hdd-array": {"source": "iod", "writes": 10}, "sata": None}) == []


def test_the_part_of_the_load_that_a_twins_model_set_the_pace_is_that_of_the_busiest_drive():
    """Seconds 4 to 9 are the load; one drive holds it up for 2 of them, the other for 4."""
    phases = [
        measure.Phase(name, a * S, b * S, 0, 0)
        for name, a, b in (("idle", 0, 4), ("workload", 4, 9), ("tail", 9, 10))
    ]

    def twin(*seconds):
        return {"counters": {"device_bound_ns": [int(s * 1e9) for s in seconds]}}

    truth = {"a": twin(0, 0.5, 0.5, 2.5, 2.5, 2.6), "b": twin(0, 0, 1, 5, 5, 5)}
    assert twin_truth.device_bound(phases, truth) == pytest.approx(0.8)
    assert twin_truth.device_bound(phases, {}) is None
    assert twin_truth.device_bound(phases[:1], truth) is None
