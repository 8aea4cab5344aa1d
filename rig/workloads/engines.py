# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions of workloads, a class for each engine, and what of them goes to a test host."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.common.numbers import NonNegativeFloat, PositiveFloat, PositiveInt
from joulerig.rig.lab import definitions, programs
from joulerig.rig.lab.kernels import source as kernel_source
from joulerig.rig.lab.model import Name, Package
from joulerig.rig.workloads import fio_job, place, recorded_trace, synthetic_trace
from joulerig.rig.workloads.fio_job import Value
from joulerig.rig.workloads.synthetic_trace import Synthetic

KernelSource = Literal[kernel_source.CHOICES]
SYNC_BLOCK_BYTES = 4096  # `flowop sync`'s own
Where = Callable[[Path], str]  # place.here or place.on_host


class Workload(Strict):
    """What all workloads have; `description`: a line for people."""

    description: str = ""
    tool: ClassVar[str]  # what loads: fio, flowop or program
    calls_sync: ClassVar[bool] = False  # whether `with_sync` can be asked for

    def with_sync(self, call: str) -> Workload:
        """Return the workload with another sync call; only for those that have one."""
        raise NotImplementedError

    def resolved(self, folder: Path) -> Workload:
        """Return the workload with its files found: shipped by name, others in `folder`.

        Raises ValueError.
        """
        return self

    def files(self) -> list[Path]:
        """Return the files that must be copied to a host. Raises UserError where one is missing."""
        return []

    def needed_packages(self) -> list[str]:
        """Return the Debian packages that a host needs in addition to the provisioned ones."""
        return []

    def delivered(self, where: Where) -> dict[str, Any]:
        """Return it as plain data for module_utils/joulerig/loads/workload.py, paths by `where`."""
        raise NotImplementedError

    def about(self) -> str:
        """Return a line that describes the workload."""
        return self.description

    def bytes_per_second(self) -> float | None:
        """Return what it writes by its own definition; None: as fast as it can, or unknown."""
        return None


def _comment(path: Path) -> str:
    """Return the first comment of a job file or personality that is not its licence."""
    for line in path.read_text().splitlines():
        text = line.lstrip("#; ").strip()
        if line.startswith(("#", ";")) and text and "SPDX" not in text:
            return text
    return ""


class Fio(Workload):
    """A fio job file; `options` are put at the end of each of its jobs, where they override."""

    engine: Literal["fio"]
    job: str
    options: dict[str, Value] = {}
    tool: ClassVar = "fio"

    @field_validator("options")
    @classmethod
    def _of_the_drive_alone(cls, options: dict[str, Value]) -> dict[str, Value]:
        for key, value in options.items():
            fio_job.check_setting(key, fio_job.as_text(value))
        return options

    def resolved(self, folder: Path) -> Fio:
        job = place.FIO_JOBS.find(self.job, folder)
        fio_job.load(job)
        return self.model_copy(update={"job": str(job)})

    def about(self) -> str:
        return self.description or _comment(Path(self.job))

    def delivered(self, where: Where) -> dict[str, Any]:
        return {"tool": self.tool, "job": self._job()}

    def bytes_per_second(self) -> float | None:
        kinds = re.findall(r"^(?:rw|readwrite)=(\S+)$", self._job(), re.MULTILINE)
        return 0.0 if kinds and {*kinds} <= {"read", "randread"} else None

    def _job(self) -> str:
        return fio_job.with_options(fio_job.load(Path(self.job)), self.options)


class _OfFlowop(Workload):
    """A command of build/flowop, in which `{seconds}` and `{seed}` stand for a run's."""

    tool: ClassVar = "flowop"

    def files(self) -> list[Path]:
        return [place.built_flowop()]

    def _command(self, where: Where, words: list[str], texts: dict[str, str] | None = None) -> dict[str, Any]:
        return {"tool": self.tool, "program": where(place.flowop()), "words": words, "texts": texts or {}}


