# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig meters`: find, read, calibrate and check the lab's meters."""
