# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the reference page of InfluxDB's schema into the file given as argument."""

import sys
from pathlib import Path

from joulerig.analysis.results.influxdb.schema import reference_page

Path(sys.argv[1]).write_text(reference_page())
