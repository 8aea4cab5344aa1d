# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes on the controller: InfluxDB, powerd and the dashboard, under supervisord."""
