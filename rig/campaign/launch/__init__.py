# SPDX-License-Identifier: GPL-3.0-or-later
"""Start ansible-playbook: what it is handed, and its own errors as events."""
