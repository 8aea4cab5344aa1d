# SPDX-License-Identifier: GPL-3.0-or-later
"""One short measurement of a twin through the real chain, and what the rig says of it.

A twin without a guest, the tap's stream (firmware/power_tap), libsigrok, srcap, powerd, InfluxDB
and the rig's own energy of each phase. A client loads the twin and stamps the phases. The tap is
checked with resistors before and after: a second tap with the same faults has them on its rails.
"""

from __future__ import annotations

import contextlib
import random
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from joulerig.analysis.energy import meters
from joulerig.analysis.results import phases as run_phases
from joulerig.analysis.results import power_points, run_energy, twin_truth
from joulerig.analysis.results.influxdb.client import Databases
from joulerig.analysis.results.schema import Phase, PhaseName
from joulerig.rig.campaign import measure
from joulerig.rig.campaign.execution import record
from joulerig.rig.common.errors import UserError
from joulerig.rig.controller import services
from joulerig.rig.lab.meters import checks
from joulerig.rig.lab.model import Lab
from tests.bench.sealed.faults import ACCURACY, Setup
from tests.support import ROOT, emulated_pps
from tests.support.influxd import Influxd
from tests.support.lab_files import LabFiles
from tests.support.nbd_client import NbdClient
from tests.support.power_processes import SRCAP, Powerd
from tests.support.programs import built, end
from tests.support.twins import Stream, Twin, TwinTruth

HOST, DRIVE, METER = "bench1", "fast", "tap1"
RATE_HZ, POLLED_HZ = 1000, 24
# Sizes that differ: a drive that does the same again and again repeats itself, and what comes twice
# of it looks the same (docs/explanation/energy.md). Blocks of 4096 bytes, least and most.
WRITE_BLOCKS = (16, 384)
LOAD_AT, IDLE_SECONDS, TAIL_SECONDS = 4.0, 1.5, 1.5  # LOAD_AT: after the tap's start and its lead
CUT_BEFORE_SECONDS = 0.5  # of the load's end
INTERVAL_SECONDS = 0.016
ARRIVAL_SECONDS = 6.0
CLOCK_ERROR_NS = 1_000_000
SET_BACK_NS = 1_000_000_000  # by clockshim.c
LOSS_LIMIT_PERCENT = 1.0  # a campaign's default
BOOKS = (
    "lost",
    "duplicate",
    "surplus",
    "over_range",
    "impossible",
)  # not repeated: polled meters repeat readings
# name,volts,ohms,idle_watts,joules a byte read and written, a command, a flush,active_watts
RAILS = {"12v": "12,0.05,1.5,2e-8,4e-8,4e-4,2e-3,12", "5v": "5,0.03,0.5,1e-8,2e-8,1e-4,1e-3,6"}
SOFT_RAILS = {"12v": "12,0.8,1.5,2e-8,4e-8,4e-4,1e-3,12", "5v": "5,0.2,0.5,1e-8,2e-8,1e-4,1e-4,6"}
MOST_AMPS = 1.5  # that either rail can draw
# Resistors on the rails of a second tap, which has the same faults: ohms, and volts of the supply.
RESISTORS = {"12v": (12.0, 12.0), "5v": (5.0, 5.0)}
OHMS_STANDARD = 1e-4
CHECK_SECONDS, CHECK_STEPS, CHECK_SILENCE_SECONDS = 0.5, 4, 5.0
WARM_AT = 9.0  # after the tap's start: when the meter is checked again
LOADING = threading.Lock()  # Ansible's inventory is read by one thread at a time
CHANNELS = {"tap": [("CH1", "CH2"), ("CH3", "CH4")], "polled": [("V1", "I1"), ("V2", "I2")]}


@dataclass(frozen=True)
class Outcome:
    """The result of a measurement.

    `rows`: the workload phase's `energy` rows. `reported`: what a campaign says is wrong with them.
    `checked`: what `rig meters check` says of the meter, which a campaign does not run. `inside`:
    whether the truth of each is in its bounds; None where one has no joules or no bounds.
    """

    setup: Setup
    rows: list[dict[str, Any]]
    reported: list[str]
    checked: list[str]

    @property
    def inside(self) -> bool | None:
        found = [(row["joules_low"], row["true_joules"], row["joules_high"]) for row in self.rows]
        if not found or any(None in one for one in found):
            return None
        return all(low <= true <= high for low, true, high in found)

    @property
    def error_percent(self) -> float | None:
        """Return the largest error of a rail."""
        errors = [
            100 * (row["joules"] - row["true_joules"]) / row["true_joules"]
            for row in self.rows
            if row["joules"] is not None and row["true_joules"]
        ]
        return max(errors, key=abs, default=None)


