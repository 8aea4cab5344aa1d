# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of meters with a resistor: `checks/<meter>.yml` next to the inventory, oldest first.

A check is compared with earlier ones of its kind: the same instrument, rail, resistor and
calibration. Those that were out of control count in no chart.
"""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import AwareDatetime, Field

from joulerig.analysis.energy import check_standard
from joulerig.rig.common.errors import Strict, UserError
from joulerig.rig.common.numbers import PositiveFloat, Real
from joulerig.rig.lab.meters import calibration, kept, source, timing, uncertainty
from joulerig.rig.lab.meters.calibration import Instrument
from joulerig.rig.lab.meters.timing import Lateness
from joulerig.rig.lab.model import Lab, Meter, Rail

MOST_AWAY = 0.5
"""A meter this far from V²t/R is wired to something else than the resistor."""

QUANTITIES = ("volts", "amps", "watts")
State = Literal["in control", "out of control", "no limits yet"]
OUT: Final = "out of control"


class Check(Strict):
    """One check. Volts are the root of their mean square, energies in joules.

    `deviation`, `standard`, `last_digit`, `low`, `high` are relative; None: not known.

    `calibrated`: dates of the calibrations that corrected the readings, by channel. `low`, `high`:
    the limits it was judged by; `of` says whose. `standard`: of the deviation, k = 1. `lateness`:
    where the rail was switched as well.
    """

    at: AwareDatetime
    instrument: Instrument
    rail: str
    ohms: PositiveFloat
    supply_volts: PositiveFloat | None = None
    seconds: PositiveFloat
    volts: Real
    watts: Real
    joules: Real
    expected_joules: Real
    deviation: Real
    standard: Real | None = None
    last_digit: Real = 0.0
    low: Real | None = None
    high: Real | None = None
    of: Literal["chart", "budget", ""] = ""
    state: State
    calibrated: Annotated[dict[str, datetime.date], Field(default_factory=dict)]
    celsius: Real | None = None
    operator: str = ""
    lateness: Lateness | None = None

    @property
    def faults(self) -> list[str]:
        """Describe what is out of control; empty where nothing is."""
        found = list(self.lateness.faults) if self.lateness else []
        if self.low is not None and self.high is not None and not self.low <= self.deviation <= self.high:
            found.insert(
                0,
                f"joules are {100 * self.deviation:+.2f} % off V²t/R,"
                f" limits {100 * self.low:+.2f} to {100 * self.high:+.2f} %",
            )
        return found

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what has to be alike for two checks to be on one chart."""
        of = self.instrument
        return (of.driver, of.model, of.serial, self.rail, self.ohms, self.supply_volts,
                tuple(sorted(self.calibrated.items())))  # fmt: skip


class Chart(kept.Kept):
    """The file: all checks of a meter, oldest first."""

    checks: list[Check]


def path(lab: Lab, meter: str) -> Path:
    """Return the file of the checks of `meter`."""
    return lab.folder / "checks" / f"{meter}.yml"


def load(lab: Lab, meter: str) -> list[Check]:
    """Return a meter's checks, oldest first. Raises UserError naming file, key and value."""
    found = kept.load(path(lab, meter), Chart)
    return found.checks if found else []


def store(lab: Lab, meter: str, check: Check) -> Path:
    """Add a check to its meter's file, atomically."""
    return kept.store(
        path(lab, meter),
        Chart(meter=meter, checks=[*load(lab, meter), check]),
        f"Checks of meter {meter}, written by 'rig meters check'",
    )


def judged(check: Check, earlier: list[Check]) -> Check:
    """Return the check with its limits and state.

    The limits are from earlier ones of its kind that were in control. Samples that are late, or
    volts and amps of different samples, are out of control whatever the limits.
    """
    alike = [one.deviation for one in earlier if one.kind == check.kind and one.state != OUT]
    found = check_standard.limits(alike, check.standard, check.last_digit)
    state: State = "no limits yet"
    if found is not None:
        state = "in control" if found.low <= check.deviation <= found.high else OUT
        check = check.model_copy(update={"low": found.low, "high": found.high, "of": found.of})
    if check.lateness and check.lateness.faults:
        state = OUT
    return check.model_copy(update={"state": state})


