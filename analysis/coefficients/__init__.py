# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive's idle time, bytes, requests and flushes cost in joules, for use elsewhere.

`design` takes rows from runs, `fit` solves them, `estimates` judges which coefficients the data
bear, `document` writes them as JSON with a schema, and `converters` in other programs' formats.
"""
