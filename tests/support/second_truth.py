# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute a twin's joules a second time, from its log of operations.

Written from the twin's documentation (virtuallab/twin/README.md and the rules at the head of
flash.h, ftl.h, disk.h and doze.h there) and from none of its code, so that an error in the twin's
arithmetic does not repeat here. Energies are summed, not powers integrated: an operation or piece
of work counts whole where it begins, so the ends of an interval have to lie in quiet time. Of a
hard disk: reads, one at a time, with the mean wait for a sector. No power cuts.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise

PAGE = 4096  # bytes that the map of an SSD goes by
FOLD_SLICE_NS = 10_000_000
NEVER = math.inf


class Parameters:
    """A twin's parameters, `key=value` each."""

    def __init__(self, words: Sequence[str], size: int) -> None:
        pairs = [word.split("=", 1) for word in words]
        self.size, self.last = size, dict(pairs)
        every = {key: [value.split(",") for name, value in pairs if name == key] for key in self.last}
        self.rails = {name: list(map(float, rest)) for name, *rest in every["rail"]}
        self.work = {
            (rail, cause): (float(joules), float(watts))
            for rail, cause, joules, watts in every.get("work", [])
        }
        self.states = [tuple(map(int, state)) for state in every.get("doze", [])]
        self.state_watts = {rail: list(map(float, rest)) for rail, *rest in every.get("doze_watts", [])}

    def number(self, key: str, default: float = 0) -> float:
        return float(self.last.get(key, default))


class PageMap:
    """Which block each page of a drive is in, and what is moved to keep a block free (ftl.h)."""

    def __init__(self, pages: int, spare: float, block_pages: int, moved_apart: bool) -> None:
        self.block_pages, least_blocks = (block_pages, 256) if block_pages else (256, 1024)
        while self.block_pages > 16 and pages / self.block_pages < least_blocks:
            self.block_pages //= 2
        self.ends = ["host", "moved"] if moved_apart else ["host"]  # where pages are appended
        blocks = math.ceil(math.ceil(pages * (1 + spare)) / self.block_pages) + 2 * len(self.ends)
        self.block_of: dict[int, int] = {}
        self.held: list[dict[int, None]] = [{} for _ in range(blocks)]  # in order
        self.changed = [0] * blocks  # when a block came to hold as few as it does
        self.clock = 0
        self.frontier = {end: block for block, end in enumerate(self.ends)}
        self.used = dict.fromkeys(self.ends, 0)
        self.free, self.closed = list(range(blocks - 1, len(self.ends) - 1, -1)), set()

    def write(self, page: int) -> tuple[int, int]:
        """Write a page; return the pages moved and the blocks erased for it."""
        self.trim(page)
        moved = erased = 0
        if self.used["host"] == self.block_pages:
            self._next_block("host")
            while len(self.free) < len(self.ends):
                victim = min(self.closed, key=lambda block: (len(self.held[block]), -self.changed[block]))
                self.closed.remove(victim)
                keep, self.held[victim] = self.held[victim], {}
                for one in keep:
                    if self.used[self.ends[-1]] == self.block_pages:
                        self._next_block(self.ends[-1])
                    self._append(one, self.ends[-1])
                moved, erased = moved + len(keep), erased + 1
                self.free.append(victim)
        self._append(page, "host")
        return moved, erased

    def _next_block(self, end: str) -> None:
        self.clock += 1
        self.changed[self.frontier[end]] = self.clock
        self.closed.add(self.frontier[end])
        self.frontier[end], self.used[end] = self.free.pop(), 0

    def _append(self, page: int, end: str) -> None:
        self.held[self.frontier[end]][page] = None
        self.block_of[page] = self.frontier[end]
        self.used[end] += 1

    def trim(self, page: int) -> None:
        if (block := self.block_of.pop(page, None)) is not None:
            del self.held[block][page]
            self.clock += 1
            self.changed[block] = self.clock


