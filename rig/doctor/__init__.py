# SPDX-License-Identifier: GPL-3.0-or-later
"""Look for what keeps a lab from measuring: in its inventory, hosts, controller and meters.

A check is a function that takes facts and yields findings. Nothing is changed.
"""
