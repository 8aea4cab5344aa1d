# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit tests of the library of test hosts, under the Pythons of the releases of Debian.

    python -m tests.bench.host_library [--release bullseye]...

Runs in a copy of each release's guest image, at this machine's pace: with that release's Python and
standard library, the tests of `tests/unit/ansible` that need nothing of the controller. Needs root
or sudo. Prints a line for each release; exits 1 where a test fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import get_args

from joulerig.rig.common import paths
from joulerig.rig.lab import model, packages
from joulerig.rig.lab.model import Release
from joulerig.virtuallab import image
from tests.support import ROOT
from tests.support.lab_driver import BIN

TESTS = ROOT / "tests" / "unit" / "ansible"
# Of the controller; also PyYAML, which is compiled for one Python, and what reads host code.
NOT_ON_HOSTS = re.compile(r"^(from|import) (joulerig\.|ansible\.errors|yaml|ast\b)", re.MULTILINE)
LEFT_OUT = ("--deselect=tests/unit/ansible/test_module_utils.py::test_escaped_tags_read_back_as_they_were",)
# The last of pytest that Python 3.9 can run, and what it needs there.
RUNNER = ("pytest==8.4.2", "pytest-timeout==2.4.0", "exceptiongroup", "tomli", "typing_extensions")
SECONDS = 1800
# $1: an empty folder; $2: the image; $3: this checkout; $4: the runner's packages.
ENTER = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs none "$1"
mkdir "$1/lower" "$1/upper" "$1/work" "$1/root"
mount -o loop,ro,noload "$2" "$1/lower"
mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" none "$1/root"
cd "$1/root"
mkdir source runner
mount --bind "$3" source
mount --bind "$4" runner
mount -t proc none proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs none tmp
mount -t tmpfs none run
shift 4
exec chroot . /usr/bin/env -i "$@"
"""


def run(release: str, runner: Path) -> tuple[str, str]:
    """Return the closing line of the tests in a release's image, and all output."""
    lab = model.load(ROOT / "inventory.ini")
    guest = image.build(packages.for_guests(lab), release)
    site = next((ROOT / ".venv" / "lib").glob("python3.*/site-packages")).relative_to(ROOT)
    files = [f"tests/unit/ansible/{path.name}" for path in chosen()]
    with tempfile.TemporaryDirectory() as folder:
        command = ["unshare", "--mount", "sh", "-c", ENTER, "enter", folder]
        command += [str(guest.root), str(ROOT), str(runner)]
        command += [
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            f"PYTHONPATH=/runner:/source:/source/{site}",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
            "sh",
            "-c",
            'cd /source && python3 --version && exec python3 -m pytest "$@"',
            "pytest",
            *("-q", "-p", "pytest_timeout", "-p", "no:cacheprovider", "-p", "tests.support.fake_host"),
            *("--noconftest", *LEFT_OUT, *files),
        ]
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        done = subprocess.run([*sudo, *command], capture_output=True, text=True, timeout=SECONDS)
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return f"{lines[0]}: {lines[-1]}", done.stdout + done.stderr


def chosen() -> list[Path]:
    """Return the files of tests that a host's Python can run."""
    return [path for path in sorted(TESTS.glob("test_*.py")) if not NOT_ON_HOSTS.search(path.read_text())]


def install_runner(folder: Path) -> None:
    if not (folder / "pytest").is_dir():
        options = ["--quiet", "--disable-pip-version-check", "--python-version=3.9", "--only-binary=:all:"]
        subprocess.run(
            [BIN / "python", "-m", "pip", "install", *options, f"--target={folder}", *RUNNER], check=True
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="append", choices=get_args(Release), help="this one alone")
    args = parser.parse_args()
    runner = paths.cache() / "host-tests"
    install_runner(runner)
    failed = False
    for release in args.release or get_args(Release):
        closing, output = run(release, runner)
        print(f"{release}, {closing}", flush=True)
        if not re.search(r"\d+ passed", closing) or re.search(r"\d+ (failed|error)", closing):
            failed = True
            print(output)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
