# SPDX-License-Identifier: GPL-3.0-or-later
"""The capturers' command line: srcap's, less what belongs to its ring and its sums."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from joulerig.capturers import capture, frames

UNREADABLE = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise capture.UsageError(message)


def _parser() -> _Parser:
    parser = _Parser(prog="python -m joulerig.capturers", description=__doc__)
    parser.add_argument("--driver", metavar="DRIVER[:key=value...]", help=", ".join(capture.names()))
    parser.add_argument("--channels", default="", metavar="A,B", help="the channels to read")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    parser.add_argument("--program", metavar="JSON", help="of command: the program and its arguments")
    parser.add_argument("--silence-seconds", type=float, default=5.0, help="give up after so long")
    parser.add_argument("--open-seconds", type=float, default=0.0, help="opening may take so long")
    parser.add_argument("--scan", action="store_true", help="print what answers there, as JSON")
    parser.add_argument("--find", action="store_true", help="print what may be there, without --driver")
    return parser


def _config(given: argparse.Namespace, options: dict[str, str]) -> capture.Config:
    try:
        program = json.loads(given.program) if given.program else []
    except (ValueError, RecursionError) as error:
        raise capture.UsageError(f"--program: {error}") from None
    if not isinstance(program, list) or not all(isinstance(word, str) for word in program):
        raise capture.UsageError("--program: allowed: a JSON list of strings")
    return capture.Config(
        options=options,
        settings=dict(pair.partition("=")[::2] for pair in given.set),
        channels=[name for name in given.channels.split(",") if name],
        program=program,
        open_seconds=max(given.open_seconds, given.silence_seconds),
    )


def _described(name: str, found: capture.Found) -> dict[str, Any]:
    channels = [{"name": c, "type": "analog", "index": i} for i, c in enumerate(found.channels)]
    return {"driver": name, **vars(found.identity), "connection": found.connection, "channels": channels}


def _scanned(name: str, config: capture.Config) -> list[dict[str, Any]]:
    """Return the instrument that is at the connection, as `srcap --scan` prints it."""
    instrument = capture.opened(name, config)
    try:
        connection = config.options.get("conn", "")
        return [_described(name, capture.Found(connection, instrument.identity, list(instrument.quantities)))]
    finally:
        instrument.close()


def _found() -> list[dict[str, Any]]:
    """Return what all drivers find by themselves."""
    return [_described(name, one) for name in capture.names() for one in capture.driver(name).find()]


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit code."""
    try:
        given = _parser().parse_args(arguments)
        if given.find:
            print(json.dumps(_found()))
            return 0
        if not given.driver:
            raise capture.UsageError(f"--driver: missing; allowed: {', '.join(capture.names())}")
        for option, least in (("silence", 0.1), ("open", 0.0)):
            if not least <= (seconds := getattr(given, f"{option}_seconds")) <= 3600:
                raise capture.UsageError(f"--{option}-seconds: {seconds:g}; allowed: {least:g} to 3600")
        name, options = capture.parsed(given.driver)
        config = _config(given, options)
        if given.scan:
            print(json.dumps(_scanned(name, config)))
            return 0
        if not config.channels:
            raise capture.UsageError("--channels: missing; allowed: names, separated by commas")
        return capture.run(name, config, given.silence_seconds, frames.Writer(sys.stdout.buffer))
    except capture.UsageError as error:
        capture.say(str(error))
        return capture.USAGE
    except capture.AbsentError as error:
        capture.say(str(error))
        return capture.ABSENT
    except BrokenPipeError:
        return 0  # the reader has gone
    except (capture.InstrumentError, OSError) as error:
        capture.say(str(error))
        return capture.FAILED
    except UNREADABLE as error:  # data that no driver expects, of an instrument or of a program
        capture.say(f"the instrument's data cannot be read: {type(error).__name__}: {str(error)[:200]}")
        return capture.FAILED


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # Not by the interpreter's own end, which waits for libraries' threads.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    os._exit(code)
