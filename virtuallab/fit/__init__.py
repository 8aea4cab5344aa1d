# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit a twin's profile to a measured drive: rates and watts, with residuals and a hold-out."""
