# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel that this host runs, and how it comes to run another until its next boot.

The rig's kernels lie next to the host's, below FOLDER; its boot menu does not know them. They are
started from the running one (kexec), so whatever resets the host brings its own kernel back.
"""

import os
import platform
import time

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.tools import Failed, Unable, run

FOLDER = "/var/lib/joulerig/kernels"
REACHED = (
    "/run/joulerig-kernel-reached"  # joulerig-kernel-guard.service: without it the host leaves the kernel
)
DELAY_SECONDS = 2  # until the host goes, so that the answer is out by then


def running(folder=FOLDER, system=None):
    """Return what runs: release, tick, boot, and whether it is one of the rig's.

    The tick is CONFIG_HZ, or None.
    """
    system = system or Host()
    release = platform.release()
    return {
        "release": release,
        "tick_hertz": tick_hertz(system, release),
        "boot_id": system.read(f"{system.proc}/sys/kernel/random/boot_id"),
        "of_rig": os.path.isdir(os.path.join(folder, release)),
    }


def reached(path=REACHED):
    """Note that the controller reaches this host under the kernel that runs."""
    with open(path, "w"):
        pass


def tick_hertz(system, release, boot="/boot"):
    """Read the timer interrupts a second (CONFIG_HZ) from the kernel's configuration.

    None where that is not there.
    """
    for line in (system.read(f"{boot}/config-{release}") or "").splitlines():
        if line.startswith("CONFIG_HZ="):
            return int(line.partition("=")[2])
    return None


def start(release, folder=FOLDER, system=None):
    """Have this host run a kernel of the rig's, a moment from now.

    With an empty `release` it reboots into its own. Raises Refused where the host can't, Failed
    where something went wrong.
    """
    if not release:
        _soon("reboot")
        return
    system = system or Host()
    place = os.path.join(folder, release)
    missing = [name for name in ("vmlinuz", "initrd") if not os.path.isfile(os.path.join(place, name))]
    if missing:
        raise Unable(f"kernel {release}: no {' and no '.join(missing)} in {place}")
    if system.read(f"{system.proc}/sys/kernel/kexec_load_disabled") == "1":
        raise Unable(f"kernel {release}: this host starts none (kernel.kexec_load_disabled is 1)")
    lockdown = system.read(f"{system.sys}/kernel/security/lockdown") or ""
    if lockdown and "[none]" not in lockdown:
        raise Unable(f"kernel {release}: is not signed, and this host is locked down (Secure Boot)")
    run(["kexec", "--load", f"{place}/vmlinuz", f"--initrd={place}/initrd", "--reuse-cmdline"])
    _soon("kexec")


def _soon(how):
    run(["systemd-run", "--quiet", f"--on-active={DELAY_SECONDS}", "systemctl", how])


def await_booted(seconds=300):
    """Wait until every service that the boot starts is up, or one failed.

    A failed service is no matter here. Raises Failed after `seconds`.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = run(["systemctl", "is-system-running"]).strip()
        except Failed as error:  # any state but "running" has another exit code
            state = str(error).rpartition(" ")[2]
        if state in ("running", "degraded"):
            return
        time.sleep(1)
    raise Failed(f"still booting after {seconds} s")
