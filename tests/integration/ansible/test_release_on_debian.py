# SPDX-License-Identifier: GPL-3.0-or-later
"""A release with packages of a Debian 12 whose owner made a database with the rig's PostgreSQL.

The system is a folder that mmdebstrap makes, entered by chroot in namespaces. It takes minutes:
`make test-release`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulerig.virtuallab import image
from tests.support import ROOT

pytestmark = [
    pytest.mark.skipif(not os.environ.get("JOULERIG_RELEASE"), reason="takes minutes: make test-release"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: chroot"),
]
CONFIGURATION = "/etc/postgresql-common/createcluster.d/joulerig.conf"
CODE = f"""
import json, os, sys
sys.path.insert(0, "/opt/rig")
from ansible.module_utils.joulerig.changes import files, packages, record
from ansible.module_utils.joulerig.changes.undo import Undo

def install():
    folder = os.path.dirname({CONFIGURATION!r})
    folders = [{{"path": path, "mode": "0755"}} for path in (os.path.dirname(folder), folder)]
    content = "create_main_cluster = false\\n"
    files.have(folders, [{{"dest": {CONFIGURATION!r}, "content": content, "mode": "0644"}}])
    with record.locked(create=True):
        record.Record().add({{record.PACKAGE: ["postgresql"]}}, 86400)
    packages.install(["postgresql"])

def release():
    with record.locked(create=False):
        undo = Undo(record.Record())
        undo.execute(with_packages=True)
    print(json.dumps({{"undone": undo.undone, "stays": undo.stays, "failures": undo.failures}}))
"""
ENTER = [
    "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec",
    'mount -t proc proc "$0/proc"; mount -t tmpfs dev "$0/dev"; mkdir "$0/dev/shm"; cd "$0/dev";'
    " mknod -m 666 null c 1 3; mknod -m 666 zero c 1 5; mknod -m 666 urandom c 1 9; mknod -m 666 random c 1 8;"
    ' exec chroot "$0" "$@"',
]  # fmt: skip


class Host:
    """The system in a folder; a command ends with all that it started."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *command: str) -> str:
        done = subprocess.run([*ENTER, str(self.root), *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rig(self, what: str) -> str:
        return self.run("python3", "-c", f"{CODE}\n{what}()")

    def count(self) -> str:
        """Start the owner's database and count the rows of its table."""
        return self.run(
            "sh", "-ec", "pg_ctlcluster 15 main start; su postgres -c \"psql --tuples-only -c 'select count(*) from t'\";"
            " pg_ctlcluster 15 main stop",
        ).strip()  # fmt: skip


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host to which the rig gave PostgreSQL, and on which its owner made a database since."""
    root = tmp_path_factory.mktemp("debian") / "root"
    subprocess.run(
        ["mmdebstrap", "--mode=root", "--variant=minbase", "--components=main", "--include=python3",
         *image._aptopts_of_controller(), "bookworm", str(root)],
        check=True, capture_output=True,
    )  # fmt: skip
    for package in ("ansible", "ansible/module_utils"):
        (root / "opt/rig" / package).mkdir(parents=True)
        (root / "opt/rig" / package / "__init__.py").touch()
    library = "ansible/module_utils/joulerig"
    shutil.copytree(ROOT / library, root / "opt/rig" / library)
    made = Host(root)
    # mmdebstrap leaves no lists of packages: the rig has to get them, however new their folder is.
    made.rig("install")
    assert not (root / "var/lib/postgresql/15").exists()
    made.run("pg_createcluster", "15", "main")
    made.run(
        "sh", "-ec", "pg_ctlcluster 15 main start;"
        ' su postgres -c "psql -c \'create table t as select generate_series(1, 100000)\'"; pg_ctlcluster 15 main stop',
    )  # fmt: skip
    yield made
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def released(host: Host) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(host.rig("release"))
    return found


def test_a_database_of_the_owners_survives_and_can_be_used(host, released):
    assert host.count() == "100000"


def test_what_stays_is_named_with_its_reason(released):
    assert released["failures"] == []
    server, others, folder = released["stays"]
    assert folder == "/etc/postgresql-common: is not empty"
    assert server == (
        "package postgresql-15: it has databases, at /etc/postgresql/15/main, /var/lib/postgresql/15/main;"
        " they are not the rig's"
    )
    assert others.endswith(": postgresql-15 needs them")


def test_the_server_does_not_count_as_no_longer_needed(host, released):
    assert "postgresql-15" in host.run("apt-mark", "showmanual").split()
    assert "postgresql-15" not in host.run("apt-get", "--simulate", "autoremove")


def test_what_the_rig_put_there_is_gone(host, released):
    assert not (host.root / CONFIGURATION[1:]).exists()


def test_once_the_database_is_gone_its_packages_go_and_the_owners_files_stay(host, released):
    host.run("pg_dropcluster", "15", "main")
    mine = host.root / "etc/postgresql-common/mine"
    mine.write_text("mine\n")
    again = json.loads(host.rig("release"))
    assert "removed package postgresql-15" in again["undone"]
    assert mine.read_text() == "mine\n"
    assert any("/etc/postgresql-common" in line for line in again["stays"])
    assert "ii  postgresql" not in host.run("dpkg", "--list")
