# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs on a test host inside a module call: standard library only, no shell."""
