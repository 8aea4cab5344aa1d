# SPDX-License-Identifier: GPL-3.0-or-later
"""What provisioning changes on a test host: recorded before it is changed, undone on request."""
