# SPDX-License-Identifier: GPL-3.0-or-later
"""What a campaign will take, by what earlier runs of the like took: time, wear, energy, spread."""
