# SPDX-License-Identifier: GPL-3.0-or-later
"""How Ansible serves test hosts: how many at once, and with what a module call costs."""

import json
import os
import subprocess
import sys

import pytest

from joulerig.rig.common import paths


@pytest.fixture(scope="module")
def settings():
    program = os.path.join(os.path.dirname(sys.executable), "ansible-config")
    done = subprocess.run(
        [program, "dump", "--format", "json", "--only-changed"],
        env={**os.environ, "ANSIBLE_CONFIG": str(paths.share() / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=True,
    )
    return {one.get("name"): one.get("value") for one in json.loads(done.stdout)}


def test_a_campaign_runs_on_fifty_hosts_at_once(settings):
    # joulerig_campaign is one task a host for the whole campaign: a host beyond the forks would
    # begin only when another has ended, days later.
    assert settings["DEFAULT_FORKS"] >= 50


def test_a_module_is_sent_with_its_command_whatever_the_connection(settings):
    # Else a run takes two more commands, and a file on the host. Not of SSH alone: a test host can
    # be the controller.
    assert settings["ANSIBLE_PIPELINING"] is True
