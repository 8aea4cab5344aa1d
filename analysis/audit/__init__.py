# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what a drive reports of its power by the rails that fed it.

`readings` has what a drive reported in a run, `rails` what its rails took meanwhile, `checks` and
`findings` compare the two, and `verdict` says what follows for the drive.
"""
