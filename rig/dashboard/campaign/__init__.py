# SPDX-License-Identifier: GPL-3.0-or-later
"""What a page gets of a campaign: from its journal, read-only."""
