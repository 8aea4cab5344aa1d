# SPDX-License-Identifier: GPL-3.0-or-later
"""Each reply of a power tap to a native command is a value of it, or one line."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

import pytest

from joulerig.rig.common import bounded
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab.meters import tap
from joulerig.rig.lab.model import Lab, Rail
from tests.support import hostile_text

REPLIES = {
    **hostile_text.NAMES, "long": "9" * 4000, "empty": "", "numbers": "1,2,3,4,5,6", "not finite": "DONE,nan,inf",
    "exponent": "DONE,1e9999", "other digits": "\u0663",
}  # fmt: skip


class Peer:
    """A server that gives one reply to each line."""

    def __init__(self) -> None:
        self.reply = b""
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection, contextlib.suppress(OSError):
                while connection.recv(4096):
                    connection.sendall(self.reply)


@pytest.fixture(scope="module")
def peer() -> Peer:
    return Peer()


@pytest.fixture
def lab(lab_files, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(tap, "ANSWER_SECONDS", 0.2)
    lab_files.controller["meters"]["tap1"]["connection"] = f"tcp-raw/127.0.0.1/{peer.port}"
    return lab_files.load()


def refusal(act: Callable[[Lab, Rail], object], lab: Lab) -> str:
    """Return why it is refused; empty where it is not."""
    try:
        act(lab, lab.hosts["bench1"].drives["fast"].rails["12v"])
    except UserError as error:
        text = str(error)
        assert text == bounded.one_line(text, 10_000)
        return text
    return ""


def switch_on(lab: Lab, rail: Rail) -> int:
    return tap.switch(lab, rail, True)


@pytest.mark.parametrize("kind", REPLIES)
@pytest.mark.parametrize("identity", ["", "a,b,x-A,"])
def test_a_reply_is_a_value_or_one_line(lab: Lab, peer: Peer, kind: str, identity: str) -> None:
    peer.reply = f"{identity}{REPLIES[kind]};0,none\n".encode()
    assert refusal(switch_on, lab)
    assert refusal(tap.hold_up, lab)
    refusal(tap.is_on, lab)


@pytest.mark.parametrize("reply", ["1", "DONE,x", "DONE,1.2.3", "DONE,nan", "-1", "9" * 30, "\u0663"])
@pytest.mark.parametrize("act", [tap.hold_up, switch_on])
def test_what_is_no_hold_up_and_no_sample_is_refused(lab: Lab, monkeypatch, act, reply: str) -> None:
    def query(self: tap.TapPort, command: str) -> str:
        return "a,b,x-A" if "IDN" in command else "1" if command.endswith("1?") else reply

    monkeypatch.setattr(tap.TapPort, "query", query)
    if act is switch_on and reply == "1":
        assert refusal(act, lab) == ""  # it is a sample's number
    else:
        assert "is no " in refusal(act, lab)


def test_a_reply_without_an_end_is_not_read_for_ever(lab: Lab, peer: Peer) -> None:
    peer.reply = b"x" * 10_000
    assert "over 4096 bytes without an end" in refusal(tap.is_on, lab)
