# SPDX-License-Identifier: GPL-3.0-or-later
"""Adapt Ansible's connection to a HostChannel, for the action plugins.

Nothing else of the rig imports Ansible.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import os
import signal
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from joulerig.analysis.results.schema import Status
from joulerig.errors import JoulerigError
from joulerig.rig.campaign import events
from joulerig.rig.campaign.claims import heartbeat
from joulerig.rig.campaign.execution.host_channel import NOTE, HostGoneError
from joulerig.rig.campaign.journal import TakenOverError
from joulerig.rig.common.bounded import one_line, printable

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
COLOURS: dict[str, str] = {Status.OK: "green", Status.PARTIAL: "yellow"}


class AnsibleChannel:
    """Executes modules over the connection of an action plugin's host."""

    def __init__(self, action: ActionBase, task_vars: Mapping[str, Any]) -> None:
        self._action, self._task_vars = action, task_vars

    def call(self, module: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        with _host_gone():
            return self._action._execute_module(
                module_name=module, module_args=dict(arguments), task_vars=self._task_vars
            )

    def reconnect(self) -> None:
        with _host_gone():
            self._action._connection.reset()

    def another(self) -> AnsibleChannel:
        """Return a channel with a connection for calls of another thread."""
        action = copy.copy(self._action)
        connection = action._connection = copy.copy(self._action._connection)
        connection._shell = copy.copy(connection._shell)  # it keeps the folder of a call
        connection._options = dict(connection._options)
        if connection.transport == "ssh":
            # A reconnection ends all that goes over a master: each connection has a separate one.
            name = hashlib.sha256(uuid.uuid4().bytes).hexdigest()[:10]
            connection.set_option("control_path", f"%(directory)s/{name}")
        return AnsibleChannel(action, self._task_vars)

    def say(self, text: str, mark: str = NOTE) -> None:
        show(self._action, text, mark)


def end_with_ansible() -> None:
    """Have the kernel end this worker with the Ansible that started it, however that ends.

    A worker has a separate session: it would go on to execute runs that no campaign waits for. What
    its host has begun goes on there.
    """
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() == 1:  # it ended meanwhile
        raise AnsibleActionFail("the ansible-playbook that started this ended")


@contextmanager
def end_if_taken_over() -> Iterator[None]:
    """Kill the Ansible that started this worker, and it, if another process has the campaign.

    What follows in the playbook (freeing the host, say) is that process's to do.
    """
    try:
        yield
    except TakenOverError as error:
        heartbeat.end_taken_over(os.pidfd_open(os.getppid()), str(error))
        raise


def show(action: ActionBase, text: str, mark: str = NOTE) -> None:
    """Display a line: a note, or the result of a run in the colour of its status."""
    text = printable(text)
    if mark == NOTE:
        action._display.display(f"note: {text}")
        events.write(events.NOTE, text=text)
    else:
        action._display.display(text, color=COLOURS.get(mark, "red"))


@contextmanager
def user_errors_fail() -> Iterator[None]:
    """Fail the task, on one line, for an error that the user can correct."""
    try:
        yield
    except JoulerigError as error:
        raise AnsibleActionFail(str(error)) from None


@contextmanager
def _host_gone() -> Iterator[None]:
    try:
        yield
    except AnsibleConnectionFailure as error:
        raise HostGoneError(one_line(error)) from None
