# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether cells rank alike when more joules than those of the drives under load are counted."""
