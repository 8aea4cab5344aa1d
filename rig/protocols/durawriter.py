# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines that durawriter sends to its witness, and its survey (workloads/durawriter)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from joulerig.rig.protocols.message import Message


class Hello(Message):
    """The first line, where the environment has JOULERIG_WITNESS_SECRET. It gets no reply."""

    event: Literal["hello"]
    secret: str


class Issued(Message):
    """An operation that is about to be issued. It gets no reply."""

    event: Literal["issued"]
    sequence: int
    operation: Literal["write", "durable-write", "flush", "create", "rename", "flush-names", "transaction"]
    call: str
    """The call made for it."""
    target: str
    """A file; empty for the drive itself."""
    offset: int
    bytes: int
    from_: str | None = Field(default=None, alias="from", description="A rename's old name.")
    version: int | None = None
    """Of a rename: sequence number of the content that it moves."""


class Acknowledged(Message):
    """An operation that the target acknowledged. The witness replies with `ok` or `stop`."""

    event: Literal["acknowledged"]
    sequence: int


class Failed(Message):
    """An operation that failed. The witness replies with `ok` or `stop`."""

    event: Literal["failed"]
    sequence: int
    error: str
    """Of a transaction: `rolled back`."""


class Target(Message):
    """The drive's region, or a file; its runs of sectors follow."""

    target: str
    bytes: int
    error: str = ""
    """Why it could not be read."""


class Sectors(Message):
    """A run of equal sectors. In a run of records, index rises by one per sector."""

    target: str
    offset: int
    sectors: int
    state: Literal["record", "misplaced", "damaged", "zero", "foreign"]
    index: int
    generation: int | None = None
    """Power cut that the record was written for."""
    sequence: int | None = None
    of: int | None = None
    """Sectors of the whole write."""
    crc32c: int | None = None
    """Of sectors whose content is not known otherwise."""


class Checked(Message):
    """How an application's checker ended; the transactions that it found follow."""

    application: int
    """Its exit code; other than 0: it could not read the store."""
    error: str | None = None


class Transaction(Message):
    """A transaction that an application's checker found."""

    transaction: int
    state: Literal["found", "torn"]
