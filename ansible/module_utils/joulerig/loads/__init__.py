# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the load of a workload: fio, flowop or an external program."""
