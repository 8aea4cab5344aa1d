# SPDX-License-Identifier: GPL-3.0-or-later
"""Coefficients in the formats of other programs' files, from the document of `document`.

Each takes what the other program has a place for, and leaves out the rest. None of these programs
has a file for drives: names of counters are this project's own, and are to be replaced by those of
whatever counts bytes there. What was read of each is named below; later versions may differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from joulerig.errors import JoulerigError

COUNTERS = {
    "joules_per_read_byte": "disk_read_bytes",
    "joules_per_written_byte": "disk_written_bytes",
    "joules_per_request": "disk_requests",
    "joules_per_flush": "disk_flushes",
}
"""By coefficient what is counted; the converters' names for it."""


class ConversionError(JoulerigError):
    """The document has nothing that the other format can hold."""


def values(drive: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a drive's exported coefficients that hold for all loads, by name."""
    return {one["name"]: one for one in drive["coefficients"] if one["cell"] is None}


def alumet(content: Mapping[str, Any]) -> str:
    """Return formulas of Alumet's plugin energy-attribution (TOML), one a drive.

    Joules that a consumer's I/O adds; idle power has no consumer. By the plugin's README and
    `src/formula/config.rs` of alumet-dev/alumet: `expr` in joules, `ref` a series of
    `per_resource`, one metric an identifier. Alumet has no source of these metrics (its procfs and
    cgroups plugins count no bytes of drives).
    """
    parts = [f"# {line}" for line in _about(content)]
    for drive in content["drives"]:
        terms = {name: one for name, one in values(drive).items() if name in COUNTERS}
        if not terms:
            continue
        key = re.sub(r"\W", "_", f"drive_energy_{drive['host']}_{drive['drive']}")
        expr = " + ".join(f"{COUNTERS[name]} * {one['value']:.6e}" for name, one in terms.items())
        parts += ["", *(f"# {name}: {_between(one)}" for name, one in terms.items())]
        parts += [f"[plugins.energy-attribution.formulas.{key}]", f'expr = "{expr}"', 'ref = "clock"']
        parts += [f"[plugins.energy-attribution.formulas.{key}.per_resource]"]
        parts += [f'clock = {{ metric = "drive_time", resource_id = {json.dumps(drive["drive"])} }}']
        parts += [f"[plugins.energy-attribution.formulas.{key}.per_consumer]"]
        parts += [f'{COUNTERS[name]} = {{ metric = "{COUNTERS[name]}" }}' for name in terms]
    return _written(
        "\n".join(parts) + "\n", "[plugins" in "".join(parts), "joules of a byte, request or flush"
    )


def kepler(content: Mapping[str, Any]) -> str:
    """Return weights of a linear model as Kepler's local regressor read them (JSON), by drive.

    Watts = Bias_Weight + the sum over Numerical_Variables of weight * value / scale, of values a
    second. By `pkg/model/estimator/local/regressor/model_weights.go` of sustainable-computing-io
    (releases before 0.10, which removed the models). Scaphandre has no file of such weights.
    """
    found = {}
    for drive in content["drives"]:
        known = values(drive)
        bias = known.get("active_watts") or known.get("idle_watts")
        if bias is None:
            continue
        weights = {
            COUNTERS[name]: {"scale": 1.0, "weight": one["value"]}
            for name, one in known.items()
            if name in COUNTERS
        }
        found[f"{drive['host']}/{drive['drive']}"] = {
            "All_Weights": {
                "Bias_Weight": bias["value"],
                "Categorical_Variables": {},
                "Numerical_Variables": weights,
            }
        }
    return _written(json.dumps(found, indent=1) + "\n", bool(found), "idle or active watts")


def cloud_carbon_footprint(content: Mapping[str, Any]) -> str:
    """Return Cloud Carbon Footprint's storage coefficient of each drive (JSON).

    Watt hours a terabyte hour: idle watts over raw capacity in 10^12 bytes, which is what the
    estimator multiplies with terabyte hours (`StorageEstimator.ts`); `SSDCOEFFICIENT` or
    `HDDCOEFFICIENT` of a provider's constants. Its formula has no place for what I/O adds.
    """
    found = {}
    for drive in content["drives"]:
        idle = values(drive).get("idle_watts")
        if idle is None or not drive["size_bytes"]:
            continue
        terabytes = drive["size_bytes"] / 1e12
        name = "HDDCOEFFICIENT" if drive["interface"] == "hdd" else "SSDCOEFFICIENT"
        found[f"{drive['host']}/{drive['drive']}"] = {
            name: idle["value"] / terabytes,
            "interval": [idle["low"] / terabytes, idle["high"] / terabytes],
            "unit": "Wh/TBh",
        }
    return _written(json.dumps(found, indent=1) + "\n", bool(found), "idle watts and a size")


CONVERTERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "alumet": alumet,
    "kepler": kepler,
    "cloud-carbon-footprint": cloud_carbon_footprint,
}


def _about(content: Mapping[str, Any]) -> list[str]:
    origin = content["provenance"]
    lab = " VIRTUAL LAB: the drives are simulated." if origin["virtual_lab"] else ""
    return [f"Energy coefficients of drives, campaign {origin['campaign']}.{lab}"]


def _between(one: Mapping[str, Any]) -> str:
    return f"{one['value']:.4g} {one['unit']}, 95 % interval {one['low']:.4g} to {one['high']:.4g}"


def _written(text: str, has_any: bool, what: str) -> str:
    if not has_any:
        raise ConversionError(f"no drive has {what} that could be exported")
    return text
