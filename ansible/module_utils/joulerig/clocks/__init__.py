# SPDX-License-Identifier: GPL-3.0-or-later
"""The test host's clock: how far it is from the controller's, and a virtual lab's slow motion."""
