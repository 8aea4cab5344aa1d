# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays of drives as block devices, a module a kind: md, LVM, dm-crypt.

Each has `check` (raises Unable where the host lacks it), `device` (the path that its tool makes),
`difference` (from what is asked, or ""), `create` (of leased drives; each gets an identifier of 32
hexadecimal digits, of md all get the first), `start` (what is there, but not in use), `stop` and
`unmark` (a member).
"""
