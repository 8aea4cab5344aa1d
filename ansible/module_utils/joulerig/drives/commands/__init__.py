# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that only the drive itself can answer, by the kind of drive that knows them."""
