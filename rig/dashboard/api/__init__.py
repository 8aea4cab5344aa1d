# SPDX-License-Identifier: GPL-3.0-or-later
"""What pages fetch as JSON: what changes slowly, or is asked for now and then."""
