# SPDX-License-Identifier: GPL-3.0-or-later
"""A campaign: its definition, plan and journal, and the engine that executes it."""