def measure_once(setup: Setup, folder: Path, influx: Influxd) -> Outcome:
    """Measure a twin once, with what `setup` says is wrong."""
    folder.mkdir(parents=True)
    influx.empty()
    fast = setup.load == "fast"
    rails = SOFT_RAILS if fast else RAILS
    options = ("activity=100000", "window=100000") if fast else ()
    with contextlib.ExitStack() as stack:
        twin = stack.enter_context(
            Twin(
                folder / "twin",
                size="256M",
                rails=[f"{name},{rest}" for name, rest in rails.items()],
                options=options,
            )
        )
        checked = stack.enter_context(_checks(setup, folder))
        stop, connection, began = stack.enter_context(_meter(setup, folder, twin))
        lab = _lab(folder, setup, rails, connection)
        powerd = Powerd(folder, _powerd_config(setup, folder, influx, lab), _clock_shim(setup, folder))
        stack.callback(powerd.stop)
        client = stack.enter_context(NbdClient(twin.nbd))
        phases, refused, ops = _phases(setup, folder, powerd, client, stop, began)
        database = influx.databases()
        frame = _arrived(database, phases)
        status = powerd.meter(METER) or {}
        provenance = _provenance(setup)
        found = run_energy.phase_energies(
            frame,
            phases,
            [(DRIVE, METER, rail) for rail in RAILS],
            host=HOST,
            lab=lab.model_dump(mode="json", exclude={"inventory": True}),
            provenance=provenance,
        )
        rows = [run_energy.row(*parts) for parts in found]
        truth = measure.truths(TwinTruth(twin), lab, HOST, [DRIVE], phases)
        twin_truth.add_truth(rows, phases, truth)
    load = [row for row in rows if row["phase"] == PhaseName.WORKLOAD]
    reasons = [interval.reason for phase, _, interval in found if phase.phase == PhaseName.WORKLOAD]
    reported = [*refused, *_reports(load, reasons, status, provenance, phases, truth)]
    described = lab.model_dump(mode="json", exclude={"inventory": True})
    reported += run_energy.doubts(frame, phases, rows, ops=ops, host=HOST, lab=described)
    return Outcome(setup, load, list(dict.fromkeys(reported)), checked.found)


class Checks(threading.Thread):
    """`rig meters check` of a tap with resistors on its rails, before a run and after it."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self.lab = lab
        self.began = time.monotonic()
        self.found: list[str] = []

    def run(self) -> None:
        self.check("before")
        time.sleep(max(0.0, self.began + WARM_AT - time.monotonic()))
        self.check("after")

    def check(self, when: str) -> None:
        for rail, (ohms, _) in RESISTORS.items():
            try:
                taken = checks.take(
                    self.lab,
                    METER,
                    f"{HOST}/{DRIVE}/{rail}",
                    ohms,
                    seconds=CHECK_SECONDS,
                    ohms_standard=OHMS_STANDARD,
                    steps=CHECK_STEPS,
                )
                faults = checks.judged(taken, []).faults
            except UserError as error:
                faults = [str(error)]
            self.found += [f"check {when} the run, {rail}: {fault}" for fault in faults]


@contextlib.contextmanager
def _checks(setup: Setup, folder: Path) -> Iterator[Checks]:
    """Check a second tap with the faults of `setup`, while the first one measures the drive."""
    with contextlib.ExitStack() as stack:
        rails = {rail: f"{volts},0,{volts**2 / ohms},0,0,0,0" for rail, (ohms, volts) in RESISTORS.items()}
        twin = stack.enter_context(
            Twin(folder / "resistors", size="1M", rails=[",".join(one) for one in rails.items()])
        )
        (folder / "check").mkdir()
        _, connection, _ = stack.enter_context(_tap(setup, folder / "check", twin))
        lab = _lab(folder / "check", replace(setup, meter="tap"), RAILS, connection, CHECK_SILENCE_SECONDS)
        found = Checks(lab)
        found.start()
        try:
            yield found
        finally:
            found.join()


def _reports(
    rows: list[dict[str, Any]],
    reasons: list[str],
    status: Mapping[str, Any],
    provenance: Mapping[str, Any],
    phases: list[Phase],
    truth: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return all that the rig says of a run that is not as it should be."""
    reported = [f"no joules: {reason}" for reason in reasons if reason]
    reported += record.losses(rows, LOSS_LIMIT_PERCENT)
    reported += [f"{row['rail']}: {key} {row[key]}" for row in rows for key in BOOKS if row.get(key)]
    reported += [f"{row['rail']}: gap {row['gap_seconds']:.3f} s" for row in rows if row["gap_seconds"]]
    reported += [f"{row['rail']}: no bounds" for row in rows if row["joules"] and row["joules_low"] is None]
    if status.get("state") != "streaming":
        reported.append(f"meter {status.get('state')}: {status.get('reason')}")
    reported += [str(one) for one in status.get("warnings", [])]
    if meters.expired(provenance, METER, phases[0].start_ns):
        reported.append(meters.standing({}, provenance, METER, phases[0].start_ns))
    for answer in truth.values():
        if shift := phases[0].start_ns - answer["times_ns"][0]:
            reported.append(f"virtual lab: the phases are {shift * 1e-6:+.0f} ms off the operations")
    return reported


