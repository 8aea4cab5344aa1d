# SPDX-License-Identifier: GPL-3.0-or-later
"""The applications of power cuts: what is shipped, what a lab adds, and what the programs print."""

from __future__ import annotations

import subprocess

import pytest

from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import applications

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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("queue-async", "sqlite"), "applications.sqlite: is a shipped application"),
        (("command: [python3, queue.py]", "command: []"), "command"),
        (("packages", "package"), "unknown key 'package'; did you mean 'packages'"),
    ],
)
def test_what_cannot_be_one_is_refused_in_one_line(own, change, words):
    with pytest.raises(UserError, match=words) as refused:
        own(QUEUE.replace(*change))
    assert "\n" not in str(refused.value)


def test_the_reference_lists_every_shipped_one_and_every_key():
    text = applications.reference()
    for name in [*applications.shipped(), "command", "packages", "applications.options"]:
        assert f"`{name}`" in text


def transact(name, folder, answers):
    """Run a shipped application that is given so many answers; return the lines that it prints."""
    command = [*applications.shipped()[name].command(here=True), "run", str(folder), "7"]
    done = subprocess.run(command, input="ok\n" * answers, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def found_in(name, folder):
    command = [*applications.shipped()[name].command(here=True), "check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines(), done.returncode


@pytest.mark.parametrize("name", applications.shipped())
def test_a_shipped_one_keeps_the_contract_and_finds_what_it_committed(name, tmp_path):
    lines = transact(name, tmp_path, 40)  # the 41st line has no answer
    assert len(lines) == 41
    assert lines[::2] == [f"begin {number}" for number in range(1, 22)]
    ends = [line.split() for line in lines[1::2]]
    assert {word for word, _ in ends} == {"commit", "rollback"}
    assert [int(number) for _, number in ends] == list(range(1, 21))
    committed = [f"found {number}" for word, number in ends if word == "commit"]
    assert found_in(name, tmp_path) == (committed, 0)


@pytest.mark.parametrize("name", ["sqlite", "toystore"])
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


@pytest.mark.parametrize(("name", "file"), [("toystore", "head"), ("sqlite", "store.db")])
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


def test_a_rolled_back_transaction_that_is_counted_is_found(tmp_path):
    answers = 1
    while not transact("toystore-late-undo", tmp_path, answers)[-1].startswith("rollback"):
        answers += 2
        for file in tmp_path.iterdir():
            file.unlink()
    lines = transact("toystore-late-undo", tmp_path, answers)
    undone = int(lines[-1].split()[1])
    assert f"found {undone}" in found_in("toystore-late-undo", tmp_path)[0]
