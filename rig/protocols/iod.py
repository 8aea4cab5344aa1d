# SPDX-License-Identifier: GPL-3.0-or-later
"""iod's configuration, and what `iod resolve` prints (collectors/iod)."""

from __future__ import annotations

from pydantic import Field

from joulerig.rig.protocols.message import Influx, Message


class Drive(Message):
    """A drive, named by serial, wwid or both; by md; or by pmem."""

    name: str
    serial: str = ""
    wwid: str = ""
    md: str = ""
    """Name of the array."""
    pmem: str = ""
    """Kernel name of a persistent-memory device."""


class Config(Message):
    """The file that `--config` names."""

    host: str
    """Tag of every point."""
    interval_seconds: float = 0.1
    """Of the block layer's and journals' counters; 0.01 to 60."""
    hostload_interval_seconds: float = 1
    """Of CPU, memory and RAPL; 0.01 to 60."""
    health_interval_seconds: float = 10
    """Of the NVMe health log; 1 to 86400, 0 for never."""
    smartctl: str = ""
    """Program that reads SATA drives' health; empty: they are not read."""
    smartctl_interval_seconds: float = 60
    """10 to 86400."""
    spool_dir: str = ""
    """Directory of points that InfluxDB has not acknowledged; or `influx.spool_dir`."""
    socket: str = ""
    """Path of a datagram socket that takes line protocol; empty: none."""
    influx: Influx
    drives: list[Drive]
    proc_root: str = "/proc"
    sys_root: str = "/sys"
    dev_root: str = "/dev"


class Found(Message):
    """A drive as it was found. Keys without a value are left out."""

    name: str
    serial: str = ""
    wwid: str = ""
    model: str = ""
    interface: str = ""
    """`nvme`, `ata`, `scsi`, `virtio`, `md`, `pmem` or `ram`."""
    kernel_device: str = ""
    size_bytes: int = 0
    controller: str = ""
    """Where the NVMe health log is read."""
    partitions: list[str] = Field(default_factory=list)
    counted: list[str] = Field(default_factory=list)
    """Devices whose block-layer counters add up to the drive's."""
    problem: str = ""
    """Why there is no kernel device."""


class Resolved(Message):
    """The output of `iod resolve`."""

    host: str
    drives: list[Found]
