# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run's factors set on its host and drives, and how power was managed meanwhile."""
