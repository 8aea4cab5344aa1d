# SPDX-License-Identifier: GPL-3.0-or-later
"""Reservations of test hosts, by which several controllers share them.

The host keeps its reservation and judges it by its own clock
(ansible/module_utils/joulerig/reservation.py). What is here asks for it: who this controller is, a
campaign that keeps its hosts while it executes, a person at the command line.
"""
