# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of all messages."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A JSON object between two programs. The string below a key describes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Influx(Message):
    """Where points go."""

    url: str
    """`http://host:port` or `https://...`"""
    database: str
    """On InfluxDB 2.x the bucket that is mapped to this name."""
    username: str = ""
    """For HTTP Basic authentication; empty: none."""
    password_file: str = ""
    """On InfluxDB 2.x and 3.x the file holds a token."""
    spool_dir: str = ""
    """Directory of points that InfluxDB has not acknowledged."""
    max_spool_bytes: int = 0
    """0: the default."""
    flush_interval_seconds: float = 0
    """0: the default."""
