# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign's results folder: its journal, the files of its runs, and the InfluxDB queries behind them."""
