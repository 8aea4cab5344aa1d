# SPDX-License-Identifier: GPL-3.0-or-later
"""Capturers: processes that read instruments for which libsigrok has no driver.

Each is started by powerd in place of srcap and writes srcap's frames
(docs/reference/protocols/capturers.md). One module an instrument, named as its driver; `capture`
runs any of them, and `frames` is where frames are written.
"""
