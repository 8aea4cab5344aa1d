# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the shipped lab's dashboards as JSON into a folder, to be imported by hand.

python -m joulerig.rig.grafana FOLDER
"""

import json
import sys
from pathlib import Path

from joulerig.rig.common import paths
from joulerig.rig.grafana import dashboards, provision
from joulerig.rig.lab import model


def main(folder: Path) -> None:
    """Write a file for each dashboard."""
    folder.mkdir(parents=True, exist_ok=True)
    described = provision.describe(model.load(paths.inventory()))
    for one in dashboards.all_of(described):
        (folder / f"{one.name}.json").write_text(json.dumps(one.as_json(described), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
