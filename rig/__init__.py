# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller: command line, lab model, campaigns, virtual lab, dashboard."""
