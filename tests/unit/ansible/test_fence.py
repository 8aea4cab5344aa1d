# SPDX-License-Identifier: GPL-3.0-or-later
"""In the fence: a private /dev, private mounts, and loads that have no way round it."""

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a mount namespace")

BEGIN = f"""
import json, os, subprocess, sys
import ansible.module_utils
ansible.module_utils.__path__.append({str(ROOT / "ansible" / "module_utils")!r})
from ansible.module_utils.joulerig import fence
from ansible.module_utils.joulerig.loads import load
"""


def fenced(code: str, *words: str) -> dict:
    """What a process prints as JSON that executes `code`."""
    program = BEGIN + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_its_dev_has_the_devices_that_it_was_given_and_no_other_blocks():
    found = fenced("""
        fence.enter({"/dev/given": "7:250"}, {"/dev/md/pair": "../given"})
        found = {name: os.lstat(f"/dev/{name}") for name in os.listdir("/dev")}
        kinds = {name: [one.st_mode, one.st_rdev] for name, one in found.items()}
        print(json.dumps([kinds, os.readlink("/dev/md/pair")]))
    """)
    kinds, link = found
    blocks = {name: device for name, (mode, device) in kinds.items() if stat.S_ISBLK(mode)}
    assert blocks == {"given": os.makedev(7, 250)}
    assert {"null", "zero", "full", "random", "urandom", "fd", "shm"} <= set(kinds)
    assert link == "../given"


def test_its_usual_devices_work():
    assert (
        fenced("""
        fence.enter({}, {})
        with open("/dev/null", "w") as null:
            null.write("x")
        with open("/dev/urandom", "rb") as random:
            count = len(random.read(16))
        open("/dev/shm/joulerig-test", "w").close()
        os.unlink("/dev/shm/joulerig-test")
        print(json.dumps(count))
    """)
        == 16
    )


def test_what_is_mounted_in_it_is_not_seen_outside(tmp_path):
    seen = fenced(
        """
        fence.enter({}, {})
        subprocess.run(["mount", "-t", "tmpfs", "inside", sys.argv[1]], check=True)
        print(json.dumps(os.path.ismount(sys.argv[1])))
        """,
        str(tmp_path),
    )
    assert seen
    assert "inside" not in Path("/proc/self/mountinfo").read_text()


def test_the_system_keeps_its_own_dev():
    before = sorted(os.listdir("/dev"))
    fenced('fence.enter({}, {}); print("null")')
    assert sorted(os.listdir("/dev")) == before


@pytest.mark.parametrize(
    "attempt",
    [
        "mknod {folder}/disk b 8 0",
        "mount -t devtmpfs x {folder}",
        "mount --bind /proc {folder}",
        "unshare --mount true",
        "nsenter --mount=/proc/1/ns/mnt true",
        "ls /proc/{outside}/root/dev/",
        "cat /proc/{outside}/fd/0",
        "umount /dev",
    ],
)
def test_a_load_cannot_get_round_it(tmp_path, attempt):
    """The process that it reaches for is outside of the fence, and root's as the load is."""
    outside = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        command = attempt.format(folder=tmp_path, outside=outside.pid)
        problem = fenced(
            """
            fence.enter({}, {})
            print(json.dumps(load.attend("load", ["sh", "-c", sys.argv[1]], 60)))
            """,
            command,
        )
        assert problem.startswith("load: exit "), problem
    finally:
        outside.kill()
        outside.wait()


def test_a_load_may_do_what_loads_do(tmp_path):
    problem = fenced(
        """
        fence.enter({}, {})
        words = "set -e; cd " + sys.argv[1] + "; echo x > file; chown 65534 file; sync"
        print(json.dumps(load.attend("load", ["sh", "-c", words], 60)))
        """,
        str(tmp_path),
    )
    assert problem == ""
