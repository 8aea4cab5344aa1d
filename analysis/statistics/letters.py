# SPDX-License-Identifier: GPL-3.0-or-later
"""Compact letter display: names that the data do not separate share a letter."""

from __future__ import annotations

import string
from collections.abc import Collection, Sequence


def display(ordered: Sequence[str], separated: Collection[tuple[str, str]]) -> dict[str, str]:
    """Return letters by name: two names share one if and only if `separated` lacks their pair.

    Parameters
    ----------
    ordered : sequence of str
        The names, best first: the best has the letter a.
    separated : pairs of names, in either order

    Notes
    -----
    Insert and absorb: H.-P. Piepho, An algorithm for a letter-based representation of all-pairwise
    comparisons, Journal of Computational and Graphical Statistics 13(2), 2004, 456-466.
    """
    columns: list[frozenset[str]] = [frozenset(ordered)]
    for one, other in separated:
        split = [
            column - {left_out}
            for column in columns
            for left_out in ((one, other) if {one, other} <= column else ("",))
        ]
        columns = _absorbed(split)
    rank = {name: index for index, name in enumerate(ordered)}
    columns.sort(key=lambda column: sorted(rank[name] for name in column))
    return {
        name: "".join(_letter(index) for index, column in enumerate(columns) if name in column)
        for name in ordered
    }


def _absorbed(columns: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Return the columns that lie in no other one, each once."""
    distinct = list(dict.fromkeys(columns))
    return [column for column in distinct if not any(column < other for other in distinct)]


def _letter(index: int) -> str:
    rounds, place = divmod(index, len(string.ascii_letters))
    return string.ascii_letters[place] + "'" * rounds
