# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks as processes: how they end, and why."""

import pytest

from joulerig.rig.campaign import playbook


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("echo working; kill -KILL $$", -9, "ansible-playbook was ended by SIGKILL"),
        ("echo working; exit 2", 2, "working"),
    ],
)
def test_what_ended_a_playbook_is_said(tmp_path, monkeypatch, script, code, reason):
    monkeypatch.setattr(playbook, "_command", lambda *_: ["sh", "-c", script])
    log = tmp_path / "campaign.log"
    assert playbook.ansible(tmp_path / "any.yml", tmp_path / "inventory.ini", log=log) == code
    assert playbook.failure(log) == reason
