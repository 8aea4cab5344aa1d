# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a campaign's results: its journal, its runs' files, and the InfluxDB queries behind them."""

from joulerig.analysis.results.campaign import Campaign, ResultsError, Run, load

__all__ = ["Campaign", "ResultsError", "Run", "load"]