def _lab(
    folder: Path, setup: Setup, rails: Mapping[str, str], connection: str, silence_seconds: float = 1.0
) -> Lab:
    """Return the lab as its people describe it: what they know of the tap and the supplies."""
    files = LabFiles(folder)
    driver = {"driver": "hameg-hmo", "sample_rate_hz": RATE_HZ, "samples": "window-mean"}
    if setup.meter == "polled":
        driver = {"driver": "scpi-pps", "sample_rate_hz": POLLED_HZ, "timing": "poll", "samples": "point"}
    known = {
        "accuracy": ACCURACY,
        "full_scale": {"amps": setup.full_scale_amps},
        "silence_seconds": silence_seconds,
    }
    files.controller["meters"] = {METER: {**driver, **known, "connection": connection}}
    wired = {}
    for (rail, described), (volts, amps) in zip(rails.items(), CHANNELS[setup.meter], strict=True):
        source_volts, ohms = map(float, described.split(",")[:2])
        supply = {"volts": source_volts, "amps": MOST_AMPS, "ohms": ohms}
        wired[rail] = {"meter": METER, "volts": volts, "amps": amps, "supply": supply}
    files.host["drives"] = {DRIVE: {**files.drives[DRIVE], "rails": wired}}
    files.host["arrays"] = {}
    with LOADING:
        return files.load()


@contextlib.contextmanager
def _meter(setup: Setup, folder: Path, twin: Twin) -> Iterator[tuple[Callable[[], None], str, float]]:
    """Start the instrument; give what ends it, where it listens, and when it began."""
    if setup.meter == "polled":
        with emulated_pps.line() as line:
            began = time.monotonic()
            follower = Stream(twin, 1_000_000)
            ended = threading.Event()
            thread = threading.Thread(target=_follow, args=(follower, line.instrument, ended))
            thread.start()
            try:
                yield line.unplug, line.connection, began
            finally:
                ended.set()
                thread.join()
                follower.stop()
        return
    with _tap(setup, folder, twin) as started:
        yield started


