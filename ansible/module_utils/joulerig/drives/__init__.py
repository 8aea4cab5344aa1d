# SPDX-License-Identifier: GPL-3.0-or-later
"""Find, check and prepare the drives of a test host, and the file systems on them."""
