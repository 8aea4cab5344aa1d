# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test host is, and how it is set: read from the kernel's files, changing nothing."""
