# SPDX-License-Identifier: GPL-3.0-or-later
"""The live dashboard: one page that shows a campaign while it runs, from InfluxDB and the journal."""

VERSION = 1  # of the frames and messages between server and page
