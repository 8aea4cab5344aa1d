# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution of a host's runs in lanes: a thread for each drive."""
