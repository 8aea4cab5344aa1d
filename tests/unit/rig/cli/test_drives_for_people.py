# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads and types: `rig drives look` and `adopt`, and a plan's word on drives."""

import json

import pytest
from typer.testing import CliRunner

from joulerig.rig.campaign import contents
from joulerig.rig.campaign.contents import Contents
from joulerig.rig.cli.drives import command as drives
from joulerig.rig.cli.plan.command import _in_words
from joulerig.rig.common.errors import UserError

IDENTITY = {"signatures": [["ntfs", "0A1B"]], "digest": None}
FOREIGN = Contents(
    device="/dev/nvme0n1", holds="ntfs 'Photos' (0A1B)", identity=IDENTITY, details=["3000 bytes used"],
    model="Model X", serial="SERIAL-A", size_bytes=1 << 30,
)  # fmt: skip
BLANK = FOREIGN.model_copy(update={"holds": "nothing", "free": "blank", "details": []})
BUSY = FOREIGN.model_copy(update={"problem": "fast: /dev/nvme0n1 is mounted at /srv"})


class Host:
    """Answers as a host whose drives hold `found`, and notes what it was asked."""

    def __init__(self, found):
        self.found, self.asked = found, []

    def ask(self, lab, asked):
        self.asked.append(asked)
        if isinstance(self.found, str):
            return dict.fromkeys(asked, self.found)
        return {host: dict.fromkeys(one["names"], self.found) for host, one in asked.items()}

    @property
    def adopted(self):
        return [one["adopt"] for asked in self.asked for one in asked.values() if "adopt" in one]


@pytest.fixture
def ask(monkeypatch, lab_files, tmp_path):
    """Return ask(FOUND, WORDS..., typed=TEXT): the host, and what the command printed."""
    monkeypatch.setenv("JOULERIG_INVENTORY", str(lab_files.write()))
    monkeypatch.setenv("JOULERIG_VAR", str(tmp_path / "var"))

    def asked(found, *words, typed=None):
        host = Host(found)
        monkeypatch.setattr(contents, "ask", host.ask)
        done = CliRunner().invoke(drives.app, list(words), input=typed)
        return host, done

    return asked


def problem(done):
    assert isinstance(done.exception, UserError), done.output
    return str(done.exception)


def test_a_look_says_what_is_there_and_whether_it_may_be_wiped(ask, capsys):
    _, done = ask(FOREIGN, "look", "bench1", "fast")
    assert "/dev/nvme0n1  Model X  serial SERIAL-A" in done.output
    assert "holds ntfs 'Photos' (0A1B)" in done.output
    assert "3000 bytes used" in done.output
    assert "is not wiped: this rig did not make what it holds" in done.output
    assert "may be wiped: blank" in ask(BLANK, "look", "bench1", "fast")[1].output
    assert "fast: /dev/nvme0n1 is mounted at /srv" in ask(BUSY, "look", "bench1", "fast")[1].output


def test_a_look_as_json(ask):
    _, done = ask(FOREIGN, "look", "bench1", "fast", "--json")
    assert json.loads(done.output)["fast"]["identity"] == IDENTITY


def test_without_a_drive_all_of_the_host_are_looked_at(ask):
    host, _ = ask(BLANK, "look", "bench1")
    assert "fast" in host.asked[0]["bench1"]["names"]
    assert len(host.asked[0]["bench1"]["names"]) > 1


def test_the_typed_serial_releases_what_was_shown(ask):
    host, done = ask(FOREIGN, "adopt", "bench1", "fast", typed="SERIAL-A\n")
    assert done.exit_code == 0, done.output
    assert "All of it will be lost. To release it, type its serial, SERIAL-A" in done.output
    assert host.adopted == [IDENTITY]
    assert "bench1/fast is adopted" in done.output


@pytest.mark.parametrize("typed", ["SERIAL-B", "serial-a", "yes", "y", "fast"])
def test_anything_else_releases_nothing(ask, typed):
    host, done = ask(FOREIGN, "adopt", "bench1", "fast", typed=typed + "\n")
    assert f"{typed!r} is not its serial; nothing was changed" in problem(done)
    assert host.adopted == []


def test_what_has_no_serial_is_released_by_its_name(ask):
    unnamed = FOREIGN.model_copy(update={"serial": None})
    host, done = ask(unnamed, "adopt", "bench1", "fast", typed="slow\n")
    assert "'slow' is not its name; nothing was changed" in problem(done)
    host, done = ask(unnamed, "adopt", "bench1", "fast", typed="fast\n")
    assert "type its name, fast" in done.output
    assert host.adopted == [IDENTITY]


def test_nothing_typed_releases_nothing(ask):
    host, done = ask(FOREIGN, "adopt", "bench1", "fast", typed="")
    assert done.exit_code != 0
    assert host.adopted == []


def test_a_script_gives_the_serial(ask):
    assert ask(FOREIGN, "adopt", "bench1", "fast", "--yes-wipe", "SERIAL-A")[0].adopted == [IDENTITY]
    host, done = ask(FOREIGN, "adopt", "bench1", "fast", "--yes-wipe", "SERIAL-B")
    assert "'SERIAL-B' is not its serial" in problem(done)
    assert host.adopted == []


def test_a_drive_that_may_be_wiped_already_needs_no_word(ask):
    host, done = ask(BLANK, "adopt", "bench1", "fast")
    assert "may be wiped already: blank" in done.output
    assert host.adopted == []


def test_a_drive_in_use_is_not_adopted(ask):
    host, done = ask(BUSY, "adopt", "bench1", "fast", "--yes-wipe", "SERIAL-A")
    assert problem(done) == "fast: /dev/nvme0n1 is mounted at /srv"
    assert host.adopted == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("bench9", "fast"), "'bench9' is not a test host; allowed: bench1"),
        (("bench1", "fats"), "'fats' is not a drive or array of bench1; allowed: "),
    ],
)
def test_a_wrong_name(ask, words, expected):
    for command in ("look", "adopt"):
        assert problem(ask(BLANK, command, *words)[1]).startswith(expected)


def test_a_host_that_does_not_answer(ask):
    assert problem(ask("ssh: no route", "look", "bench1", "fast")[1]) == "bench1: ssh: no route"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (BLANK, "/dev/nvme0n1 Model X holds nothing (blank)"),
        (FOREIGN, "holds ntfs 'Photos' (0A1B): refused until 'rig drives adopt bench1 fast' releases it"),
        (BUSY, "refused: fast: /dev/nvme0n1 is mounted at /srv"),
        ("ssh: no route", "could not be asked: ssh: no route"),
        (None, "could not be asked: no answer"),
    ],
)
def test_a_plan_says_what_is_on_each_drive(found, expected):
    assert expected in _in_words("bench1", "fast", found)
