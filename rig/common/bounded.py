# SPDX-License-Identifier: GPL-3.0-or-later
"""Bound and type what another machine returns: text, names, counts, JSON.

A test host is not trusted: any load runs there as root. So each reply has a model of these types.
A name or a number that is out of bounds is refused, in one line; text for people is cut, and shown
without control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from joulerig.identifier import ID, LONGEST_ID
from joulerig.rig.common.errors import UserError

LONGEST_LINE = 1000
MOST_ENTRIES = 10_000
DEEPEST = 32
MOST_NODES = 2_000_000
MOST_CHARACTERS = 64 << 20
# What SQLite stores as an integer.
LEAST, GREATEST = -(2**63), 2**63 - 1
UNPRINTED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # categories of Unicode


def printable(text: str, keep: str = "") -> str:
    """Return a text with every control character but `keep` replaced, such as a terminal's escape.

    What reorders text, and halves of surrogate pairs, are among them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(one) in UNPRINTED and one not in keep else one
        for one in text
    )


def one_line(text: object, longest: int = 300) -> str:
    """Return a text on one line, printable, at most `longest` characters of it."""
    return printable(" ".join(str(text)[: 4 * longest].split()))[:longest]


def _line(value: Any) -> Any:
    return one_line(value, LONGEST_LINE) if isinstance(value, str) else value


def _json(value: Any) -> Any:
    """Check the size and the depth of JSON data. Raises ValueError."""
    level, nodes, characters = [value], 0, 0
    for _ in range(DEEPEST):
        nodes += len(level)
        below: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                below += [*one, *one.values()]
            elif isinstance(one, list | tuple):
                below += one
            elif isinstance(one, str):
                characters += len(one)
            elif isinstance(one, int) and not LEAST <= one <= 2**128:
                raise ValueError("has a number of more than 128 bits")
        if nodes > MOST_NODES or characters > MOST_CHARACTERS:
            raise ValueError(f"is too large; allowed: {MOST_NODES} values, {MOST_CHARACTERS} characters")
        if not below:
            return value
        level = below
    raise ValueError(f"is too deep; allowed: {DEEPEST} levels")


Line = Annotated[str, BeforeValidator(_line)]
"""Text for people: one line, printable, cut at LONGEST_LINE."""
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:+/@~-]*$", max_length=128)]
"""A name by which a machine calls something: a device, a type, a release."""
CampaignId = Annotated[str, Field(pattern=rf"^{ID}$", max_length=LONGEST_ID)]
RunId = CampaignId
Whole = Annotated[int, Field(ge=0, le=GREATEST)]
Nanoseconds = Annotated[int, Field(ge=LEAST, le=GREATEST)]
Json = Annotated[Any, AfterValidator(_json)]
"""JSON that is kept as it came, bounded in size and depth."""
JsonObject = Annotated[dict[str, Any], AfterValidator(_json)]
Lines = Annotated[list[Line], Field(max_length=MOST_ENTRIES)]


class Returned(BaseModel):
    """A reply of a machine. Keys that it does not declare are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Part(Returned):
    """A part of it that has no other keys than the declared ones."""

    model_config = ConfigDict(extra="forbid")


Model = TypeVar("Model", bound=BaseModel)


def read(model: type[Model], data: Any, source: str) -> Model:
    """Return `data` as a `model`. Raises UserError, on one line without the text that came."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = one_line(".".join(map(str, first["loc"])) or "reply", 100)
        raise UserError(f"{source}: returned a wrong {where}: {one_line(first['msg'])}") from None
