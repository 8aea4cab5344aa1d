# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host on this machine: a program in namespaces, with a drive that is a loop device.

    unshare --mount --pid --uts --fork --kill-child \\
        python -m tests.support.contained_host FOLDER NAME LOOP SERIAL COMMAND...

The program is the first process of the host. The host has the machine's programs and a private
/run, /etc, /root, /usr/local and /var/lib; what it writes there is gone with it, but for
/var/lib/joulerig, which is on the disk of FOLDER as it is on a real host's. Its /dev has one block
device, and /sys/block lists that one, with a serial as a drive has it. Kernel, processors and page
cache are the machine's. systemd is not there; `systemctl` knows no unit. FOLDER is on a file system
in memory but for `disk`, a link to a folder elsewhere.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import ansible.module_utils
from tests.support import ROOT
from tests.support.fake_systemd import FakeSystemd

ansible.module_utils.__path__.append(str(ROOT / "ansible" / "module_utils"))
from ansible.module_utils.joulerig import fence  # noqa: E402

PRIVATE = ("etc", "root", "usr/local", "var/lib")
AGENT = Path("/etc/joulerig/iod.json")


def _mount(*args: str) -> None:
    subprocess.run(["mount", *args], check=True)


def hide_system(folder: Path) -> None:
    """Give this mount namespace private folders of the system."""
    for name in PRIVATE:
        upper, work = (folder / kind / name for kind in ("upper", "work"))
        for one in (upper, work):
            one.mkdir(parents=True)
        _mount("-t", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", "host", f"/{name}")
    Path("/root/.bashrc").unlink(missing_ok=True)  # what a developer's shell does would count as SSH's
    _mount("-t", "tmpfs", "-o", "mode=755", "host", "/run")
    state = Path("/var/lib/joulerig")
    state.mkdir(exist_ok=True)
    _mount("--bind", str((folder / "disk").resolve()), str(state))
    FakeSystemd(Path("/usr/local/bin"), {})


def show_drive(folder: Path, loop: str, serial: str) -> None:
    """Have the kernel's files of this mount namespace show one drive, the loop device."""
    real, place = folder / "sysfs", Path("/sys/devices/virtual/block") / loop
    number = (place / "dev").read_text().strip()
    real.mkdir()
    _mount("--bind", str(place), str(real))
    _mount("-t", "tmpfs", "host", str(place))
    for entry in real.iterdir():
        (place / entry.name).symlink_to(entry)
    (place / "device").mkdir()
    # As a SCSI disk gives it: page 80h of its vital product data.
    (place / "device/vpd_pg80").write_bytes(bytes((0, 0x80, 0, len(serial))) + serial.encode())
    _mount("-t", "tmpfs", "host", "/sys/block")
    Path("/sys/block", loop).symlink_to(place)
    fence.enter({f"/dev/{loop}": number}, {})


def main() -> None:
    folder, (name, loop, serial), command = Path(sys.argv[1]), sys.argv[2:5], sys.argv[5:]
    socket.sethostname(name)
    _mount("-t", "proc", "proc", "/proc")
    hide_system(folder)
    show_drive(folder, loop, serial)
    Path("/run/joulerig").mkdir()
    Path("/run/sshd").mkdir(mode=0o755)
    AGENT.parent.mkdir(exist_ok=True)
    for source in (folder / "agent").iterdir():
        (AGENT.parent / source.name).write_bytes(source.read_bytes())
    subprocess.Popen([str(ROOT / "build/iod"), "--config", str(AGENT)], cwd="/")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
