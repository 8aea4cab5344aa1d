# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors a user can cause: one line that names file, key, value found, and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

from joulerig.errors import JoulerigError

# How a message ends that misses a service or a twin which the rig itself runs.
RIG_UP = "'rig up' starts it"


class UserError(JoulerigError):
    """Something the user can correct; its text is one line and is all that is shown."""


def near_miss(key: object, allowed: Iterable[str]) -> str:
    """Return the allowed key that a person may have meant by `key`, or an empty text."""
    found = difflib.get_close_matches(str(key), list(allowed), n=1, cutoff=0.8)
    return found[0] if found else ""


class Strict(BaseModel):
    """A mapping that a user writes: unknown keys are refused with the allowed ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    meant = near_miss(key, cls.model_fields)
                    hint = f"; did you mean {meant!r}?" if meant else ";"
                    allowed = ", ".join(sorted(cls.model_fields))
                    raise ValueError(f"unknown key {key!r}{hint} allowed: {allowed}")
        return data


@dataclass(frozen=True)
class Problem:
    """One mistake: the file that it is in, the key, and the value found with what is allowed."""

    source: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.key}: {self.text}"


Model = TypeVar("Model", bound=BaseModel)
# A check of several keys names the one that it is about.
BELOW = re.compile(r"^([a-z_]+(?:\.[^\s:]+)*): (.*)$")
SHOULD_BE = "Input should be "


def validate(model: type[Model], data: Any, source: Path | str, key: str = "", context: Any = None) -> Model:
    """Return `data` as a `model`.

    Raises UserError: `source`, the key below `key`, the value, and what is allowed.
    """
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        raise UserError(str(problems(error, source, key)[0])) from None


def problems(error: ValidationError, source: Path | str, key: str = "") -> list[Problem]:
    """Return what pydantic found wrong in `source`, its keys being below `key`."""
    return [_problem(one, str(source), key) for one in error.errors(include_url=False)]


def _problem(found: Mapping[str, Any], source: str, key: str) -> Problem:
    where = [*([key] if key else []), *map(str, found["loc"])]
    message = found["msg"].removeprefix("Value error, ")
    value = found.get("input")
    if found["type"] == "value_error" and (below := BELOW.match(message)):
        where, message = [*where, below[1]], below[2]
    elif message.startswith(SHOULD_BE):
        allowed = message.removeprefix(SHOULD_BE)
        message = f"allowed: {allowed.partition(', unable')[0]}"
        return Problem(source, ".".join(where) or "top level", f"{value!r}; {message}")
    if not isinstance(value, dict | list) and found["type"] not in ("value_error", "missing"):
        message = f"{value!r}: {message}"
    return Problem(source, ".".join(where) or "top level", message)


def _check_address_and_port(value: str) -> str:
    address, _, port = value.rpartition(":")
    if not address or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not ADDRESS:PORT; port 0 picks a free one")
    return value


AddressAndPort = Annotated[str, AfterValidator(_check_address_and_port)]  # to listen at


def _check_port_range(value: str) -> str:
    first, _, last = value.partition("-")
    if not (first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 65536):
        raise ValueError(f"{value!r} is no range of ports; allowed: FIRST-LAST, of 1 to 65535")
    return value


PortRange = Annotated[str, AfterValidator(_check_port_range)]  # of which any may be listened at
