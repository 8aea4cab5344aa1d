# SPDX-License-Identifier: GPL-3.0-or-later
"""Say what happens to campaigns where people read it: webhooks.

The dashboard's process does it, since it runs when a campaign's controller has been killed.
"""