class Flowop(_OfFlowop):
    """A Filebench personality; `set`: its variables; `rate`: operations a second, open loop."""

    engine: Literal["flowop"]
    personality: str
    set: dict[str, Value] = {}
    rate: PositiveFloat | None = None

    def resolved(self, folder: Path) -> Flowop:
        path = place.PERSONALITIES.find(self.personality, folder)
        return self.model_copy(update={"personality": str(path)})

    def about(self) -> str:
        return self.description or _comment(Path(self.personality))

    def delivered(self, where: Where) -> dict[str, Any]:
        path = Path(self.personality)
        words = ["run", path.name, "--seconds", "{seconds}", "--seed", "{seed}"]
        for name, value in self.set.items():
            words += ["--set", f"{name}={_word(value)}"]
        words += ["--rate", _word(self.rate)] if self.rate else []
        return self._command(where, words, {path.name: path.read_text()})


class Sync(_OfFlowop):
    """Writes and syncs in a loop, paced (`pace_seconds`, `rate`) or not: `flowop sync`."""

    engine: Literal["sync"]
    mode: Literal["overwrite", "append"] = "overwrite"
    call: Literal["fsync", "fdatasync", "none"] = "fsync"
    block_bytes: PositiveInt | None = None
    file_bytes: PositiveInt | None = None
    pace_seconds: NonNegativeFloat | None = None
    rate: PositiveFloat | None = None
    threads: Annotated[int, Field(gt=0, le=4096)] | None = None
    direct: bool = False
    calls_sync: ClassVar = True

    def with_sync(self, call: str) -> Sync:
        return self.model_copy(update={"call": call})

    OPTIONS: ClassVar = {
        "mode": "--mode",
        "call": "--call",
        "block_bytes": "--block",
        "file_bytes": "--file-bytes",
        "pace_seconds": "--pace-seconds",
        "rate": "--rate",
        "threads": "--threads",
    }

    @model_validator(mode="after")
    def _paced_once(self) -> Sync:
        if self.pace_seconds is not None and self.rate is not None:
            raise ValueError("pace_seconds and rate; allowed: one of them")
        return self

    def delivered(self, where: Where) -> dict[str, Any]:
        words = ["sync", "--seconds", "{seconds}", "--seed", "{seed}"]
        for key, option in self.OPTIONS.items():
            if (value := getattr(self, key)) is not None:
                words += [option, _word(value)]
        return self._command(where, [*words, "--direct"] if self.direct else words)

    def bytes_per_second(self) -> float | None:
        rate = self.rate or ((self.threads or 1) / self.pace_seconds if self.pace_seconds else None)
        return rate * (self.block_bytes or SYNC_BLOCK_BYTES) if rate else None


class Replay(_OfFlowop):
    """A trace, as fast as possible, `timed` as recorded, or at another `speed`; it ends by itself.

    `trace`: a file; `synthetic`: in place of one, what it is drawn from.
    """

    engine: Literal["replay"]
    trace: str | None = None
    synthetic: Synthetic | None = None
    timed: bool = False
    speed: PositiveFloat | None = None

    @model_validator(mode="after")
    def _paced_once(self) -> Replay:
        if self.timed and self.speed is not None:
            raise ValueError("timed and speed; allowed: one of them")
        return self

    @model_validator(mode="after")
    def _one_trace(self) -> Replay:
        if (self.trace is None) == (self.synthetic is None):
            found = "neither" if self.trace is None else "both"
            raise ValueError(f"{found} of trace and synthetic; allowed: one of them")
        return self

    def resolved(self, folder: Path) -> Replay:
        if self.trace is None:
            return self
        return self.model_copy(update={"trace": str(place.file_in(folder, self.trace))})

    def files(self) -> list[Path]:
        path = self._file()
        return [place.built_flowop(), recorded_trace.checked(path) if self.trace else path]

    def _file(self) -> Path:
        return synthetic_trace.made(self.synthetic) if self.synthetic else Path(self.trace)

    def delivered(self, where: Where) -> dict[str, Any]:
        words = ["replay", where(self._file())]
        words += ["--timed"] if self.timed else []
        words += ["--speed", _word(self.speed)] if self.speed is not None else []
        return self._command(where, words)


