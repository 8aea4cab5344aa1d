# SPDX-License-Identifier: GPL-3.0-or-later
"""The applications of power cuts: what is shipped, what a lab adds, and what the programs print."""

from __future__ import annotations

import subprocess

import pytest

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import applications, model, packages, programs
from joulerig.virtuallab import image
from tests.support.application_script import check_contract, found_in, transact
from tests.support.set_up import set_up_packages

# A server's user has to reach its folder: tests/integration/workloads/test_postgresql.py.
IN_A_PRIVATE_FOLDER = [name for name in applications.shipped() if not name.startswith("postgresql")]
QUEUE = """\
packages: [python3]
command: [python3, queue.py]
applications:
  queue: {}
  queue-async: { description: asynchronous, options: [--async, queue.py] }
"""


@pytest.fixture
def own(lab_files):
    """own(TEXT): the lab's applications, with `queue` added."""
    lab = lab_files.load()
    folder = lab.folder / "applications" / "queue"
    folder.mkdir(parents=True)
    (folder / "queue.py").write_text("")

    def loaded(text=QUEUE):
        (folder / "application.yml").write_text(text)
        return applications.load(lab)

    return loaded


def test_a_lab_adds_its_own(own):
    found = own()
    assert {"queue", "queue-async", "sqlite", "toystore"} <= found.keys()
    assert found["queue-async"].description == "asynchronous"
    assert found["queue"].definition.packages == ["python3"]


def test_a_word_that_names_a_file_is_that_file_here_and_on_the_host(own):
    one = own()["queue-async"]
    there = "/usr/local/share/joulerig/applications/queue/queue.py"
    assert one.command() == ["python3", there, "--async", there]
    assert one.command(here=True)[1] == str(one.directory / "queue.py")
    assert one.files() == {
        one.directory / "queue.py": there,
        applications.COMMON_CODE: "/usr/local/share/joulerig/applications/contract.py",
    }


def test_modules_that_programs_share_are_where_those_are_on_the_host(own):
    one = own(QUEUE.replace("command", "modules: [program.py]\ncommand"))["queue"]
    there = "/usr/local/share/joulerig/programs/program.py"
    assert one.files()[programs.COMMON_CODE] == there
    assert one.command() == ["python3", "/usr/local/share/joulerig/applications/queue/queue.py"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ("command", "modules: [progam.py]\ncommand"),
            "modules: 'progam.py' is unknown; nearest is 'program.py'",
        ),
        (("queue-async", "sqlite"), "applications.sqlite: is a shipped application"),
        (("command: [python3, queue.py]", "command: []"), "command"),
        (("packages", "package"), "unknown key 'package'; did you mean 'packages'"),
    ],
)
def test_what_cannot_be_one_is_refused_in_one_line(own, change, words):
    with pytest.raises(UserError, match=words) as refused:
        own(QUEUE.replace(*change))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", applications.shipped())
def test_set_up_and_the_image_of_guests_have_the_packages(name):
    needed = set(applications.packages({name: applications.shipped()[name]}))
    of_guests = packages.for_guests(model.load(paths.ROOT / "inventory.ini"))
    assert needed <= set_up_packages()
    assert needed <= {*image.PACKAGES, *of_guests}


def test_the_reference_lists_every_shipped_one_and_every_key():
    text = applications.reference()
    for name in [*applications.shipped(), "command", "packages", "applications.options"]:
        assert f"`{name}`" in text


@pytest.mark.parametrize("name", IN_A_PRIVATE_FOLDER)
def test_a_shipped_one_keeps_the_contract_and_finds_what_it_committed(name, tmp_path):
    check_contract(name, tmp_path)


@pytest.mark.parametrize("name", ["lmdb", "postgresql", "sqlite", "toystore"])
def test_a_store_that_was_never_made_is_empty(name, tmp_path):
    assert found_in(name, tmp_path) == ([], 0)


def test_the_toy_store_finds_its_damaged_record(tmp_path):
    lines = transact("toystore", tmp_path, 12)
    commits = [int(line.split()[1]) for line in lines if line.startswith("commit")]
    log = tmp_path / "log"
    log.write_bytes(log.read_bytes()[:-10])  # of the last one that is counted
    found, _ = found_in("toystore", tmp_path)
    assert found == [*(f"found {number}" for number in commits[:-1]), f"torn {commits[-1]}"]


def test_a_number_that_is_damage_is_not_taken_for_one(tmp_path):
    transact("toystore", tmp_path, 12)
    log = tmp_path / "log"
    log.write_bytes(b"\xde" * 8 + log.read_bytes()[8:])  # the number in the first record
    assert found_in("toystore", tmp_path) == (["torn 1"], 0)


def test_the_toy_store_without_its_log_has_torn_its_first(tmp_path):
    transact("toystore", tmp_path, 12)
    (tmp_path / "log").write_bytes(b"")
    assert found_in("toystore", tmp_path) == (["torn 1"], 0)


@pytest.mark.parametrize(
    ("name", "file"), [("lmdb", "data.mdb"), ("toystore", "head"), ("sqlite", "store.db")]
)
def test_a_damaged_store_cannot_be_read(name, file, tmp_path):
    transact(name, tmp_path, 12)
    (tmp_path / file).write_bytes(b"damaged" * 1000)
    found, code = found_in(name, tmp_path)
    assert (found, code) == ([], 1)


def test_what_a_transaction_in_sqlite_lacks_is_torn(tmp_path):
    import sqlite3

    lines = transact("sqlite", tmp_path, 12)
    last = max(int(line.split()[1]) for line in lines if line.startswith("commit"))
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("UPDATE pair SET value = x'00' WHERE number = ? AND key = 0", (last,))
    assert f"torn {last}" in found_in("sqlite", tmp_path)[0]


def test_what_a_transaction_in_lmdb_lacks_is_torn(tmp_path):
    lines = transact("lmdb", tmp_path, 12)
    last = max(int(line.split()[1]) for line in lines if line.startswith("commit"))
    damage = f"""\
import lmdb
with lmdb.open({str(tmp_path)!r}) as store, store.begin(write=True) as transaction:
    transaction.put(b"{last:08d} 0", b"x")
"""
    subprocess.run(["/usr/bin/python3", "-c", damage], check=True)
    assert f"torn {last}" in found_in("lmdb", tmp_path)[0]


def test_a_rolled_back_transaction_that_is_counted_is_found(tmp_path):
    answers = 1
    while not transact("toystore-late-undo", tmp_path, answers)[-1].startswith("rollback"):
        answers += 2
        for file in tmp_path.iterdir():
            file.unlink()
    lines = transact("toystore-late-undo", tmp_path, answers)
    undone = int(lines[-1].split()[1])
    assert f"found {undone}" in found_in("toystore-late-undo", tmp_path)[0]
