# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether two methods that measured the same energy agree."""
