# SPDX-License-Identifier: GPL-3.0-or-later
"""Compact letter display: names that the data do not separate share a letter."""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Sequence


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
        split = [column for column in columns if one in column and other in column]
        if split:
            kept = [column for column in columns if column not in split]
            halves = dict.fromkeys(column - {name} for column in split for name in (one, other))
            columns = kept + [half for half in halves if not _absorbed(half, kept, halves)]
    rank = {name: index for index, name in enumerate(ordered)}
    columns.sort(key=lambda column: sorted(rank[name] for name in column))
    return {
        name: "".join(_letter(index) for index, column in enumerate(columns) if name in column)
        for name in ordered
    }


def _absorbed(half: frozenset[str], kept: Iterable[frozenset[str]], halves: Iterable[frozenset[str]]) -> bool:
    """Return whether a half of a column lies in one that was kept, or in another half."""
    return any(half <= column for column in kept) or any(half < column for column in halves)


def _letter(index: int) -> str:
    rounds, place = divmod(index, len(string.ascii_letters))
    return string.ascii_letters[place] + "'" * rounds
