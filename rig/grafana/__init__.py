# SPDX-License-Identifier: GPL-3.0-or-later
"""Grafana: dashboards as code, and what provisions them on an existing Grafana by its HTTP API."""
