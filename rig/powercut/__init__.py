# SPDX-License-Identifier: GPL-3.0-or-later
"""Power cuts: the controller witnesses what a drive promises, cuts its power, and has it checked."""