class Ssd:
    """Times of an SSD's operations and own work (flash.h). `work`: (start, cause, bytes, ns)."""

    def __init__(self, p: Parameters) -> None:
        self.p = p
        self.map = PageMap(
            p.size // PAGE,
            p.number("overprovisioning"),
            int(p.number("block_pages")),
            p.number("moved_apart") == 1,
        )
        self.units, self.read_units = ([0.0] * int(p.number("channels")) for _ in range(2))
        self.link, self.read_link, self.programmed, self.active = 0.0, 0.0, 0.0, 0.0
        self.cache: deque[tuple[float, int]] = deque()  # programs under way: end, bytes
        self.partial = self.single = self.moved = 0
        self.folded = 0.0
        self.work: list[tuple[float, str, int, float]] = []

    @property
    def busy_until(self) -> float:
        return max(self.programmed, self.folded, self.link, self.read_link)

    def _occupy(self, at: float, ns: float) -> tuple[float, float]:
        unit = self.units.index(min(self.units))
        start = max(at, self.units[unit])
        self.units[unit] = start + ns
        return start, start + ns

    def operate(self, at: float, kind: str, offset: int, size: int, fua: bool) -> float:
        self.active = max(self.active, at)
        if kind == "read":
            return self._read(at, offset, size)
        if kind == "write":
            return self._write(at, offset, size, fua)
        if kind == "flush":
            return self._flush(at)
        for page in range(-(-offset // PAGE), (offset + size) // PAGE):
            self.map.trim(page)
        return at + self.p.number("write_command_ns")

    def _read(self, at: float, offset: int, size: int) -> float:
        begin, page, first = at + self.p.number("read_command_ns"), self.p.number("page_bytes"), NEVER
        last, page_ns = begin, self.p.number("page_read_ns")
        short_ns = self.p.number("short_read_ns") or page_ns
        page_ns = short_ns if size < page / 2 else page_ns
        for n in range(int((offset + size - 1) // page - offset // page + 1)):
            unit = self.read_units.index(min(self.read_units))
            start = max(begin + n * self.p.number("next_page_ns"), self.read_units[unit])
            self.read_units[unit] = start + page_ns
            if self.units[unit] > start:
                self.units[unit] += page_ns
            first, last = min(first, start + short_ns), max(last, start + page_ns)
        rate = self.p.number("read_bytes_per_second") / 1e9
        self.read_link = max(max(first, self.read_link) + size / rate, last + min(size, page) / rate)
        return self.read_link

    def _write(self, at: float, offset: int, size: int, fua: bool) -> float:
        p, page_bytes = self.p, int(self.p.number("page_bytes"))
        now, capacity = max(at, self.link), self.p.number("write_cache")
        pages = range(offset // PAGE, (offset + size - 1) // PAGE + 1)
        for page in pages:
            now += size / len(pages) / p.number("write_bytes_per_second") * 1e9
            while self.cache and self.cache[0][0] <= now:
                self.cache.popleft()
            while capacity and self.cache and self.dirty + PAGE > capacity:
                now = max(now, self.cache.popleft()[0])
            self._collect(now, *self.map.write(page))
            self.partial += PAGE
            if self.partial == page_bytes:
                self._program(now)
        self.link = now
        if not capacity or (fua and p.last.get("plp") != "yes"):
            self._program(now)
            now = max(now, self.programmed)
        return now + p.number("write_command_ns")

    @property
    def dirty(self) -> int:
        return self.partial + sum(size for _, size in self.cache)

    def _program(self, at: float) -> None:
        if not self.partial:
            return
        fits = self.single + self.partial <= int(self.p.number("slc_fraction") * self.p.size)
        _, end = self._occupy(at, self.p.number("slc_program_ns" if fits else "program_ns"))
        self.single += self.partial if fits else 0
        self.programmed = max(self.programmed, end)
        self.cache.append((self.programmed, self.partial))
        self.partial = 0

    def _collect(self, at: float, moved: int, erased: int) -> None:
        if not erased:
            return
        self.moved += moved
        page_ns = self.p.number("page_read_ns") + self.p.number("program_ns")
        whole, self.moved = divmod(self.moved, int(self.p.number("page_bytes")) // PAGE)
        pieces = [self._occupy(at, page_ns) for _ in range(whole)]
        pieces += [self._occupy(at, self.p.number("erase_ns")) for _ in range(erased)]
        start, end = min(piece[0] for piece in pieces), max(piece[1] for piece in pieces)
        self.work.append((start, "gc", moved * PAGE, end - start))

    def _flush(self, at: float) -> float:
        while self.cache and self.cache[0][0] <= at:
            self.cache.popleft()
        if not self.dirty:
            return at + self.p.number("write_command_ns")
        if self.p.last.get("plp") == "yes":
            return at + self.p.number("flush_ns")
        self._program(at)
        return max(at, self.programmed) + self.p.number("flush_ns")

    def fold(self, until: float) -> Iterable[float]:
        """Fold single-level cells as far as `until`; yield when each slice begins."""
        page, channels = int(self.p.number("page_bytes")), self.p.number("channels")
        page_ns = self.p.number("page_read_ns") + self.p.number("program_ns")
        slice_pages = max(1, int(FOLD_SLICE_NS * channels / page_ns))
        while self.single:
            idle = max(self.active, self.programmed) + self.p.number("fold_delay_ns")
            start = max(self.folded, idle)
            if start > until:
                return
            pages = min(slice_pages, -(-self.single // page))
            size, ns = min(pages * page, self.single), pages * page_ns / channels
            self.single -= size
            self.folded = start + ns
            self.units = [max(unit, self.folded) for unit in self.units]
            self.work.append((start, "fold", size, ns))
            yield start


class Disk:
    """Seeks of a hard disk that reads one thing after the other (disk.h)."""

    def __init__(self, p: Parameters) -> None:
        self.p, self.busy_until, self.stroke = p, 0.0, 0.0
        self.work: list[tuple[float, str, int, float]] = []
        settle = p.number("track_to_track_ns")
        mean, full = p.number("average_seek_ns") - settle, p.number("full_stroke_ns") - settle
        self.settle, self.root = settle, (mean - full / 3) / (8 / 15 - 1 / 3)
        self.linear = full - self.root
        zones = int(p.number("zones"))
        outer, inner = p.number("outer_bytes_per_second"), p.number("inner_bytes_per_second")
        rates = [outer + (inner - outer) * zone / max(1, zones - 1) for zone in range(zones)]
        self.zone_ends = [p.size * sum(rates[: zone + 1]) / sum(rates) for zone in range(zones)]

    def _stroke(self, offset: float) -> float:
        """Return how far in an offset lies, as a fraction of the stroke."""
        starts = [0.0, *self.zone_ends]
        zone = next(n for n, end in enumerate(self.zone_ends) if offset <= end)
        part = (offset - starts[zone]) / (self.zone_ends[zone] - starts[zone])
        return (zone + part) / len(self.zone_ends)

    def operate(self, at: float, kind: str, offset: int, size: int, fua: bool) -> float:
        assert kind == "read", "a hard disk's writes are not computed a second time"
        distance = abs(self._stroke(offset) - self.stroke)  # a cylinder is a small part of it
        seek = self.settle + self.root * math.sqrt(distance) + self.linear * distance
        self.work.append((at, "seek", 0, seek))
        self.stroke = self._stroke(min(self.p.size, offset + size))
        half_turn = 0.5 * 60e9 / self.p.number("rpm")  # the mean wait for a sector
        self.busy_until = at + self.p.number("command_ns") + seek + half_turn
        return self.busy_until

    def fold(self, until: float) -> Iterable[float]:
        return ()


def joules(
    words: Sequence[str], size: int, log: Iterable[str], start_ns: int, end_ns: int
) -> dict[str, dict[str, float]]:
    """Compute what a twin drew between two instants, by rail and cause, in joules.

    Parameters
    ----------
    words : sequence of str
        The twin's parameters, `key=value` each.
    size : int
        Bytes of the drive, which was empty when the twin began.
    log : iterable of str
        Lines of its log of operations.
    start_ns, end_ns : int
        CLOCK_MONOTONIC ns, in quiet time.
    """
    p = Parameters(words, size)
    model = Disk(p) if p.last.get("model") == "disk" else Ssd(p)
    found = {rail: dict.fromkeys(("idle", "read", "write", "flush", "discard"), 0.0) for rail in p.rails}
    idle_since: float = -1.0
    plans: list[tuple[float, float]] = []  # from then on, idle since
    works: list[tuple[float, str, int, float]] = []

    def fold(until: float) -> float:
        since = idle_since
        for begun in model.fold(until):
            since = max(since, model.busy_until)
            plans.append((begun, since))
        return since

    for line in log:
        at, kind, offset, length, fua = line.split()
        now = int(at)
        if now > end_ns:
            break
        if kind == "begin":
            idle_since = now
            plans.append((now, now))
            continue
        idle_since = fold(now)
        begin: float = now
        for idle_ns, entry_ns, exit_ns in reversed(p.states):
            if now - idle_since >= idle_ns:
                begin = max(now, idle_since + idle_ns + entry_ns) + exit_ns
                cause = "spin_up" if isinstance(model, Disk) else "wake"
                works.append((begin - exit_ns, cause, 0, exit_ns))
                break
        end = model.operate(begin, kind, int(offset), int(length), fua == "1")
        idle_since = max(idle_since, end, model.busy_until)
        plans.append((now, idle_since))
        if now >= start_ns:
            for rail, (_, _, _, read, write, command, flush, *_) in p.rails.items():
                size_joules = {"read": read, "write": write}.get(kind, 0.0) * int(length)
                found[rail][kind] += command + size_joules + (flush if kind == "flush" else 0.0)
                found[rail]["flush"] += flush if fua == "1" else 0.0
    fold(end_ns)
    for begun, cause, moved, ns in works + model.work:
        if start_ns <= begun <= end_ns:
            name = "power_state" if cause == "wake" else cause
            for rail, causes in found.items():
                per_byte, watts = p.work.get((rail, cause), (0.0, 0.0))
                causes[name] = causes.get(name, 0.0) + moved * per_byte + ns * 1e-9 * watts
    for (at_ns, since), (until, _) in pairwise([*sorted(plans), (end_ns, 0)]):
        for rail, values in p.rails.items():
            watts = [values[2], *p.state_watts.get(rail, [])]
            steps = [-NEVER, *(since + idle + entry for idle, entry, _ in p.states), NEVER]
            for drawn, (begun, ended) in zip(watts, pairwise(steps), strict=True):
                seconds = (min(until, end_ns, ended) - max(at_ns, start_ns, begun)) * 1e-9
                found[rail]["idle"] += drawn * max(0.0, seconds)
    return found
