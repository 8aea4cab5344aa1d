# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that had no controller to go to any more.

They are kept on this host until the run is taken up again.
"""

import json
import os

from ansible.module_utils.joulerig import tools

FOLDER = "/var/lib/joulerig/lost"


def keep(run, result, folder=FOLDER):
    """Keep the result of `run`, whole or not at all, in place of an earlier attempt's."""
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, f".{run}")
    with open(part, "w") as file:
        json.dump({**result, "status": tools.LOST}, file)
    os.replace(part, os.path.join(folder, f"{run}.json"))


def take(run, folder=FOLDER):
    """Return what was kept of `run` and remove it here; None where nothing was kept."""
    path = os.path.join(folder, f"{run}.json")
    try:
        with open(path) as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        found = {"status": tools.LOST, "reason": f"{path} cannot be read"}
    os.unlink(path)
    return found
