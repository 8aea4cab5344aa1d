# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig registry`: verified bundles as a site."""
