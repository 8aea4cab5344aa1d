# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian packages that test hosts need for what the lab can name, each declared by what needs it."""

from __future__ import annotations

from joulerig.rig.lab import filesystems, programs
from joulerig.rig.lab.model import Lab


def for_filesystems(lab: Lab) -> list[str]:
    """Return the packages that provisioning installs for the lab's file systems. Raises UserError."""
    return filesystems.packages(filesystems.load(lab))


def for_guests(lab: Lab) -> list[str]:
    """Return the packages that the image of virtual hosts has beyond the basic ones. Raises UserError.

    A virtual host has no network to get them from, so they come with the image that the hosts
    share.
    """
    return sorted({*for_filesystems(lab), *programs.packages(programs.load(lab)), *lab.guest_packages})
