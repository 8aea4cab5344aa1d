# SPDX-License-Identifier: GPL-3.0-or-later
"""Execute a campaign on one test host: pull the next run, execute it as one module call, store its result.

Ansible runs this once for each host, in a process of its own: hosts never wait for each other, and no run
pays for Ansible's start-up.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from joulerig.rig.campaign import drive_record, engine, factors, playbook
from joulerig.rig.campaign.execution import preconditioning, waveforms
from joulerig.rig.campaign.execution.kernels import Boots, Ready
from joulerig.rig.campaign.execution.memory_drives import MadeAgain
from joulerig.rig.campaign.journal import Journal
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import kernels, model

RETURN_SECONDS = 180  # how long a host that went away may take to come back


class ActionModule(ActionBase):
    """`joulerig_campaign: {folder: results/ID, kernels: {LEVEL: {release: TEXT, tick_hertz: N}}}`."""

    TRANSFERS_FILES = False
    _supports_check_mode = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        host = task_vars["inventory_hostname"]
        try:
            described = model.load(Path(task_vars["inventory_file"]))
            journal = Journal(Path(self._task.args["folder"]))
            self._boots = self._boots_of(host, task_vars)
            self._memory_drives = MadeAgain(described, partial(self._call, task_vars))
            with journal.executing():
                try:
                    done = self._execute_all(journal, host, described, task_vars)
                except UserError:
                    self._leave_as_found()
                    raise
                self._leave_as_found()
        except UserError as error:
            raise AnsibleActionFail(str(error)) from None
        return {**result, "changed": done > 0, "runs": done}

    def _execute_all(self, journal, host, described, task_vars):
        stop = journal.campaign["definition"]["stop"]
        began, failures, done = time.monotonic(), 0, 0
        while True:
            if failures >= stop["failures_in_a_row"]:
                raise UserError(
                    f"{host}: stopped after {failures} failed runs in a row; the rest stays planned"
                )
            if stop["hours"] and time.monotonic() - began > stop["hours"] * 3600:
                raise UserError(f"{host}: stopped after {stop['hours']:g} hours; the rest stays planned")
            if (run := journal.take(host)) is None:
                return done
            status = self._execute(journal, run, described, task_vars)
            if status != "not-run":  # that one costs nothing, and says nothing of the next
                failures = 0 if status in ("ok", "partial") else failures + 1
            done += 1

    def _boots_of(self, host, task_vars):
        ready = {
            level: Ready(one["release"], int(one["tick_hertz"]))
            for level, one in (self._task.args.get("kernels") or {}).items()
        }

        call = partial(self._call, task_vars, "joulerig_kernel")

        def look():
            try:
                self._connection.reset()
                return call({"settled": True})
            except AnsibleConnectionFailure:
                return None

        return Boots(host, ready, call, look, lambda text: self._display.display(playbook.NOTE + text))

    def _call(self, task_vars, module, arguments):
        return self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars)

    def _leave_as_found(self):
        """The host's own kernel runs again where its runs have ended; after an interruption the next
        campaign sees to that.
        """
        try:
            if self._task.args.get("kernels") or self._boots.release:
                self._boots.ensure(kernels.INSTALLED)
        except AnsibleConnectionFailure:
            pass  # it is gone, and comes back with its own

    def _execute(self, journal, run, described, task_vars):
        total = len(journal.runs())

        call = partial(self._call, task_vars)
        try:
            answer = (
                self._boots.ensure(factors.kernel(run["factors"]))
                or self._memory_drives.ensure(run, self._boots.boot)
                or preconditioning.ensure(journal, run, described, partial(call, "joulerig_precondition"))
                or self._load(journal, run, described, call)
            )
        except AnsibleConnectionFailure as error:
            self._boots.forget()
            journal.finish(run["id"], "lost", f"host gone: {_one_line(error)}", {})
            self._say(run, total, "lost", _one_line(error))
            self._await_return(run["host"], task_vars)
            return "lost"
        try:
            status = engine.settle(journal, run, answer, described)
        except Exception as error:
            journal.finish(run["id"], "failed", f"its results could not be kept: {_one_line(error)}", {})
            raise
        if status == "failed":
            self._boots.forget()
        self._say(run, total, status, next(r["reason"] for r in journal.runs() if r["id"] == run["id"]))
        if (kept := journal.folder / "runs" / run["id"] / engine.LOST_FILE).exists():
            self._display.display(f"[{run['host']}] an earlier attempt was cut off: what it did is in {kept}")
        return status

    def _load(self, journal, run, described, call):
        """What the host's module says of the run itself."""
        drive_record.run_begins(run, described)
        with waveforms.recorded(journal, run, described):
            arguments = {**engine.arguments(journal, run, described), "kernel": self._boots.release}
            answer = call("joulerig_run", arguments)
        if "status" not in answer:  # the module itself broke
            answer = {
                "status": "failed",
                "reason": _one_line(answer.get("msg", "the module call failed")),
                "phases": [],
            }
        drive_record.run_ended(run, answer, described)
        return answer

    def _await_return(self, host, task_vars):
        end = time.monotonic() + RETURN_SECONDS
        while time.monotonic() < end:
            try:
                self._connection.reset()
                self._execute_module(module_name="ansible.builtin.ping", module_args={}, task_vars=task_vars)
                return
            except AnsibleConnectionFailure:
                time.sleep(5)
        raise UserError(
            f"{host}: gone for {RETURN_SECONDS} s; its other runs stay planned; resume the campaign"
        )

    def _say(self, run, total, status, reason):
        mark = {"ok": "green", "partial": "yellow"}.get(status, "red")
        text = f"[{run['host']}] {run['ordinal']}/{total} {run['cell']}: {status}"
        self._display.display(text + (f" ({reason})" if reason else ""), color=mark)


def _one_line(error):
    return " ".join(str(error).split())[:300]
