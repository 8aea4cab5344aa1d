# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of `srcap --scan`; its frames are binary (collectors/srcap/frames.md)."""

from __future__ import annotations

from typing import Literal

from joulerig.rig.protocols.message import Message


class Channel(Message):
    """A channel of an instrument."""

    name: str
    type: Literal["analog", "logic"]
    index: int


class Instrument(Message):
    """An instrument that was found; `srcap --scan` prints a list of them."""

    driver: str
    vendor: str
    model: str
    version: str
    serial: str
    connection: str
    channels: list[Channel]
