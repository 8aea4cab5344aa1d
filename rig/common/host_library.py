# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the library of test hosts on the controller, whose rules are not written twice."""

from __future__ import annotations

import ansible.module_utils
from joulerig.rig.common import paths


def find() -> None:
    """Let `ansible.module_utils.joulerig` be imported, as ansible.cfg does for Ansible."""
    folder = str(paths.share() / "ansible" / "module_utils")
    if folder not in ansible.module_utils.__path__:
        ansible.module_utils.__path__.append(folder)
