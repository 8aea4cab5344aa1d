# SPDX-License-Identifier: GPL-3.0-or-later
"""Which QEMU accelerator a guest really boots under.

/dev/kvm opening proves nothing, guests may hang.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
from pathlib import Path

from joulerig.rig.common import files, paths, wait
from joulerig.virtuallab.image import Image

PROBE_SECONDS = 20.0


def choose(image: Image) -> str:
    """Choose "kvm" where the image's kernel comes up under it within PROBE_SECONDS, else "tcg".

    The choice is kept for this machine and boot.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    memory = paths.cache() / "accelerator.json"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    key = f"{platform.node()} {boot}"
    try:
        remembered: dict[str, str] = json.loads(memory.read_text())
    except (OSError, ValueError):
        remembered = {}
    if key not in remembered:
        remembered = {key: "kvm" if _kernel_speaks(image) else "tcg"}
        files.replace(memory, json.dumps(remembered))
    return remembered[key]


def _kernel_speaks(image: Image) -> bool:
    """Boot the kernel without a disk: it must get as far as user space in the initial RAM disk."""
    with tempfile.TemporaryDirectory() as folder:
        console = Path(folder) / "console"
        command = [
            "qemu-system-x86_64", "-accel", "kvm", "-machine", "q35", "-cpu", "host", "-m", "512",
            "-nodefaults", "-display", "none", "-no-reboot",
            "-serial", f"file:{console}", "-kernel", str(image.kernel),
            "-initrd", str(image.initrd), "-append", "console=ttyS0 break=top",
        ]  # fmt: skip
        guest = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:

            def decided() -> bool:
                return guest.poll() is not None or (console.exists() and b"initramfs" in console.read_bytes())

            wait.until(decided, PROBE_SECONDS, 0.2)
            return console.exists() and b"(initramfs)" in console.read_bytes()
        finally:
            guest.kill()
            guest.wait()
