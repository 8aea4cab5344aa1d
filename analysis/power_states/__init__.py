# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether drives obey: what they declare of their power states, judged by their rails.

`declared`: what a drive says of its states. `course`: rests found in a trace of power.
`measured`: what the runs of a setting give. `checks`: declared against measured. `campaign`: all
drives of a campaign. `table`, `picture`: how that is shown.
"""
