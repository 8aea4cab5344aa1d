# SPDX-License-Identifier: GPL-3.0-or-later
"""Test whether a drive's watts rise in proportion to its loads, as the model of `fit` has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from joulerig.analysis.statistics.interval import CONFIDENCE
from joulerig.plural import counted

Array = NDArray[np.float64]

FEWEST_FREE = 3  # degrees of freedom: with fewer, only a bend of many times the scatter is seen
_SPANNED = 1e-6  # of a curve's length: less than this off the model is only rounding


def why_not(names: Sequence[str], terms: Array, watts: Array, groups: Sequence[str], values: Array) -> str:
    """Return why the form of a fit is not borne out; empty where the loads show no curve.

    Parameters
    ----------
    names, terms, watts, groups
        As in `fit.Rows`.
    values : (k,)
        The fitted coefficients, the first of which is the constant.

    Notes
    -----
    A curve is added to the model and tested, one at a time: the square and the root of the watts
    above the constant (J. B. Ramsey, Tests for specification errors in classical linear
    least-squares regression analysis, JRSS B 31(2), 1969, 350-371), and the square of each term.
    The test is Student's, on the means of the loads: what the model gets wrong of a load is in all
    its repetitions, so that these are one observation. Its level is shared among the curves
    (Bonferroni).
    """
    labels = np.asarray(groups)
    loads = list(dict.fromkeys(groups))

    def by_load(column: Array) -> Array:
        return np.array([(column[labels == load].T / watts[labels == load]).T.mean(axis=0) for load in loads])

    design = by_load(terms)
    design = design[:, design.any(axis=0)]
    model, sizes, _ = np.linalg.svd(design / np.linalg.norm(design, axis=0), full_matrices=False)
    model = model[:, sizes > _SPANNED * sizes[0]]
    free = len(loads) - model.shape[1] - 1
    if len(loads) <= design.shape[1]:
        return "as many unknowns as loads, or more: nothing is left to check the fit"
    if free < FEWEST_FREE:
        fewest = model.shape[1] + 1 + FEWEST_FREE
        return f"{counted(len(loads), 'load')} cannot show whether watts are proportional; at least {fewest}"
    off = 1 - model @ model.sum(axis=0)
    found: dict[str, float] = {}
    for name, curve in _curves(names, terms, values):
        along = by_load(curve)
        off_model = along - model @ (model.T @ along)
        length = float(np.linalg.norm(off_model))
        if length > _SPANNED * np.linalg.norm(along):
            moved = float(off_model @ off) / length
            left = max(float(off @ off) - moved**2, np.finfo(float).eps * len(loads))
            found[name] = 2 * float(special.stdtr(free, -abs(moved) / np.sqrt(left / free)))
    name = min(found, key=found.__getitem__, default="")
    if not found or found[name] * len(found) >= 1 - CONFIDENCE:
        return ""
    return f"watts are not proportional to loads: curved in {name} (p = {found[name] * len(found):.1g})"


def _curves(names: Sequence[str], terms: Array, values: Array) -> Iterator[tuple[str, Array]]:
    above = np.maximum(terms[:, 1:] @ values[1:], 0.0)
    yield "all watts above the constant, their square", above**2
    yield "all watts above the constant, their root", np.sqrt(above)
    for name, term in zip(names[1:], terms.T[1:], strict=True):
        if term.any():
            yield f"what {name} is multiplied by", term**2
