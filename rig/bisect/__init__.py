# SPDX-License-Identifier: GPL-3.0-or-later
"""A search over the levels of a factor, such as kernels: a small campaign a step, kept on disk."""
