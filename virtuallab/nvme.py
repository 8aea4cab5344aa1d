# SPDX-License-Identifier: GPL-3.0-or-later
"""A twin as the NVMe controller that its host sees: where it listens, how its host connects.

The host connects by the kernel's own driver, over the network of QEMU. What it needs for that
reaches it as a file of the machine's firmware; the guest's image has what reads it (image.py).
"""

from __future__ import annotations

import uuid
from pathlib import Path

from joulerig.rig.common import files
from joulerig.rig.lab.model import Drive, TestHost
from joulerig.virtuallab import profile

EUI_DIGITS = 16
# A day: the connection's own end says that a drive is gone. With 0 the kernel takes 5 s, in which a
# host without KVM on a busy machine may not answer, and loses its drives.
KEEP_ALIVE_SECONDS = 86_400


def drives(host: TestHost) -> dict[str, Drive]:
    """Return the drives of a host whose twins are NVMe controllers of their own."""
    if host.virtual is None or host.virtual.nvme != "twin":
        return {}
    return {name: drive for name, drive in host.twins.items() if drive.interface == "nvme"}


def parameters(host: str, name: str, drive: Drive, model: profile.Profile) -> list[str]:
    """Return the plugin's parameters of a drive's NVMe target."""
    found = [f"nvme=127.0.0.1:{_port(host, name)}", f"nvme_name=+{_name_file(host, name)}"]
    found.append(f"nvme_model={model.model}")
    digits = (drive.wwn or "").removeprefix("eui.")
    if drive.wwn and drive.wwn.startswith("eui.") and len(digits) == EUI_DIGITS:
        found.append(f"nvme_eui64={digits}")
    return found


def connections(host: str, spec: TestHost) -> list[str]:
    """Return what a host writes to /dev/nvme-fabrics, a line a drive.

    A drive that is lost is gone, as on a bus: nothing is retried behind the back of a file system.
    The host's name does not change from boot to boot, so a host that was reset finds its drives
    free.
    """
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"joulerig:{host}")
    return [
        f"transport=tcp,traddr={spec.controller_address},trsvcid={_port(host, name)}"
        f",nqn={_name_file(host, name).read_text().strip()}"
        f",hostnqn=nqn.2014-08.org.nvmexpress:uuid:{number},hostid={number}"
        f",nr_io_queues={(spec.virtual.cpus if spec.virtual else 1)}"
        f",keep_alive_tmo={KEEP_ALIVE_SECONDS},ctrl_loss_tmo=0,disable_sqflow"
        for name in drives(spec)
    ]


def _port(host: str, name: str) -> int:
    return files.kept_port(f"nvme-{host}-{name}")


def _name_file(host: str, name: str) -> Path:
    """Return the file of the drive's qualified name.

    It is a secret: every user of this machine reaches the port, and who has the name the drive.
    """
    secret = files.secret(f"nvme-{host}-{name}")
    path = secret.with_name(f"{secret.name}.nqn")
    if not path.exists():
        drive = uuid.uuid5(uuid.NAMESPACE_URL, secret.read_text())
        files.replace(path, f"nqn.2014-08.org.nvmexpress:uuid:{drive}\n", mode=0o600)
    return path
