# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller: command line, lab model, campaign engine and its journal, virtual lab, dashboard."""
