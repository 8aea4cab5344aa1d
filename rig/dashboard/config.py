# SPDX-License-Identifier: GPL-3.0-or-later
"""What the dashboard's configuration file may say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import Field

from joulerig.plural import counted
from joulerig.rig.common.errors import AddressAndPort, Strict, UserError, validate
from joulerig.rig.lab.model import Webhook

LEAST_TOKEN = 16  # characters


class Influx(Strict):
    """The InfluxDB to read from; on 2.x and 3.x the password is the token.

    `database`: the beginning of its databases' names. `hosts`: the test hosts that have one.
    """

    url: Annotated[str, Field(pattern=r"^https?://")]
    database: str
    username: str
    password_file: Path
    hosts: tuple[str, ...] = ()


class Config(Strict):
    """The configuration file's keys; paths are relative to the working directory.

    `virtual`: whether time is a virtual lab's, by its own clock. `names`: further host names by
    which browsers may ask for it (web/guard.py). `notifications`: who is notified of what happens
    to campaigns; `notified_file` keeps of what they were. `state_dir`: the rig's folder of state,
    for its log of campaigns, its drives' record and its services; without it these are not shown.
    `lab_file`: the lab as `rig up` read it, without secrets. `control_token_file`: has the token of
    those who may pause, resume, stop and retry; without it nothing can be changed. `inventory`: the
    lab's, for campaigns that are resumed.
    """

    listen: AddressAndPort
    results_dir: Path
    influx: Influx
    powerd_status_socket: Path
    virtual: bool = False
    names: tuple[str, ...] = ()
    notifications: tuple[Webhook, ...] = ()
    notified_file: Path | None = None
    state_dir: Path | None = None
    lab_file: Path | None = None
    inventory: Path | None = None
    control_token_file: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)


def load(path: Path) -> tuple[Config, str]:
    """Return the configuration in `path` and InfluxDB's password. Raises UserError."""
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; --config must name the dashboard's JSON configuration"
        ) from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    config = validate(Config, data, path)
    return config, _secret(path, "influx.password_file", config.influx.password_file)


def control_token(config: Config, path: Path) -> str | None:
    """Return the token of those who may change something; None: there is none to have.

    Raises UserError.
    """
    if config.control_token_file is None:
        return None
    token = _secret(path, "control_token_file", config.control_token_file)
    if len(token) < LEAST_TOKEN:
        raise UserError(
            f"{path}: control_token_file: {config.control_token_file}:"
            f" has {counted(len(token), 'character')}; allowed: a token of {LEAST_TOKEN} or more"
        )
    return token


def _secret(path: Path, key: str, file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise UserError(f"{path}: {key}: {file}: {error.strerror}") from None
