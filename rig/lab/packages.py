# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the Debian packages that test hosts need, each declared by what needs it."""

from __future__ import annotations

from joulerig.rig.lab import applications, filesystems, programs
from joulerig.rig.lab.model import Lab


def for_filesystems(lab: Lab) -> list[str]:
    """Return the packages that provisioning installs for the lab's file systems and arrays.

    Raises UserError.
    """
    arrays = [array for host in lab.hosts.values() for array in host.arrays.values()]
    of_arrays = {package for array in arrays for package in array.packages}
    return sorted({*filesystems.packages(filesystems.load(lab)), *of_arrays})


def for_guests(lab: Lab) -> list[str]:
    """Return the packages of the virtual hosts' image beyond the basic ones. Raises UserError.

    A virtual host has no network to get them from, so they come with the image that the hosts
    share.
    """
    of_programs = programs.packages(programs.load(lab))
    of_applications = applications.packages(applications.load(lab))
    return sorted({*for_filesystems(lab), *of_programs, *of_applications, *lab.guest_packages})