def rail_of(lab: Lab, meter: str, rail: str | None) -> tuple[str, Rail]:
    """Return HOST/DRIVE/RAIL of a meter, and how it is wired.

    `rail` may be left out where the meter has one only. Raises UserError where none fits, or a
    meter of watts alone has no volts to square.
    """
    wired = {f"{host}/{drive}/{name}": wiring for host, drive, name, wiring in lab.meter_rails(meter)}
    if not wired:
        raise UserError(f"meter {meter}: measures no rail of the inventory")
    if rail is None and len(wired) > 1:
        raise UserError(f"--rail: missing; meter {meter} measures {', '.join(wired)}")
    if rail is not None and rail not in wired:
        raise UserError(f"--rail: {rail!r} is not a rail of meter {meter}; allowed: {', '.join(wired)}")
    name = rail or next(iter(wired))
    return name, wired[name]


def take(
    lab: Lab,
    meter: str,
    rail: str | None,
    ohms: float,
    *,
    seconds: float,
    ohms_standard: float | None = None,
    supply: tuple[float, float] | None = None,
    celsius: float | None = None,
    operator: str = "",
    steps: int = 0,
) -> Check:
    """Measure the resistor. Judges and stores nothing.

    Parameters
    ----------
    rail : str or None
        HOST/DRIVE/RAIL that the resistor is on; None: the only one.
    ohms, ohms_standard : float
        The resistor, in ohms, and its relative standard uncertainty; None: not known.
    seconds : float
        How long to measure.
    supply : (volts, relative standard uncertainty) or None
        Of a supply whose volts are known; None: the meter's own volts are squared, and an error
        that its volts and amps share stays unseen.
    celsius : float or None
        Temperature at the bench.
    steps : int
        How often to switch the rail off and on afterwards, by its power tap, to see when its
        samples show it (`timing.take`).

    Raises
    ------
    UserError
        The rail is none of the meter's, the meter does not answer, or what it reads is not the
        resistor.
    """
    name, wiring = rail_of(lab, meter, rail)
    channels = {kind: wiring.channels[kind] for kind in QUANTITIES if kind in wiring.channels}
    if supply is None and "volts" not in channels:
        raise UserError(f"meter {meter}: {name} has no channel of volts; give the supply's with --supply")
    samples, instrument = source.samples(lab, meter, list(channels.values()), seconds)
    now = datetime.datetime.now(datetime.UTC)
    held = calibration.summary(lab, meter, now.date(), instrument)["channels"]
    reading = _reading(
        lab.controller.meters[meter],
        {
            kind: calibration.corrected(samples[channel], held.get(channel))
            for kind, channel in channels.items()
        },
        supply[0] if supply else None,
    )
    if not (reading.square_volts > 0 and math.isfinite(reading.watts)):
        raise UserError(f"meter {meter}: {name} is at {math.sqrt(reading.square_volts):.3g} V: no supply")
    found = check_standard.deviation(reading, ohms)
    if abs(found) > MOST_AWAY:
        raise UserError(
            f"meter {meter}: {name} draws {reading.watts:.4g} W, and {ohms:g} ohms at"
            f" {math.sqrt(reading.square_volts):.4g} V draw {reading.square_volts / ohms:.4g} W;"
            " is the resistor on this rail, and alone?"
        )
    budgets, last_digit = _budgets(lab, meter, channels, reading, held, now.date())
    return Check(
        at=now,
        instrument=Instrument.reported_by(lab.controller.meters[meter], instrument),
        rail=name,
        ohms=ohms,
        supply_volts=supply[0] if supply else None,
        seconds=seconds,
        volts=math.sqrt(reading.square_volts),
        watts=reading.watts,
        joules=reading.watts * seconds,
        expected_joules=reading.square_volts / ohms * seconds,
        deviation=found,
        standard=_standard(budgets, reading, ohms_standard, supply),
        last_digit=last_digit,
        state="no limits yet",
        calibrated={channel: held[channel]["date"] for channel in channels.values() if channel in held},
        celsius=celsius,
        operator=operator,
        lateness=timing.take(lab, wiring, steps) if steps else None,
    )


