# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-playbook, with an event for an error that precedes the loading of plugins."""

from __future__ import annotations

from ansible.cli.playbook import PlaybookCLI
from ansible.errors import AnsibleError

from joulerig.rig.campaign import events


class EventCLI(PlaybookCLI):  # type: ignore[misc]  # Ansible has no types
    """ansible-playbook as it is, its own errors written as events."""

    def run(self) -> int:
        try:
            code: int = super().run()
        except AnsibleError as error:
            events.write(events.FAILED, message=" ".join(str(error.message).split()))
            raise
        return code


if __name__ == "__main__":
    EventCLI.cli_executor()
