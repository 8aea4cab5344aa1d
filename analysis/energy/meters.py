# SPDX-License-Identifier: GPL-3.0-or-later
"""A meter in a campaign's records: channels, class, calibration, and how late a sample can be.

Plain data: `lab` is the lab model and `provenance` the provenance as the journal has them; what is
not in them (an older campaign) is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joulerig.analysis.energy import sampling, uncertainty
from joulerig.analysis.energy.interval import Supply
from joulerig.analysis.energy.uncertainty import MeterBudget

Plain = Mapping[str, Any]
EXPIRED = "†"  # next to each figure that rests on a calibration past its date

# Sample times come from arrivals, the least late of which count as not late at all: the least delay
# of the path from instrument to controller stays unseen. USB frames of a millisecond, a request and
# its reply; a meter's `latency_seconds` is another one.
LATENCY_NS = 2_000_000


def subtree(tree: Any, *keys: str) -> dict[str, Any]:
    """Return the object at a path of keys in JSON; empty where there is none."""
    for key in keys:
        if not isinstance(tree, dict):
            return {}
        tree = tree.get(key)
    return dict(tree) if isinstance(tree, dict) else {}


def declared(lab: Plain, meter: str) -> dict[str, Any]:
    """Return the meter as the inventory described it; empty where it did not."""
    return subtree(lab, "controller", "meters", meter) or subtree(lab, "meters", meter)


def channels(lab: Plain, host: str, drive: str, rail: str) -> dict[str, str]:
    """Return a rail's channels by quantity; empty where the lab model has none.

    Volts of another meter than the rail's are METER:CHANNEL; volts that are stated have no channel.
    """
    wiring = subtree(lab, "hosts", host, "drives", drive, "rails", rail)
    found = {kind: str(wiring[kind]) for kind in uncertainty.QUANTITIES if wiring.get(kind)}
    if wiring.get("volts_meter") and "volts" in found:
        found["volts"] = f"{wiring['volts_meter']}:{found['volts']}"
    return found


def accuracy(lab: Plain, host: str, drive: str, rail: str, meter: str) -> dict[str, Any]:
    """Return the class of what measures a rail, by quantity."""
    of_volts = subtree(lab, "hosts", host, "drives", drive, "rails", rail).get("volts_meter")
    found = subtree(declared(lab, meter), "accuracy")
    if of_volts:
        found = {key: value for key, value in found.items() if key != "volts"}
        if volts := subtree(declared(lab, of_volts), "accuracy", "volts"):
            found["volts"] = volts
    return found


def rail_calibration(
    lab: Plain, provenance: Plain, host: str, drive: str, rail: str, meter: str
) -> dict[str, Any]:
    """Return the calibration of what measures a rail, its channels named as `channels` names them.

    Of two meters it is the amps', with the volts' channel added; it expires with the earlier one.
    """
    record = calibration(provenance, meter)
    wiring = subtree(lab, "hosts", host, "drives", drive, "rails", rail)
    of_volts = calibration(provenance, str(wiring.get("volts_meter") or ""))
    fitted = subtree(of_volts, "channels", str(wiring.get("volts")))
    if not fitted:
        return record
    expiries = [one["expires"] for one in (record, of_volts) if one.get("expires")]
    joined = {f"{wiring['volts_meter']}:{wiring['volts']}": fitted}
    state = next(
        (s for s in ("expired", "valid") if s in (record.get("state"), of_volts.get("state"))), "none"
    )
    return {
        **(record or of_volts),
        "state": state,
        "channels": {**subtree(record, "channels"), **joined},
        **({"expires": min(expiries)} if expiries else {}),
    }


def calibration(provenance: Plain, meter: str) -> dict[str, Any]:
    """Return the calibration that was in force; empty where none was recorded.

    It is as `rig meters calibrate` left it.
    """
    return subtree(provenance, "calibration", meter)


def expired(provenance: Plain, meter: str, at_ns: int | None = None) -> bool:
    """Return whether figures of the meter at that instant rest on an expired calibration."""
    return uncertainty.calibration_state(calibration(provenance, meter), at_ns) == "expired"


def standing(lab: Plain, provenance: Plain, meter: str, at_ns: int | None = None) -> str:
    """Describe what vouches for a meter: its calibration, or else its class."""
    record = calibration(provenance, meter)
    state = uncertainty.calibration_state(record, at_ns)
    if state in ("valid", "expired"):
        certificate = f", certificate {record['certificate']}" if record.get("certificate") else ""
        dated = f" of {record['date']}" if record.get("date") else ""
        until = record.get("expires", "an unknown date")
        if state == "expired":
            return f"{EXPIRED} CALIBRATION{dated} EXPIRED {until}{certificate}"
        return f"calibration{dated} valid to {until}{certificate}"
    stated = subtree(declared(lab, meter), "accuracy")
    class_ = f"class {_class_text(stated)}" if _class_text(stated) else "meter class not stated"
    return f"{'no calibration' if state == 'none' else 'no calibration on record'}, {class_}"


def _class_text(accuracy: Plain) -> str:
    units = {"volts": "V", "amps": "A", "watts": "W", "watt_hours": "J"}
    parts = []
    for kind, unit in units.items():
        limits = subtree(accuracy, kind)
        sums = [f"{limits['gain_percent']:g} %"] if limits.get("gain_percent") else []
        sums += [f"{limits['offset']:g} {unit}"] if limits.get("offset") else []
        if sums:
            parts.append(f"{kind.replace('_', '-')} ±({' + '.join(sums)})")
    return ", ".join(parts)


def edge_error_ns(lab: Plain, meter: str) -> int:
    """Return how far a point's time may be from its instant, in nanoseconds.

    It is the path's latency, the residual of the time fit left out; for an instrument that is asked
    for each reading also the time between two readings, anywhere in which the reading was taken.
    """
    spec = declared(lab, meter)
    rate = spec.get("sample_rate_hz")
    period = 1e9 / rate if spec.get("timing") == "poll" and rate else 0.0
    latency = spec.get("latency_seconds")
    return round(period) + (LATENCY_NS if latency is None else round(1e9 * latency))


def declared_sees_all(lab: Plain, meter: str) -> bool:
    """Return `sees_all` of a meter as the inventory described it."""
    spec = declared(lab, meter)
    return sampling.sees_all(*map(spec.get, ("timing", "samples", "sample_rate_hz", "bandwidth_hz")))


def mean_products(lab: Plain, host: str, drive: str, meter: str, rail: str) -> Supply | None:
    """Return what feeds a rail whose power is mean volts times mean amps of each sample's window.

    None where it is not.
    """
    spec = declared(lab, meter)
    window_mean = spec.get("samples") == "window-mean" and spec.get("timing") != "poll"
    if not window_mean or "volts" not in channels(lab, host, drive, rail):
        return None
    feeds = subtree(lab, "hosts", host, "drives", drive, "rails", rail, "supply")
    return Supply(feeds.get("amps"), feeds.get("ohms"))


def budget(
    lab: Plain,
    provenance: Plain,
    *,
    host: str,
    drive: str,
    rail: str,
    meter: str,
    joules: float | None,
    seconds: float,
    volt_seconds: float | None,
    amp_seconds: float | None,
    at_ns: int | None = None,
) -> MeterBudget:
    """Compute the meter's budget of one rail's energy over an interval.

    The interval began at `at_ns` (UTC).
    """
    if joules is None:
        return MeterBudget((), "no joules")
    wired = channels(lab, host, drive, rail)
    if not wired:
        return MeterBudget((), "the rail's channels are not known")
    record = rail_calibration(lab, provenance, host, drive, rail, meter)
    state = uncertainty.calibration_state(record, at_ns)
    return uncertainty.energy_uncertainty(
        joules=joules,
        seconds=seconds,
        channels=wired,
        volt_seconds=volt_seconds,
        amp_seconds=amp_seconds,
        accuracy=accuracy(lab, host, drive, rail, meter),
        calibration=record if state in ("valid", "expired") else None,
        expired=state == "expired",
        at_ns=at_ns,
    )
