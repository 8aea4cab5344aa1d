# SPDX-License-Identifier: GPL-3.0-or-later
"""Send small files of the controller's with the call of module joulerig_files that writes them."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Action `joulerig_files: {files: [{src: iod.service, dest: /etc/systemd/iod.service}]}`.

    A file's `src` is looked for as that of Ansible's copy; the module gets its content.
    """

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp=None, task_vars=None):
        arguments = dict(self._task.args)
        if "files" in arguments:
            arguments["files"] = [self._with_content(one) for one in arguments["files"]]
        return self._execute_module(module_name="joulerig_files", module_args=arguments, task_vars=task_vars)

    def _with_content(self, wanted):
        if "src" not in wanted:
            return wanted
        try:
            content = Path(self._find_needle("files", wanted["src"])).read_text()
        except (AnsibleError, OSError, UnicodeDecodeError) as error:
            raise AnsibleActionFail(f"joulerig_files: {wanted['src']}: {error}") from None
        return {**{key: value for key, value in wanted.items() if key != "src"}, "content": content}
