# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the page of every study into a folder: `python -m joulerig.analysis.studies FOLDER`."""

from __future__ import annotations

import argparse
from pathlib import Path

from joulerig.analysis import studies

parser = argparse.ArgumentParser(prog="python -m joulerig.analysis.studies", description=__doc__)
parser.add_argument("folder", type=Path, help="for example docs/studies")
for path in studies.write_pages(parser.parse_args().folder):
    print(path)
