# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of every error that Joulerig raises deliberately."""

from __future__ import annotations

# Errors that data of an unexpected form raise in a reader.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class JoulerigError(Exception):
    """Report what a user can correct, or data that cannot be read. Its text is one line."""
