# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe drives that the kernel of a virtual test host serves to itself: nvmet, by TCP over loopback.

Debian's kernels lack the transport `loop`. The drives stand on memory (null_blk), and have what few
real drives at hand have: several namespaces, two controllers, 4096-byte sectors.
"""

from __future__ import annotations

import shlex
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT
from tests.support.lab_driver import Lab

MIB = 1 << 20
SIZE_MIB = 192  # the least that the file systems take, with room for a load


@dataclass(frozen=True)
class Served:
    """An NVMe subsystem, of which the last namespace is the drive under test."""

    serial: str
    namespaces: int = 1
    controllers: int = 1
    block_bytes: int = 512

    @property
    def wwn(self) -> str:
        return f"uuid.{self.uuid(self.namespaces)}"

    def uuid(self, number: int) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.serial}/{number}"))

    def backing(self, number: int) -> str:
        return f"jr{self.serial.lower()}{number}"

    def declared(self) -> dict[str, Any]:
        """Return the drive as host_vars have it."""
        return {"interface": "nvme", "serial": self.serial, "wwn": self.wwn, "size_bytes": SIZE_MIB * MIB}


DRIVES = {
    "second-namespace": Served("JRNS0001", namespaces=2),
    "two-controllers": Served("JRCT0001", controllers=2),
    "large-sectors": Served("JR4K0001", block_bytes=4096),
}

BEGIN = """set -e
modprobe null_blk nr_devices=0; modprobe nvmet-tcp; modprobe nvme-tcp
served=/sys/kernel/config/nvmet; port=$served/ports/1; mkdir $port
echo tcp > $port/addr_trtype; echo ipv4 > $port/addr_adrfam
echo 127.0.0.1 > $port/addr_traddr; echo 4420 > $port/addr_trsvcid
null() { d=/sys/kernel/config/nullb/$1; mkdir $d
  for pair in size=$2 blocksize=$3 memory_backed=1 discard=1 power=1
  do echo ${pair#*=} > $d/${pair%%=*}; done; }
subsystem() { s=$served/subsystems/$1; mkdir $s; echo 1 > $s/attr_allow_any_host
  echo $1 > $s/attr_serial; ln -s $s $port/subsystems/$1; }
namespace() { n=$served/subsystems/$1/namespaces/$2; mkdir $n
  echo /dev/$3 > $n/device_path; echo $4 > $n/device_uuid; echo 1 > $n/enable; }
host=nqn.2014-08.org.nvmexpress:uuid:$(cat /proc/sys/kernel/random/uuid)
"""


def script() -> str:
    """Return the shell script that makes the drives on a host."""
    lines = [BEGIN]
    for served in DRIVES.values():
        lines.append(f"subsystem {served.serial}")
        for number in range(1, served.namespaces + 1):
            backing = served.backing(number)
            lines.append(f"null {backing} {SIZE_MIB} {served.block_bytes}")
            lines.append(f"namespace {served.serial} {number} {backing} {served.uuid(number)}")
        words = (
            f"transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn={served.serial},duplicate_connect,"
            "hostnqn=$host,hostid=${host##*:}"
        )
        lines += [f"echo {words} > /dev/nvme-fabrics"] * served.controllers
    return "\n".join([*lines, "udevadm settle", ""])


def inventory(lab: Lab) -> Path:
    """Write an inventory in which the lab's virtual host is a physical one with these drives."""
    folder = lab.folder / "inventory-nvmet"
    (folder / "host_vars").mkdir(parents=True)
    (folder / "inventory.ini").write_text((ROOT / "inventory.ini").read_text())
    files: dict[str, dict[str, Any]] = {
        "localhost": {
            "influxdb": {"database": "joulerig", "listen": "127.0.0.1"},  # 10.0.2.2 is QEMU's
            "clock_listen": "0.0.0.0:0",
            "meters": {},
        },
        "vhost1": {
            "controller_address": "10.0.2.2",
            "drives": {name: served.declared() for name, served in DRIVES.items()},
        },
    }
    for name, values in files.items():
        (folder / "host_vars" / f"{name}.yml").write_text(yaml.safe_dump(values))
    return folder / "inventory.ini"


def written_bytes(lab: Lab, served: Served) -> int:
    """Return what the memory below the drive counts as written."""
    fields = lab.ssh(f"cat /sys/block/{served.backing(served.namespaces)}/stat").split()
    return int(fields[6]) * 512


def paths(lab: Lab, served: Served) -> list[str]:
    """Return the host's paths to the drive, by the kernel's names."""
    find = f"grep -l {shlex.quote(served.wwn)} /sys/block/nvme*c*n*/wwid /dev/null"
    return [line.split("/")[3] for line in lab.ssh(f"{find} || true").split() if "/sys/block/" in line]
