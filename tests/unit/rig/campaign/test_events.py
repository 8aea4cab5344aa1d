# SPDX-License-Identifier: GPL-3.0-or-later
"""Events of a playbook: written by its plugins, read once each by the command line."""

from joulerig.rig.campaign import events


def test_what_a_plugin_notes_is_read_once(tmp_path, monkeypatch):
    path = tmp_path / "campaign.events"
    monkeypatch.setenv(events.ENVIRONMENT, str(path))
    new = events.follow(path)
    assert next(new) == [], "before there is a file"
    events.write(events.NOTE, text="building a kernel")
    assert next(new) == [{"event": "note", "text": "building a kernel"}]
    assert next(new) == []
    with path.open("a") as file:
        file.write('{"event": "note", "te')
    assert next(new) == []
    with path.open("a") as file:
        file.write('xt": "half a line"}\n')
    assert next(new) == [{"event": "note", "text": "half a line"}]


def test_a_plain_ansible_playbook_writes_none(tmp_path, monkeypatch):
    monkeypatch.delenv(events.ENVIRONMENT, raising=False)
    monkeypatch.chdir(tmp_path)
    events.write(events.NOTE, text="nothing")
    assert list(tmp_path.iterdir()) == []
