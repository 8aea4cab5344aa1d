# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what `rig` waits for into the file of events that it reads.

That is why a playbook's tasks fail, and what hosts replied to what `rig` handed them.

The events: rig/campaign/events.py.
"""

from __future__ import annotations

import re

from ansible.plugins.callback import CallbackBase

from joulerig.rig.campaign import events

DOCUMENTATION = r"""
name: joulerig_events
type: notification
short_description: Events of a playbook for the rig's command line
description:
  - "Writes each failure, what is on drives, what hosts are, what was executed, and who has one, as JSON lines
    into the file that JOULERIG_EVENTS names."
author: [Joulerig]
"""
WRAPPERS = re.compile(r"^((Task|Action) failed: )+")  # what Ansible puts before a message of ours


class CallbackModule(CallbackBase):
    """Enabled by `rig` alone, by environment; a failure that the play ignores is an event too."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "joulerig_events"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._fail(result)

    def v2_runner_item_on_failed(self, result):
        self._fail(result)

    def v2_runner_on_unreachable(self, result):
        self._fail(result)

    def v2_runner_on_ok(self, result):
        if result.task.action == events.HANDED_ACTION:
            self._reply(result, result.task.args["module"], result.result)
        if result.task.action == events.RESERVATION_ACTION and "reservation" in result.result:
            self._reply(result, "joulerig_reservation", result.result["reservation"])

    def _reply(self, result, module, reply):
        if event := events.BY_MODULE.get(module):
            events.write(event, host=result.host.get_name(), reply=reply)

    def _fail(self, result):
        message, stderr = str(result.result.get("msg", "")), result.result.get("stderr")
        if isinstance(stderr, str) and stderr.strip():  # a command's message says only that it failed
            message += ": " + stderr.strip().splitlines()[-1]
        if message := WRAPPERS.sub("", " ".join(message.split())):
            events.write(events.FAILED, message=message, host=result.host.get_name())
