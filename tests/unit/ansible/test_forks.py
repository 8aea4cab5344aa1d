# SPDX-License-Identifier: GPL-3.0-or-later
"""How many test hosts Ansible serves at once."""

import json
import os
import subprocess
import sys

from joulerig.rig.common import paths


def test_a_campaign_runs_on_fifty_hosts_at_once():
    # joulerig_campaign is one task a host for the whole campaign: a host beyond the forks would
    # begin only when another has ended, days later.
    program = os.path.join(os.path.dirname(sys.executable), "ansible-config")
    done = subprocess.run(
        [program, "dump", "--format", "json", "--only-changed"],
        env={**os.environ, "ANSIBLE_CONFIG": str(paths.share() / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=True,
    )
    settings = {one.get("name"): one.get("value") for one in json.loads(done.stdout)}
    assert settings["DEFAULT_FORKS"] >= 50
