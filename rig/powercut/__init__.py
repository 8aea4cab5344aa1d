# SPDX-License-Identifier: GPL-3.0-or-later
"""Cut a drive's power, witness what it acknowledges, and have it checked afterwards."""
