# SPDX-License-Identifier: GPL-3.0-or-later
"""Drive profiles: how fast a twin is and what it draws from each of its rails.

One file each: the shipped ones in `profiles/NAME.yml` here, a lab's own in `profiles/NAME.yml` next
to its inventory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from joulerig.rig.common.errors import Strict, UserError, validate
from joulerig.rig.common.numbers import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from joulerig.rig.lab import definitions
from joulerig.rig.lab.model import Lab

FOLDER = Path(__file__).parent / "profiles"
KIND = "drive profile"

# Causes of a drive's internal work, by the twin's names.
Cause = Literal["gc", "fold", "seek", "spin_up", "wake"]


class WorkModel(Strict):
    """What a piece of internal work adds: joules for each byte it moves, watts while it lasts."""

    joules_per_byte: NonNegativeFloat = 0.0
    watts: NonNegativeFloat = 0.0


MOST_SETTLE_SECONDS = 60.0  # a state that is entered later is not waited for


class RailModel(Strict):
    """Power of one rail: idle watts, and the joules that each operation adds.

    `source_ohms` is what lies between the supply and the drive: the rail droops by ohms x amps.
    `active_watts` is the most that operations add to idle (the twin's default: 2 A x volts).
    """

    volts: PositiveFloat
    source_ohms: NonNegativeFloat
    idle_watts: NonNegativeFloat
    active_watts: PositiveFloat | None = None
    read_joules_per_byte: NonNegativeFloat = 0.0
    write_joules_per_byte: NonNegativeFloat = 0.0
    command_joules: NonNegativeFloat = 0.0
    flush_joules: NonNegativeFloat = 0.0
    work: dict[Cause, WorkModel] = Field(default_factory=dict)


class FlashLatency(Strict):
    """Microseconds of a flash drive.

    `read` and `write`: a command's time in addition to the flash's and the link's. `short_read`:
    until the first part of a page is read, which is all that a read of less than half a page needs
    (left out: `page_read`). `next_page`: how much later each further page of a read begins.
    """

    read: NonNegativeFloat
    write: NonNegativeFloat
    flush: NonNegativeFloat
    page_read: PositiveFloat
    short_read: PositiveFloat | None = None
    next_page: NonNegativeFloat = 0.0
    program: PositiveFloat
    slc_program: PositiveFloat | None = None
    erase: NonNegativeFloat


class Flash(Strict):
    """Parameters of an SSD's model of time: virtuallab/twin/flash.h.

    `block_pages`: pages of 4 KiB in what is erased at once (left out: by the drive's size).
    `moved_apart`: garbage collection moves pages to blocks of their own. `rated_erases`: how often
    its flash may be erased, for the percentage used that an NVMe host reads (left out: 0 %).
    """

    channels: Annotated[int, Field(gt=0, le=1024)]
    page_bytes: PositiveInt
    latency_us: FlashLatency
    read_bytes_per_second: PositiveFloat
    write_bytes_per_second: PositiveFloat
    overprovisioning: PositiveFloat
    slc_fraction: NonNegativeFloat = 0.0
    fold_delay_seconds: NonNegativeFloat = 0.0
    block_pages: PositiveInt | None = None
    moved_apart: bool = False
    rated_erases: PositiveFloat | None = None

    @model_validator(mode="after")
    def _latencies_fit(self) -> Flash:
        latency = self.latency_us
        if self.block_pages is not None and self.block_pages.bit_count() != 1:
            raise ValueError(f"block_pages: {self.block_pages}; allowed are powers of two")
        if latency.short_read is not None and latency.short_read > latency.page_read:
            raise ValueError(
                f"latency_us.short_read: {latency.short_read:g}; allowed: at most page_read,"
                f" {latency.page_read:g}"
            )
        if self.slc_fraction > 0 and self.latency_us.slc_program is None:
            raise ValueError("latency_us.slc_program: missing; slc_fraction above 0 needs it")
        return self


class Seek(Strict):
    """Milliseconds, as a hard disk's manual gives them."""

    track_to_track: PositiveFloat
    average: PositiveFloat
    full_stroke: PositiveFloat


class Disk(Strict):
    """Parameters of a hard disk's model of time: virtuallab/twin/disk.h."""

    rpm: PositiveInt
    heads: Annotated[int, Field(gt=0, le=64)]
    zones: Annotated[int, Field(gt=0, le=10_000)]
    seek_ms: Seek
    head_switch_ms: NonNegativeFloat
    command_us: NonNegativeFloat
    outer_bytes_per_second: PositiveFloat
    inner_bytes_per_second: PositiveFloat
    link_bytes_per_second: PositiveFloat
    read_ahead_bytes: NonNegativeInt


class PowerState(Strict):
    """An operational or an idle power state.

    An operational state bounds what the drive draws (`watts` of a rail: the most; `idle_watts`:
    without operations, left out: the rail's) and how fast its link is (`rate`: a fraction). One
    with `idle_seconds` is entered by the drive itself after that time without work, and `watts` is
    what it draws there. Operational states come first, as NVMe numbers them. `declared_watts`: what
    its host reads of it (left out: the truth).
    """

    name: str
    watts: dict[str, NonNegativeFloat]
    idle_seconds: PositiveFloat | None = None
    entry_us: NonNegativeFloat = 0.0
    exit_us: NonNegativeFloat = 0.0
    idle_watts: dict[str, PositiveFloat] = Field(default_factory=dict)
    rate: Annotated[float, Field(ge=0.01, le=1)] = 1.0
    declared_watts: Annotated[float, Field(gt=0, le=600)] | None = None


class Throttle(Strict):
    """A level of thermal throttling.

    It begins at `enter_celsius` and ends below `leave_celsius`; in it the link has `rate` of its
    bandwidths, and operations add `watts` of what they may at the most (fractions).
    """

    enter_celsius: Annotated[float, Field(ge=-50, le=200)]
    leave_celsius: Annotated[float, Field(ge=-50, le=200)]
    rate: Annotated[float, Field(ge=0.01, le=1)]
    watts: Annotated[float, Field(ge=0.01, le=1)]

    @model_validator(mode="after")
    def _ends_cooler(self) -> Throttle:
        if self.leave_celsius >= self.enter_celsius:
            raise ValueError(
                f"leave_celsius: {self.leave_celsius:g}; allowed: below enter_celsius, {self.enter_celsius:g}"
            )
        return self


class Thermal(Strict):
    """Heat: at steady power ambient + kelvin_per_watt x watts, first order, in `seconds`."""

    ambient_celsius: Annotated[float, Field(ge=-50, le=100)] = 25.0
    kelvin_per_watt: Annotated[float, Field(ge=0, le=100)] = 5.0
    seconds: Annotated[float, Field(ge=1e-3, le=1e6)] = 120.0
    throttle: Annotated[list[Throttle], Field(max_length=2)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _levels_are_in_order(self) -> Thermal:
        begins = [level.enter_celsius for level in self.throttle]
        if begins != sorted(set(begins)):
            raise ValueError("throttle: enter_celsius must grow from level to level")
        return self


class SelfReport(Strict):
    """What the drive reports to an NVMe host: its power and health.

    `energy_factor`: it reports its power, so many times the truth (left out: it does not);
    `error_percent`: the error that it states. `flaw`: a way in which the report is wrong
    (virtuallab/twin/self_report.h). `ocp`: it has the log C0h. `written_factor`,
    `temperature_kelvins`: of the bytes in its health log, and added to its temperature.
    """

    energy_factor: Annotated[float, Field(ge=0, le=1e6)] | None = None
    error_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    flaw: Literal["none", "stuck", "wraps", "resets", "no_idle", "unit", "histogram"] = "none"
    ocp: bool = False
    written_factor: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    temperature_kelvins: Annotated[float, Field(ge=-100, le=100)] = 0.0

    @model_validator(mode="after")
    def _is_of_a_report(self) -> SelfReport:
        if self.energy_factor is None and (self.error_percent is not None or self.flaw != "none"):
            raise ValueError("energy_factor: missing; error_percent and flaw need it")
        return self


class Profile(Strict):
    """A kind of drive. `sources` says where each number comes from, and which are free choices.

    `operating_state` is the operational one of `power_states` that the drive works in.
    """

    description: str
    model: Annotated[str, Field(max_length=40)]
    sources: list[str]
    interface: Literal["sata", "nvme"]
    plp: bool = False
    ready_seconds: NonNegativeFloat
    holdup_ms: PositiveFloat
    write_cache_bytes: NonNegativeInt
    flash: Flash | None = None
    disk: Disk | None = None
    power_states: list[PowerState] = Field(default_factory=list)
    operating_state: str | None = None
    thermal: Thermal | None = None
    self_report: SelfReport | None = None
    rails: Annotated[dict[str, RailModel], Field(min_length=1, max_length=4)]

    @model_validator(mode="after")
    def _parts_agree(self) -> Profile:
        if (self.flash is None) == (self.disk is None):
            raise ValueError("flash, disk: exactly one of the two must be there")
        for state in self.power_states:
            if set(state.watts) != set(self.rails):
                raise ValueError(
                    f"power_states: {state.name}: watts: rails {sorted(state.watts)};"
                    f" must be {sorted(self.rails)}"
                )
            if state.idle_watts and (
                state.idle_seconds is not None or set(state.idle_watts) != set(self.rails)
            ):
                raise ValueError(
                    f"power_states: {state.name}: idle_watts: allowed: of an operational state, rails"
                    f" {sorted(self.rails)}"
                )
        operational = [state.name for state in self.operational_states]
        if [state.name for state in self.power_states[: len(operational)]] != operational:
            raise ValueError("power_states: operational states (without idle_seconds) must come first")
        if operational and self.operating_state not in operational:
            raise ValueError(f"operating_state: {self.operating_state!r}; allowed: {', '.join(operational)}")
        idle = [state.idle_seconds for state in self.power_states if state.idle_seconds is not None]
        if idle != sorted(set(idle)):
            raise ValueError("power_states: idle_seconds must grow from state to state")
        return self

    def active_watts(self, rail: str) -> float | None:
        """Return the most that operations add to a rail's idle power.

        The operating state bounds it, or else the rail.
        """
        for state in self.power_states:
            if state.name == self.operating_state:
                return state.watts[rail] - self.idle_watts(state, rail)
        return self.rails[rail].active_watts

    def settle_seconds(self, size_bytes: int) -> float:
        """Return how long the drive takes at most to come to rest after it was written to.

        That is: to fold all of its single-level cells, and to enter its last power state, if it
        enters that within `MOST_SETTLE_SECONDS`.
        """
        folding = 0.0
        if self.flash is not None and self.flash.slc_fraction > 0:
            page_seconds = self.flash.latency_us.program * 1e-6 / self.flash.channels
            pages = self.flash.slc_fraction * size_bytes / self.flash.page_bytes
            folding = self.flash.fold_delay_seconds + pages * page_seconds
        idle = [state.idle_seconds for state in self.power_states if state.idle_seconds is not None]
        return folding + max((one for one in idle if one <= MOST_SETTLE_SECONDS), default=0.0)

    @property
    def operational_states(self) -> list[PowerState]:
        """Return the states that the drive works in."""
        return [state for state in self.power_states if state.idle_seconds is None]

    def idle_watts(self, state: PowerState, rail: str) -> float:
        """Return what a rail draws without operations in an operational state."""
        return state.idle_watts.get(rail, self.rails[rail].idle_watts)


def names() -> list[str]:
    """Return the names of the shipped profiles."""
    return sorted(shipped())


def shipped() -> dict[str, Profile]:
    """Return the shipped profiles by name. Raises UserError."""
    return definitions.read_folder(FOLDER, KIND, _parse)


def load_all(lab: Lab) -> dict[str, Profile]:
    """Return the shipped profiles and the lab's own, by name. Raises UserError.

    Its own are the files `profiles/NAME.yml` next to its inventory.
    """
    return definitions.with_own(shipped(), [lab.folder / "profiles"], KIND, _parse)


def load(name: str, source: str = "profile", known: Mapping[str, Profile] | None = None) -> Profile:
    """Return the profile `name` of `known`, by default of the shipped ones. Raises UserError.

    `source` says where the name stands, for errors.
    """
    known = shipped() if known is None else known
    if name not in known:
        raise UserError(f"{source}: {name!r} is no drive profile; allowed: {', '.join(sorted(known))}")
    return known[name]


def read(path: Path) -> Profile:
    """Return the profile in a file NAME.yml. Raises UserError."""
    return definitions.read_one(path, KIND, _parse)


def reference(known: Mapping[str, Profile] | None = None) -> str:
    """Return a Markdown table of profiles (default: the shipped ones)."""
    head = ("profile", "what it is", "interface", "power-loss protection", "rails")
    rows = [
        (
            f"`{name}`",
            one.description,
            one.interface,
            "yes" if one.plp else "no",
            ", ".join(f"{rail} ({model.volts:g} V)" for rail, model in one.rails.items()),
        )
        for name, one in (shipped() if known is None else known).items()
    ]
    return definitions.table(head, rows)


def _parse(name: str, entry: Any, source: str) -> Profile:
    return validate(Profile, entry, source, definitions.key(name, source))
