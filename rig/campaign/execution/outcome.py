# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test host returns for a run: one typed outcome, validated on arrival."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from joulerig.analysis.results.schema import Cause, Status
from joulerig.rig.common.errors import UserError

VERSION: Literal[1] = 1
# What Ansible itself adds to a module's result. `invocation` is kept: it says what the host was
# asked for.
OF_ANSIBLE = {
    "ansible_facts", "deprecations", "diff", "exception", "failed", "msg", "rc", "warnings",
    "module_stdout", "module_stderr", "stdout", "stdout_lines", "stderr", "stderr_lines",
}  # fmt: skip

# What a host can report of a run that it was asked to execute.
Ended = Literal[Status.OK, Status.FAILED, Status.LOST, Status.REFUSED, Status.NOT_RUN]


def _none_if_empty(value: Any) -> Any:
    return value or None


Report = Annotated[dict[str, Any] | None, BeforeValidator(_none_if_empty)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HostPhase(_Part):
    """A phase of a run, in the host's clock."""

    phase: str
    start_ns: int
    end_ns: int


class ClockOffset(_Part):
    """Offset of the controller's clock from the host's, measured at `at_ns` of the host's clock."""

    at_ns: int
    offset_ns: int
    error_ns: int
    exchanges: int | None = None


class Touched(_Part):
    """What a drive was asked to write and to discard; None where nothing counted it."""

    write_bytes: int | None = None
    discard_bytes: int | None = None


class Health(_Part):
    """The drive's health report before and after the run; by drive where the run has several."""

    before: Any = None
    after: Any = None


class RunOutcome(_Part):
    """The result of one run on its host.

    `cause`: why it ended, where `status` does not say so. `changed`: whether a drive was touched.
    `made`: what each drive is known by since. `taken_down`: what a killed call had left on the
    host. `clock`: measured before and after. `report`: the load's own. `counters`: the block
    layer's, over the workload phase. `seeks`, `free_nids`: what was traced. `power_reports`: what
    drives report of their own power. `touched`: by drive, from mkfs to unmount. `settings`: in
    effect. `invocation`: what the module was called with.
    """

    version: Literal[1] = VERSION
    status: Ended
    reason: str = ""
    cause: Cause | None = None
    changed: bool = True
    phases: list[HostPhase] = []
    clock: list[ClockOffset] = []
    report: Report = None
    counters: Annotated[dict[str, int] | None, BeforeValidator(_none_if_empty)] = None
    seeks: Any = None
    free_nids: Any = None
    power_reports: list[dict[str, Any]] = []
    touched: dict[str, Touched] = {}
    settings: dict[str, Any] = {}
    health: Health = Health()
    made: dict[str, dict[str, Any]] = {}
    taken_down: list[str] = []
    invocation: dict[str, Any] | None = None

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> RunOutcome:
        """Return the outcome in a module's reply.

        Failed, with Ansible's message, if the module crashed.

        Raises UserError, on one line, for what this controller does not know.
        """
        if "status" not in reply:
            return cls(status=Status.FAILED, reason=failure(reply))
        own = {key: value for key, value in reply.items() if not _is_ansibles(key)}
        if unknown := sorted(set(own) - set(cls.model_fields)):
            raise UserError(
                f"joulerig_run: returned {unknown[0]!r}, which outcomes of version {VERSION} do not have;"
                " the host runs a newer Joulerig: update the controller"
            )
        try:
            return cls.model_validate(own)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise UserError(f"joulerig_run: returned a wrong {where}: {first['msg']}") from None

    def as_result_file(self) -> dict[str, Any]:
        """Return the content of result.json: whatever has no own file and is not at its default."""
        own_files = {"report", "settings", "health"}
        kept = {"status", "reason", "changed", "phases", "clock", "version"}
        content = self.model_dump(mode="json", exclude=own_files)
        return {key: value for key, value in content.items() if key in kept or value}


def failure(reply: Mapping[str, Any]) -> str:
    """Return, on one line, why a module call failed that itself returned no status."""
    return one_line(reply.get("reason") or reply.get("msg") or "the module call failed")


def one_line(text: object) -> str:
    """Return a text on one line, at most 300 characters of it."""
    return " ".join(str(text).split())[:300]


def _is_ansibles(key: str) -> bool:
    return key in OF_ANSIBLE or key.startswith("_ansible_")
