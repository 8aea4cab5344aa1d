# SPDX-License-Identifier: GPL-3.0-or-later
"""The live dashboard: a page that shows a running campaign, from InfluxDB and the journal."""

VERSION = 1  # of the frames and messages between server and page