def newest(lab: Lab) -> dict[str, Any]:
    """Return the newest check of each meter that has one: when, on what, how far off, its state.

    And, where it is out of control, in words what is wrong.
    """
    found = {name: load(lab, name) for name in lab.controller.meters}
    return {
        name: checks[-1].model_dump(
            mode="json", include={"at", "rail", "ohms", "deviation", "standard", "state"}
        )
        | ({"faults": faults} if (faults := checks[-1].faults) else {})
        for name, checks in found.items()
        if checks
    }


def _reading(
    meter: Meter, values: dict[str, np.ndarray], supply_volts: float | None
) -> check_standard.Reading:
    """Return watts and square volts of samples (n,) by quantity."""
    if "watts" in values:
        watts = values["watts"]
    elif "volts" in values:
        watts = source.power(meter, values["volts"], values["amps"])
    else:  # an ammeter, on a supply that is known
        assert supply_volts
        watts = supply_volts * values["amps"]
    square = np.full(len(watts), supply_volts**2) if supply_volts else values["volts"] ** 2
    spread = [
        source.uncertainty_of_mean(part) / abs(part.mean()) if part.mean() else math.nan
        for part in (watts, square)
    ]
    return check_standard.Reading(
        float(watts.mean()), float(square.mean()), float(np.hypot(*np.nan_to_num(spread)))
    )


def _budgets(
    lab: Lab,
    meter: str,
    channels: dict[str, str],
    reading: check_standard.Reading,
    held: dict[str, Any],
    today: datetime.date,
) -> tuple[dict[str, uncertainty.Budget], float]:
    """Return the budget of each quantity, and the relative uncertainty of all last digits."""
    volts = math.sqrt(reading.square_volts)
    at = {"volts": volts, "amps": reading.watts / volts, "watts": reading.watts}
    classes = {str(kind): one for kind, one in lab.controller.meters[meter].accuracy.items()}
    budgets = {
        quantity: uncertainty.reading_budget(at[quantity], classes.get(quantity), held.get(channel), today)
        for quantity, channel in channels.items()
    }
    digits = [one.quantisation / abs(one.value) for kind, one in budgets.items() if kind in classes]
    return budgets, math.hypot(*digits)


def _standard(
    budgets: dict[str, uncertainty.Budget],
    reading: check_standard.Reading,
    ohms: float | None,
    supply: tuple[float, float] | None,
) -> float | None:
    """Return the relative standard uncertainty of the deviation; None where it is not known."""
    if ohms is None:
        return None
    powers = _powers(set(budgets), supply is not None)
    parts = [check_standard.Part(1, ohms)]
    for quantity, power in powers.items():
        budget = budgets[quantity]
        own, reference = budget.own / abs(budget.value), budget.reference / abs(budget.value)
        parts.append(check_standard.Part(power, own, reference, budget.calibrated_by))
    if supply:
        # What is divided by is its volts squared, but for those that are in the watts too.
        parts.append(check_standard.Part(-1 if set(powers) == {"amps"} else -2, supply[1]))
    found = math.hypot(check_standard.combined(parts), reading.scatter)
    return None if math.isnan(found) else found


def _powers(quantities: set[str], has_supply: bool) -> dict[str, int]:
    """Return the power with which each quantity that is read enters watts x ohms / volts²."""
    if "watts" in quantities:
        return {"watts": 1} if has_supply else {"watts": 1, "volts": -2}
    if not has_supply:
        return {"amps": 1, "volts": -1}
    return {"amps": 1, "volts": 1} if "volts" in quantities else {"amps": 1}
