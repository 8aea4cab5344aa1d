# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that a host executes on its own once they have begun, and whose outcome waits there.

    controller ── module call ── calls.attend ──begins──> a transient unit: child.main
                                       │                        │ the module's work
                                       └──── waits for ────> outcome.json

A broken connection ends the module call that waits and nothing else. The same call, made again by
this controller or another one, finds the unit or its outcome by the call's name.
"""
