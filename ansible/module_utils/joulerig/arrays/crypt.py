# SPDX-License-Identifier: GPL-3.0-or-later
"""dm-crypt over one drive (LUKS), with a key that is kept nowhere.

After a boot it is made again: what was on it is of no value, as each run makes its file system.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.wipe_lease import Lease
from ansible.module_utils.joulerig.tools import Unable, run

KEY_BYTES = 64
CIPHER = "aes-xts-plain64"


def check(_level: str, _host: Host) -> None:
    if not shutil.which("cryptsetup"):
        raise Unable("cryptsetup: not found on this host")


def mapped(name: str) -> str:
    """Return the device mapper's name of an array."""
    return f"joulerig_{name}"


def device(name: str, host: Host) -> str:
    return f"{host.dev}/mapper/{mapped(name)}"


def start(_asked: Mapping[str, Any], _host: Host) -> None:
    """Do nothing: without its key it cannot be opened again."""


def difference(_asked: Mapping[str, Any], kernel_name: str, host: Host) -> str:
    uuid = host.read(f"{host.sys}/block/{kernel_name}/dm/uuid", "")
    return "" if uuid.startswith("CRYPT-LUKS") else f"is {uuid or 'no mapped device'}, no LUKS device"


def create(asked: Mapping[str, Any], leases: Sequence[Lease], identifiers: Sequence[str]) -> None:
    [lease] = leases
    with tempfile.TemporaryDirectory(prefix="joulerig-key-", dir="/dev/shm") as folder:
        key = f"{folder}/key"
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(KEY_BYTES))
        # The key is random: deriving it slowly would protect nothing.
        derived = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"]
        run(
            ["cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2", "--cipher", CIPHER,
             "--key-size", "512", "--uuid", str(uuid.UUID(identifiers[0])), *derived, "--key-file", key,
             lease.path],
        )  # fmt: skip
        run(["cryptsetup", "open", "--type", "luks2", "--key-file", key, lease.path, mapped(asked["name"])])


def stop(name: str, _path: str) -> None:
    run(["cryptsetup", "close", mapped(name)])


def unmark(path: str) -> None:
    run(["wipefs", "--all", "--quiet", path])
