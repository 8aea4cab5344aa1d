# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig crash-states`: judge an application in the states that a power cut may leave a drive in."""
