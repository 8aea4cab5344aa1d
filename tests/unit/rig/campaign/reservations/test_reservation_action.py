# SPDX-License-Identifier: GPL-3.0-or-later
"""The action by which a campaign reserves a host: one that is off is for its executor to start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign.journal import Journal
from tests.support import ansible_actions
from tests.support.planned_runs import CAMPAIGN, row


@pytest.fixture
def reserve(tmp_path, monkeypatch) -> Any:
    """reserve(REPLY) executes the action for a campaign; an error is raised by the connection."""
    Journal.create(tmp_path / "c", CAMPAIGN, [row(1)]).close()
    kind = ansible_actions.load("joulerig_reservation").ActionModule
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})

    def execute(reply: Any) -> dict[str, Any]:
        action = kind.__new__(kind)
        action._task = SimpleNamespace(args={"state": "reserve", "folder": str(tmp_path / "c")})

        def call(**asked: Any) -> Any:
            if isinstance(reply, Exception):
                raise reply
            return reply

        action._execute_module = call
        return dict(action.run(None, {"inventory_hostname": "bench1"}))

    return execute


def test_a_host_that_cannot_be_reached_is_passed_over(reserve):
    done = reserve(AnsibleConnectionFailure("ssh: connection timed out"))
    assert done == {"changed": False, "msg": "could not be asked: ssh: connection timed out"}


def test_a_host_that_refuses_fails_the_task(reserve):
    with pytest.raises(AnsibleActionFail, match="is reserved by bob@lab2"):
        reserve({"now": 1.0, "held": [], "refused": "bench1: is reserved by bob@lab2"})
