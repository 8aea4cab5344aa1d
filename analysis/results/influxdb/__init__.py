# SPDX-License-Identifier: GPL-3.0-or-later
"""InfluxDB: the declaration of its measurements and fields, and a client that queries it."""
