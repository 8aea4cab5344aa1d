# SPDX-License-Identifier: GPL-3.0-or-later
"""After a release a host is what it was before `rig up`, whatever ran on it in between.

The last of the lab's tests (conftest.py): the host has to be provisioned again after it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.host_picture import OWN_MODULES, differences, left_behind, take_picture
from tests.support.lab_driver import Lab, takes_minutes

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1500), takes_minutes]

TRIM = "fstrim.timer"

# A package with a dependency and a configuration file, which takes the place of another: a virtual
# host has no network to get one from.
REPOSITORY = """set -e
build() { mkdir -p /root/repo/$1/DEBIAN
  (printf 'Package: %s\\nVersion: 1\\nArchitecture: all\\nMaintainer: x\\nDescription: x\\n' $1
   cat) >/root/repo/$1/DEBIAN/control
  dpkg-deb --root-owner-group --build /root/repo/$1 /root/repo/$1.deb >/dev/null
  (dpkg-deb -f /root/repo/$1.deb
   printf 'Filename: ./%s.deb\\nSize: %s\\n' $1 $(stat -c %s /root/repo/$1.deb)
   printf 'SHA256: %s\\n\\n' $(sha256sum /root/repo/$1.deb | cut -d' ' -f1)) >>/root/repo/Packages; }
mkdir -p /root/repo/jr-tool/etc
echo x >/root/repo/jr-tool/etc/jr-tool.conf
build jr-former </dev/null
build jr-library </dev/null
printf 'Depends: jr-library\\nConflicts: jr-former\\n' | build jr-tool
dpkg --install /root/repo/jr-former.deb >/dev/null
echo 'deb [trusted=yes] file:/root/repo ./' >/etc/apt/sources.list.d/test.list
apt-get --quiet=2 --option=Dir::Etc::SourceList=/etc/apt/sources.list.d/test.list \
  --option=Dir::Etc::SourceParts=- --option=APT::Get::List-Cleanup=0 update"""
REMOVED = "dpkg --purge jr-former >/dev/null && rm -r /root/repo /etc/apt/sources.list.d/test.list"
CAMPAIGN = {"state": "begin", "campaign": "test:/none", "units": [TRIM]}
LOOK = f"systemctl show --property=UnitFileState,ActiveState {TRIM}"
EXPIRE = """echo 0 >/run/joulerig/quiet/until && systemctl restart joulerig-quiet.service
while systemctl is-active --quiet joulerig-quiet.service; do sleep 0.2; done
"""
LEFT = "; systemctl list-units --all --no-legend 'joulerig*'"
# One playbook for all: on a slow host each takes seconds to start. What was seen goes to a file.
PLAYBOOK = """
- name: Mask units for a campaign, and install a package
  hosts: test_hosts
  gather_facts: false
  tasks:
    - ansible.builtin.slurp: {src: /var/lib/joulerig/quiet.json}
      register: earlier
      failed_when: false
    - joulerig_quiet: {state: end, campaign: "{{ item }}"}
      loop: "{{ (earlier.content | b64decode | from_json).campaigns if 'content' in earlier else [] }}"
    - ansible.builtin.command: LOOK
      register: at_first
    - joulerig_quiet: CAMPAIGN
    - ansible.builtin.command: LOOK
      register: masked
    - ansible.builtin.shell: EXPIRE
      register: expired
    - joulerig_quiet: CAMPAIGN
    - joulerig_quiet: {state: end, campaign: "test:/none"}
    - ansible.builtin.shell: LEFT
      register: ended
    - ansible.builtin.import_role: {name: packages}
      vars: {packages_wanted: [jr-tool], packages_filesystems: [], packages_refresh: false}
    - ansible.builtin.copy:
        content: "{{ [at_first.stdout, masked.stdout, expired.stdout, ended.stdout] | to_json }}"
        dest: SEEN
        mode: "0644"
      delegate_to: localhost
"""


@pytest.fixture(scope="module")
def released(lab: Lab) -> dict[str, Any]:
    """Install a package too, and give the host back."""
    lab.ssh(REPOSITORY)
    playbook, seen = lab.folder / "between.yml", lab.folder / "seen.json"
    names = {
        "LOOK": LOOK,
        "EXPIRE": EXPIRE + LOOK,
        "LEFT": LOOK + LEFT,
        "SEEN": str(seen),
        "CAMPAIGN": CAMPAIGN,
    }
    text = PLAYBOOK
    for name, value in names.items():
        text = text.replace(f" {name}\n", f" {json.dumps(value)}\n")
    playbook.write_text(text)
    done = lab.ansible(playbook)
    assert done.returncode == 0, done.stdout
    provisioned = take_picture(lab)
    assert "jr-tool" in provisioned["packages"]
    assert "jr-former" not in provisioned["packages"]
    done = lab.rig("hosts", "release", "vhost1", "--packages")
    assert done.returncode == 0, done.stdout + done.stderr
    former = lab.ssh("dpkg-query --show --showformat='${db:Status-Status}' jr-former")
    lab.ssh(REMOVED)
    return {
        "output": done.stdout,
        "provisioned": provisioned,
        "after": take_picture(lab),
        "former": former,
        "trim": json.loads(seen.read_text()),
    }


ON = ["ActiveState=active", "UnitFileState=enabled"]
OFF = ["ActiveState=inactive", "UnitFileState=masked-runtime"]


def test_background_units_come_back_by_the_host_alone_and_at_a_campaigns_end(released):
    at_first, masked, expired, ended = (sorted(text.split()) for text in released["trim"])
    assert (at_first, masked) == (ON, OFF)
    assert expired == ON
    assert ended == ON  # and no unit joulerig-quiet.service


def test_provisioning_changed_the_host(lab: Lab, released):
    changed = differences(lab.picture, released["provisioned"])
    for name in ("etc /etc/joulerig/iod.json", "etc /etc/chrony/chrony.conf", "unit files iod.service"):
        assert name in changed
    assert "packages jr-tool" in changed


def test_a_released_host_is_as_before_it_was_provisioned(lab: Lab, released):
    found = left_behind(lab.picture, released["after"])
    # Outcomes of runs that no controller has stay: an earlier test may have such a run.
    kept = [name for name in found if name.startswith("files /var/lib/joulerig/calls")]
    for name in [*kept, "files /var/lib/joulerig"] if kept else []:
        found.pop(name)
    assert found == {}


def test_no_module_is_gone_and_those_that_stay_are_not_the_rigs(lab: Lab, released):
    after = set(released["after"]["modules"])
    assert set(lab.picture["modules"]) <= after
    assert not OWN_MODULES & after


def test_what_was_undone_is_shown(released):
    output = released["output"]
    for line in (
        "vhost1: stopped and disabled iod.service",
        "vhost1: removed /etc/joulerig/iod.json",
        "vhost1: restored /etc/chrony/chrony.conf",
        "vhost1: restarted chrony.service",
        "vhost1: removed package jr-tool",
        "vhost1: removed package jr-library",
        "vhost1: installed package jr-former",
    ):
        assert line in output.splitlines()


def test_a_package_that_had_to_make_room_is_back(released):
    assert released["former"] == "installed"


def test_a_second_release_changes_nothing(lab: Lab, released):
    done = lab.rig("hosts", "release", "vhost1", "--packages")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "vhost1: nothing to give back: there is no record of changes\n"
    found = differences(released["after"], take_picture(lab))
    assert {name: pair for name, pair in found.items() if not name.startswith("active units ")} == {}
