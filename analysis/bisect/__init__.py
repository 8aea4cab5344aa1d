# SPDX-License-Identifier: GPL-3.0-or-later
"""At which of ordered levels, such as kernels, a figure changes: a search by noisy measurements."""
