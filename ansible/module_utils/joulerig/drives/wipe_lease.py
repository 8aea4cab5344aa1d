# SPDX-License-Identifier: GPL-3.0-or-later
"""The wipe lease: the only way to a destructive step.

A Lease is given for one drive and one boot after every check passed; mkfs and the like take a
Lease, which checks all of it again as they begin.
"""

from ansible.module_utils.joulerig.drives.host import Host
from ansible.module_utils.joulerig.drives.identity import check_array, find
from ansible.module_utils.joulerig.drives.usage import check_unused
from ansible.module_utils.joulerig.tools import Refused


class Lease:
    """Permission to destroy the content of one device, bound to its identity and to this boot.

    `identify` gives the device's kernel name, or raises Refused. Made by `lease` and `lease_array`.
    """

    def __init__(self, what, identify, host):
        self._what, self._identify, self._host = what, identify, host
        self._name = identify()
        check_unused(what, self._name, host)
        self._boot_and_number = self._now()

    def _now(self):
        host = self._host
        return (
            host.read(f"{host.proc}/sys/kernel/random/boot_id"),
            host.read(f"{host.sys}/block/{self._name}/dev"),
        )

    def device(self):
        """Return the device's path after repeating every check. Raises Refused."""
        boot_id, number = self._boot_and_number
        if self._now()[0] != boot_id:
            raise Refused(f"{self._what}: the host has been rebooted since the wipe lease was given")
        if self._identify() != self._name or self._now()[1] != number:
            raise Refused(f"{self._what}: /dev/{self._name} is not the device the wipe lease was given for")
        check_unused(self._what, self._name, self._host)
        return f"{self._host.dev}/{self._name}"


def lease_drive(spec, host=None):
    """Return a wipe lease for the declared drive `spec`.

    Raises Refused, and nothing is touched.
    """
    host = host or Host()
    return Lease(spec["name"], lambda: find(spec, host), host)


def lease_array(name, members, host=None):
    """Return a wipe lease for an md array made of exactly the declared drives `members`.

    Raises Refused, and nothing is touched.
    """
    host = host or Host()
    return Lease(name, lambda: check_array(name, members, host), host)
