# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a drive, or a file system on it, kept its promises over power cuts.

Pure: a log of what was promised (`witness_log`) and a survey of what is there after the cut
(`survey`) make a cut's findings (`sectors`, `names`, put together by `check`); findings of many
cuts make a verdict (`verdict`) with what it bounds (`confidence`).
"""
