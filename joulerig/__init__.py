# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy-aware storage testing: a hardware-in-the-loop rig that measures work per joule.

The sub-packages are folders of the repository's top level, linked here: `joulerig.analysis` (energy,
statistics, reports), `joulerig.rig` (the controller) and `joulerig.virtuallab` (hosts and drives without
hardware).
"""

from joulerig.errors import JoulerigError

__all__ = ["JoulerigError"]
__version__ = "0.1.0"
