# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors a user can cause: one line that names file, key, value found, and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

from joulerig.errors import JoulerigError

# How a message ends that misses a service or a twin which the rig itself runs.
RIG_UP = "'rig up' starts it"


class UserError(JoulerigError):
    """Something the user can mend; its text is one line and is all that is shown."""


class Strict(BaseModel):
    """A mapping that a user writes: unknown keys are refused with the allowed ones."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    raise ValueError(f"unknown key {key!r}; allowed: {', '.join(sorted(cls.model_fields))}")
        return data


Model = TypeVar("Model", bound=BaseModel)


def validate(model: type[Model], data: Any, source: Path | str, key: str = "", context: Any = None) -> Model:
    """Return `data` as a `model`.

    Raises UserError: `source`, the key below `key`, the value, and what is allowed.
    """
    try:
        return model.model_validate(data, context=context)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join([key, *map(str, first["loc"])] if key else map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        found = first.get("input")
        if isinstance(found, dict | list) or first["type"] in ("value_error", "missing"):
            raise UserError(f"{source}: {where or 'top level'}: {message}") from None
        raise UserError(f"{source}: {where}: {found!r}: {message}") from None


def _check_address_and_port(value: str) -> str:
    address, _, port = value.rpartition(":")
    if not address or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not ADDRESS:PORT; port 0 picks a free one")
    return value


AddressAndPort = Annotated[str, AfterValidator(_check_address_and_port)]  # to listen at
