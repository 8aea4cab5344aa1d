# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that does something where a reader takes it for more than text.

It comes from hosts, drives, meters, BMCs, bundles, results folders, campaigns and command lines.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any


def texts(folder: Path) -> dict[str, str]:
    """Return hostile texts by kind. Each that is executed makes a file in `folder`."""
    touch = f"touch {folder}/executed-"
    return {
        "expression": "{{ 7*7 }}",
        "lookup": f"{{{{ lookup('pipe', '{touch}lookup') }}}}",
        "statement": f"{{% if lookup('pipe', '{touch}statement') %}}{{% endif %}}",
        "line feed": f"x\nansible_connection: local\nansible_ssh_common_args: -o ProxyCommand='{touch}lines'",
        "quote": f"'\"\\`{touch}backquote`$({touch}shell);{touch}semicolon",
        "connection": "ansible_connection: local",
        "tag": "!unsafe",
        "anchor": "&a [*a, !!python/object/apply:os.system ['true']]",
        "escape": "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m",
        "file": f"@{folder}/variables.yml",
        "option": f"--extra-vars=@{folder}/variables.yml",
        "path": f"../../../../../..{folder}/executed-path",
        "element": "'\"><script>owned</script><img src=x onerror=owned>",
        "formula": "=cmd|' /C calc'!A0",
        "long": "A" * 4096,
    }


# Each makes a file in the working directory where it is executed, or leaves a mark in what is
# written or shown where it is evaluated. They are short enough for the name of a drive.
NAMES = {
    "template and markup": "=owned{{7*7}}${7*7}owned'\"><hostile-x>$\\frac{$[/x]:bomb:\x1b[2J\x9b31m\u202e",
    "lookup": "{{lookup('pipe','touch executed-lookup')}}",
    "statement": "{%if lookup('pipe','touch executed-statement')%}{%endif%}",
    "shell": "'\"\\`touch executed-tick`$(touch executed-dollar);touch executed-semicolon",
    "line feed": "x\nansible_connection: local\n[test_hosts]\nowned=1",
    "tag": "!!python/object/apply:os.system [touch executed-tag]",
    "path": "../../executed-path",
    "formula": "@SUM(owned)",
    "query": "x'; DROP DATABASE owned; --\" OR 1=1 /* ,tag=owned\\ ",
}
_EVALUATED = re.compile(r"owned\W{0,3}49")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def evaluated(shown: str, kind: str = "text") -> list[str]:
    """Return what was evaluated of NAMES in an output: text, html, csv."""
    found = _EVALUATED.findall(shown)
    if kind == "html":
        parser = _Elements()
        parser.feed(shown)
        found += parser.found
    elif kind == "csv":
        cells = (cell for row in csv.reader(io.StringIO(shown, newline="")) for cell in row)
        found += [cell for cell in cells if cell.startswith(_FORMULAS) and "owned" in cell]
    return found


class _Elements(HTMLParser):
    """Finds the element of NAMES, and attributes that only it has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag.startswith("hostile") or any(name.startswith("hostile") for name, _ in attrs):
            self.found.append(tag)


def executed(folder: Path) -> list[str]:
    """Return what was executed of the texts of `folder`."""
    return sorted(path.name for path in folder.glob("**/executed-*"))


def with_each(value: Any, odd: Any) -> Iterator[Any]:
    """The value with each of its parts, at each depth, replaced by something odd; and keys too."""
    yield odd
    if isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: other} for other in with_each(one, odd))
            if isinstance(odd, str):
                yield {**{key: kept for key, kept in value.items() if key != name}, odd: one}
    elif isinstance(value, list) and value:
        yield from ([other, *value[1:]] for other in with_each(value[0], odd))
