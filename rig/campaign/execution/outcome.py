# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test host returns for a run: one typed outcome, validated on arrival."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from joulerig.analysis.results.schema import Cause, Status
from joulerig.rig.common.bounded import (
    MOST_ENTRIES,
    Json,
    JsonObject,
    Line,
    Lines,
    Nanoseconds,
    Part,
    Whole,
    Word,
    one_line,
    read,
)
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


class NewerHostError(UserError):
    """The host's outcomes have what this controller does not know."""


def _none_if_empty(value: Any) -> Any:
    return value or None


Report = Annotated[JsonObject | None, BeforeValidator(_none_if_empty)]


class HostPhase(Part):
    """A phase of a run, in the host's clock."""

    phase: Word
    start_ns: Nanoseconds
    end_ns: Nanoseconds


class ClockOffset(Part):
    """Offset of the controller's clock from the host's, measured at `at_ns` of the host's clock.

    `booted_ns`: when the host booted, by its clock, which moves where that clock is set.
    """

    at_ns: Nanoseconds
    offset_ns: Nanoseconds
    error_ns: Whole
    exchanges: Whole | None = None
    booted_ns: Nanoseconds | None = None


class Touched(Part):
    """What a drive was asked to write and to discard; None where nothing counted it."""

    write_bytes: Whole | None = None
    discard_bytes: Whole | None = None


class Health(Part):
    """The drive's health report before and after the run; by drive where the run has several."""

    before: Json = None
    after: Json = None


# As libblkid names and prints them.
SignatureType = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+.-]+$", max_length=64)]
SignatureUuid = Annotated[str, Field(pattern=r"^[0-9A-Za-z-]+$", max_length=64)]


class Identity(Part):
    """Identity of the content of a drive: its signatures, else a digest of what was read."""

    signatures: Annotated[list[tuple[SignatureType, SignatureUuid | None]], Field(max_length=64)] = []
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class RunOutcome(Part):
    """The result of one run on its host.

    `cause`: why it ended, where `status` does not say so. `changed`: whether a drive was touched.
    `made`: what each drive is known by since. `taken_down`: what a killed call had left on the
    host. `clock`: measured before and after. `report`: the load's own. `counters`: the block
    layer's, over the workload phase. `seeks`, `free_nids`: what was traced. `power_reports`: what
    drives report of their own power. `touched`: by drive, from mkfs to unmount. `settings`: in
    effect. `invocation`: what the module was called with. `controller_step_ns`: how far the
    controller's clock was set forward meanwhile, which the controller adds.
    """

    version: Literal[1] = VERSION
    status: Ended
    reason: Line = ""
    cause: Cause | None = None
    changed: bool = True
    phases: Annotated[list[HostPhase], Field(max_length=MOST_ENTRIES)] = []
    clock: Annotated[list[ClockOffset], Field(max_length=MOST_ENTRIES)] = []
    controller_step_ns: Nanoseconds = 0
    report: Report = None
    counters: Annotated[dict[Word, Whole] | None, BeforeValidator(_none_if_empty)] = None
    seeks: Json = None
    free_nids: Json = None
    power_reports: Annotated[list[JsonObject], Field(max_length=MOST_ENTRIES)] = []
    touched: dict[Word, Touched] = {}
    settings: JsonObject = {}
    health: Health = Health()
    made: dict[Word, Identity] = {}
    taken_down: Lines = []
    invocation: JsonObject | None = None

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> RunOutcome:
        """Return the outcome in a module's reply.

        Failed, with Ansible's message, if the module crashed.

        Raises UserError, on one line, for a wrong value, NewerHostError for an unknown key.
        """
        if "status" not in reply:
            return cls(status=Status.FAILED, reason=failure(reply))
        own = {key: value for key, value in reply.items() if not _is_ansibles(key)}
        if unknown := sorted(set(own) - set(cls.model_fields)):
            key = one_line(unknown[0], 60)
            raise NewerHostError(
                f"joulerig_run: returned {key!r}, which outcomes of version {VERSION} do not have;"
                " the host runs a newer Joulerig: update the controller"
            )
        return read(cls, own, "joulerig_run")

    @property
    def mkfs(self) -> str:
        """Return the command that made the file system; empty: none did, or it is unknown."""
        words = self.settings.get("mkfs")
        return one_line(" ".join(map(str, words)), 2000) if isinstance(words, list) else ""

    def as_result_file(self) -> dict[str, Any]:
        """Return the content of result.json: whatever has no own file and is not at its default."""
        own_files = {"report", "settings", "health"}
        kept = {"status", "reason", "changed", "phases", "clock", "version"}
        content = self.model_dump(mode="json", exclude=own_files)
        return {key: value for key, value in content.items() if key in kept or value}


def failure(reply: Mapping[str, Any]) -> str:
    """Return, on one line, why a module call failed that itself returned no status."""
    return one_line(reply.get("reason") or reply.get("msg") or "the module call failed")


def _is_ansibles(key: str) -> bool:
    return key in OF_ANSIBLE or key.startswith("_ansible_")