@contextlib.contextmanager
def _tap(setup: Setup, folder: Path, twin: Twin) -> Iterator[tuple[Callable[[], None], str, float]]:
    """Start a tap with its faults; give what ends it, where it listens, and when it began."""
    faults = folder / "tap"
    faults.write_text("".join(f"{key}={value!r}\n" for key, value in setup.tap.items()))
    names = list(RAILS)[::-1] if setup.swapped_rails else list(RAILS)
    command = [built("power_tap"), "--listen", "127.0.0.1:0,127.0.0.1:0", "--rate", str(RATE_HZ)]
    command += ["--faults", str(faults)]
    for number, name in enumerate(names, start=1):
        command += ["--rail", f"{number}={twin.control}:{name}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout
        line_of_ports = process.stdout.readline()
        began = time.monotonic()
        faults.unlink()  # the tap has read it, and no other program is to
        port = re.findall(r":(\d+)", line_of_ports)[0]
        yield process.kill, f"tcp-raw/127.0.0.1/{port}", began
    finally:
        end(process)


def _follow(stream: Stream, supply: emulated_pps.Supply, ended: threading.Event) -> None:
    """Have the supply read what the twin draws at this moment."""
    while not ended.wait(0.001):
        if stream.rows:
            _, *values = stream.rows[-1]
            supply.outputs[1], supply.outputs[2] = tuple(values[:2]), tuple(values[2:4])


def _powerd_config(setup: Setup, folder: Path, influx: Influxd, lab: Lab) -> dict[str, Any]:
    user, password = influx.writer
    (folder / "password").write_text(password)
    (meter,) = services.meters(lab)
    if setup.calibration_serial:
        meter |= {"calibration": {"CH1": {"gain": 1.0, "offset": 0.0}}}
        meter |= {"calibration_serial": setup.calibration_serial}
    return {
        "state_dir": str(folder / "powerd"),
        "srcap": SRCAP,
        "status_socket": str(folder / "status.sock"),
        "points_per_second": 100,
        "influx": {
            "url": influx.url,
            "database": influx.power,
            "username": user,
            "password_file": str(folder / "password"),
        },
        "meters": [meter],
    }


def _clock_shim(setup: Setup, folder: Path) -> list[str]:
    """Return the command that runs powerd with a clock of srcap's that can be set back."""
    if not setup.clock_set_back:
        return []
    library = folder / "clockshim.so"
    source = ROOT / "tests" / "support" / "clockshim.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return ["env", f"LD_PRELOAD={library}", f"CLOCKSHIM_FILE={folder / 'back'}"]


def _phases(
    setup: Setup,
    folder: Path,
    powerd: Powerd,
    client: NbdClient,
    stop: Callable[[], None],
    began: float,
) -> tuple[list[Phase], list[str], int]:
    """Load the drive; return the phases on the controller's clock, and what is said of the load.

    That is why a meter was refused, and the operations.
    """
    refused = []
    ops = 0
    try:
        powerd.wait_state(METER, "streaming", LOAD_AT - IDLE_SECONDS - 0.2)
    except AssertionError:
        status = powerd.meter(METER) or {}
        refused = [f"meter {status.get('state')}: {status.get('reason')}"]
    stamped: list[dict[str, Any]] = []

    def phase(name: str, until: float, act: Callable[[float], None]) -> None:
        start = time.time_ns()
        act(until)
        stamped.append({"phase": name, "start_ns": start, "end_ns": time.time_ns()})

    def wait(until: float) -> None:
        time.sleep(max(0.0, until - time.monotonic()))

    def load(until: float) -> None:
        nonlocal ops
        ops = _load(setup, client, until, lambda: (folder / "back").touch(), stop)

    load_at = max(began + LOAD_AT + setup.lead_seconds, time.monotonic() + 0.1)
    wait(load_at - IDLE_SECONDS)
    phase("idle", load_at, wait)
    phase("workload", load_at + setup.load_seconds, load)
    phase("tail", time.monotonic() + TAIL_SECONDS, wait)
    # The host measures the offset before and after a run, and the clock is set back between.
    offsets = (setup.clock_error_ns, setup.clock_error_ns - SET_BACK_NS * setup.clock_set_back)
    clock = [
        {"at_ns": at, "offset_ns": offset, "error_ns": CLOCK_ERROR_NS}
        for at, offset in zip((stamped[0]["start_ns"], stamped[-1]["end_ns"]), offsets, strict=True)
    ]
    if setup.clock_error_ns > 0:
        time.sleep(setup.clock_error_ns * 1e-9)
    return run_phases.on_controller_time(stamped, clock), refused, ops


def _load(
    setup: Setup, client: NbdClient, until: float, set_back: Callable[[], None], stop: Callable[[], None]
) -> int:
    """Write to the drive up to an instant of CLOCK_MONOTONIC, with what happens meanwhile.

    Return the number of operations.
    """
    chance = random.Random(setup.name)
    begun = time.monotonic()
    events = []
    if setup.clock_set_back:
        events.append((begun + setup.load_seconds / 2, set_back))
    if setup.cut_tail:
        events.append((until - CUT_BEFORE_SECONDS, stop))
    number = 0
    while (now := time.monotonic()) < until:
        if events and now >= events[0][0]:
            events.pop(0)[1]()
        number += 1
        if setup.load == "fast":
            client.flush()
            continue
        time.sleep(max(0.0, begun + (number - 1) * INTERVAL_SECONDS - now))
        size = chance.randint(*WRITE_BLOCKS) * 4096
        client.write(chance.randrange((client.size - size) // 4096) * 4096, bytes(size))
    return number


def _arrived(database: Databases, phases: list[Phase]) -> Any:
    """Return the run's power points, as far as they come."""
    start_ns, end_ns = phases[0].start_ns, phases[-1].end_ns
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while True:
        frame = power_points.points(database, HOST, [DRIVE], start_ns, end_ns)
        ends = [rows["time_ns"].max() for _, rows in frame.group_by("rail")] if frame.height else []
        if (len(ends) == len(RAILS) and min(ends) >= end_ns) or time.monotonic() > deadline:
            return frame
        time.sleep(0.2)


def _provenance(setup: Setup) -> dict[str, Any]:
    if not setup.expired_calibration:
        return {}
    fit = {"gain": 1.0, "offset": 0.0, "u_gain": 1e-4, "u_offset": 0.0, "cov": 0.0}
    channels = dict.fromkeys(("CH1", "CH2", "CH3", "CH4"), fit)
    return {"calibration": {METER: {"state": "valid", "expires": "2020-01-01", "channels": channels}}}
