# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies between the server and a page: requests that are refused, queues, frames."""
