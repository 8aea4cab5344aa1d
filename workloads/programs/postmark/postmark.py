# SPDX-License-Identifier: GPL-3.0-or-later
"""Postmark: small files of a mail or news server, created, read, appended to and deleted.

Whole passes until the seconds are over, at least one; each is a run of Postmark: it creates its
files, does its transactions, deletes all. One op is a transaction. The figure is transactions a
second while it does these alone, by our own clock: Postmark's has a resolution of 1 s. Bytes are as
it prints them, three digits.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import program

DEFAULTS = {
    "files": 500,
    "transactions": 500,
    "least_bytes": 500,
    "most_bytes": 9770,
    "subdirectories": 0,
    "read_block_bytes": 512,
    "write_block_bytes": 512,
    "buffered": True,
    "read_bias": 5,
    "create_bias": 5,
}
LEAST = {"subdirectories": 0, "read_bias": -1, "create_bias": -1}  # -1: none of the two at all
FOLDER = "joulerig-postmark"
UNITS = {"bytes": 1, "kilobytes": 1 << 10, "megabytes": 1 << 20, "gigabytes": 1 << 30}
BEGUN, DONE = "Performing transactions", "Done"


def layout(given: program.Given) -> None:
    """Make an empty folder: Postmark creates its files in each pass."""
    _check(given.settings)
    program.fresh(given.directory / FOLDER)


def load(given: program.Given, record: program.Record) -> None:
    """Run passes of Postmark, each with its own seed, derived from the given one."""
    _check(given.settings)
    folder = program.fresh(given.directory / FOLDER)
    record.read_bytes = record.write_bytes = 0
    lengths: list[float] = []
    record.details["transaction_seconds"] = lengths
    with record.measured():
        for number in record.passes():
            seconds, output = _one_pass(folder, commands(given.settings, given.seed * 1000 + number))
            read, written = moved(output)
            record.details["postmark"] = output.partition("\n")[0].strip()
            lengths.append(seconds)
            record.ops += given.settings["transactions"]
            record.read_bytes += read
            record.write_bytes += written
            record.set_figure("transactions", "1/s", record.ops / sum(lengths), "higher")


def _check(settings: dict) -> None:
    """Refuse settings that Postmark would take and make nothing of. Raises Failed."""
    least, most = settings["least_bytes"], settings["most_bytes"]
    if least > most:
        raise program.Failed(f"--settings: least_bytes: {least}; allowed: at most most_bytes ({most})")


def commands(settings: dict, seed: int) -> str:
    """Return Postmark's commands; its location is the folder that it runs in."""
    lines = [
        "set location .",
        f"set number {settings['files']}",
        f"set transactions {settings['transactions']}",
        f"set size {settings['least_bytes']} {settings['most_bytes']}",
        *([f"set subdirectories {settings['subdirectories']}"] if settings["subdirectories"] else []),
        f"set read {settings['read_block_bytes']}",
        f"set write {settings['write_block_bytes']}",
        f"set buffering {'true' if settings['buffered'] else 'false'}",
        f"set bias read {settings['read_bias']}",
        f"set bias create {settings['create_bias']}",
        f"set seed {seed % (1 << 31)}",
        "set report verbose",
        "run",
        "quit",
    ]
    return "\n".join(lines) + "\n"


def _one_pass(folder: Path, words: str) -> tuple[float, str]:
    """Run one pass; return the seconds of its transactions and all that it said.

    Raises Failed.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with program.child(["postmark"], "postmark", cwd=folder, **pipes) as process:
        process.stdin.write(words.encode())
        process.stdin.close()
        output, began, ended = "", None, None
        while block := os.read(process.stdout.fileno(), 65536):
            output += block.decode(errors="replace")
            place = output.find(BEGUN)
            if place >= 0 and began is None:
                began = time.monotonic()
            if place >= 0 and ended is None and DONE in output[place:]:
                ended = time.monotonic()
            if "Error:" in output:  # it would go on, with nothing to work on
                raise program.Failed(_complaint(output))
        process.wait()
    if process.returncode or began is None or ended is None:
        raise program.Failed(f"postmark: exit {process.returncode}: {_complaint(output)}")
    return max(ended - began, 1e-6), output


def _complaint(output: str) -> str:
    """Find the line of an error, else the last one."""
    lines = [line.replace("pm>", "").strip() for line in output.splitlines()]
    said = [line for line in lines if line] or ["it said nothing"]
    at = next((line[line.index("Error:") :] for line in said if "Error:" in line), said[-1])
    return f"postmark: {at}" if at.startswith("Error:") else at


def moved(output: str) -> tuple[int, int]:
    """Return the bytes read and written by Postmark's report.

    Raises Failed where it has none.
    """
    found = []
    for way in ("read", "written"):
        line = re.search(rf"^\s*([0-9.]+) (\w+) {way} \([^()]* per second\)\s*$", output, re.MULTILINE)
        if not line or line[2] not in UNITS:
            raise program.Failed(f"postmark: its report has no bytes {way}: {_complaint(output)}")
        found.append(round(float(line[1]) * UNITS[line[2]]))
    return found[0], found[1]


if __name__ == "__main__":
    program.main("postmark", DEFAULTS, "transaction", layout, load, LEAST)