class Program(Workload):
    """An external program by name, or a script (.py) of the lab's own.

    `settings` are the script's; `setting_files`: settings that are files, which are copied to the
    host; `kernel_source`: the setting `source` is that much of Debian's kernel source; `packages`:
    Debian packages that it needs in addition to the program's own.
    """

    engine: Literal["program"]
    program: str
    settings: dict[str, Any] = {}
    setting_files: dict[str, str] = {}
    kernel_source: KernelSource | None = None
    packages: list[Package] = []
    tool: ClassVar = "program"

    @model_validator(mode="after")
    def _each_setting_once(self) -> Program:
        from_files = [*self.setting_files, *(["source"] if self.kernel_source else [])]
        for key in from_files:
            if key in self.settings or from_files.count(key) > 1:
                raise ValueError(
                    f"{key} is given twice; allowed: one of settings, setting_files, kernel_source"
                )
        return self

    def resolved(self, folder: Path) -> Program:
        script = place.find_script(self.program, folder)
        declared = program.definition if (program := programs.holding(script)) else None
        for key in self.settings if declared and declared.parameters else ():
            if key not in declared.parameters:
                raise ValueError(f"settings.{key}: {definitions.allowed(key, declared.parameters)}")
        _check_stays(self.settings, "settings")
        packages = sorted({*self.packages, *(declared.packages if declared else [])})
        found = {key: str(place.file_in(folder, value)) for key, value in self.setting_files.items()}
        changes = {"program": str(script), "setting_files": found, "packages": packages}
        return self.model_copy(update=changes)

    def files(self) -> list[Path]:
        script = Path(self.program)
        return [*place.program_files(script), *self._setting_files().values()]

    def _setting_files(self) -> dict[str, Path]:
        source = {"source": kernel_source.archive(self.kernel_source)} if self.kernel_source else {}
        return {key: Path(value) for key, value in self.setting_files.items()} | source

    def needed_packages(self) -> list[str]:
        return self.packages

    def delivered(self, where: Where) -> dict[str, Any]:
        files = {key: where(path) for key, path in self._setting_files().items()}
        return {
            "tool": self.tool,
            "program": where(Path(self.program)),
            "common_code": where(programs.COMMON_CODE),
            "settings": {**self.settings, **files},
            "packages": self.packages,
        }


def _check_stays(value: Any, key: str) -> None:
    """Raise ValueError for a path in a setting that leaves the directory of the load."""
    if isinstance(value, str) and place.leaves(value):
        raise ValueError(
            f"{key}: {value!r}; allowed: no absolute path, no '..'; setting_files copies a file to the host"
        )
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        _check_stays(part, f"{key}.{name}")


ENGINES: dict[str, type[Workload]] = {
    "fio": Fio,
    "flowop": Flowop,
    "sync": Sync,
    "replay": Replay,
    "program": Program,
}


class _Named(Strict):
    name: Name


def parse(name: str, entry: Any, source: str, folder: Path) -> Workload:
    """Return the workload of an entry of `source`, its files in `folder`. Raises UserError."""
    validate(_Named, {"name": name}, source)
    if not isinstance(entry, dict) or "engine" not in entry:
        raise UserError(f"{source}: {name}.engine: required; allowed: {', '.join(ENGINES)}")
    engine = entry["engine"]
    if not isinstance(engine, str) or engine not in ENGINES:
        raise UserError(f"{source}: {name}.engine: {engine!r} is {definitions.allowed(str(engine), ENGINES)}")
    try:
        return validate(ENGINES[engine], entry, source, name).resolved(folder)
    except ValueError as error:
        raise UserError(f"{source}: {name}: {error}") from None


def _word(value: Value | None) -> str:
    """Return a value as a command line has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)
