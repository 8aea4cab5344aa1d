# SPDX-License-Identifier: GPL-3.0-or-later
"""A terminal shows text from elsewhere as text, and obeys nothing in it."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

from joulerig.rig.cli import terminal
from joulerig.rig.common import bounded
from tests.support import ROOT, hostile_text

TEXTS = hostile_text.texts(Path("/tmp"))


def shown(renderable: object, **options: object) -> str:
    console = terminal.Terminal(file=io.StringIO(), width=10_000)
    console.print(renderable, **options)
    return console.file.getvalue()


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("soft_wrap", [True, False])
def test_a_line_is_the_text_without_control_characters(kind, soft_wrap):
    text = TEXTS[kind]
    expected = bounded.printable(text, keep="\n") + "\n"
    assert shown(text, soft_wrap=soft_wrap) == expected
    assert shown(Text(text), soft_wrap=soft_wrap) == expected.replace("\ufffd[2J", "[2J", 1)  # Rich drops BEL


@pytest.mark.parametrize("kind", TEXTS)
def test_a_table_shows_the_text_in_every_place(kind):
    text = TEXTS[kind]
    table = Table("head", text, title=text)
    table.add_row(text, Text(text, "bold"))
    found = shown(table)
    assert bounded.printable(found, keep="\n") == found
    for line in bounded.printable(text, keep="\n").replace("\ufffd", "").splitlines():
        assert found.replace("\ufffd", "").count(line) >= 4


def test_a_screen_that_is_drawn_over_and_over_sends_no_control_characters_of_its_text():
    console = terminal.Terminal(file=io.StringIO(), width=200, force_terminal=True, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        live.update(Text(TEXTS["escape"]), refresh=True)
    assert "owned" in console.file.getvalue()
    assert [one for one in ("\x1b]0;", "\x1b[2J", "\u202e", "\x9b") if one in console.file.getvalue()] == []


def test_a_page_of_text_has_none_either():
    console = terminal.page(200)
    console.print(TEXTS["escape"])
    assert "owned" in console.export_text()
    assert "\x1b" not in shown(console.export_text())


# What `print` may be given: JSON, which escapes, and text that was made printable.
PRINTED = {"json.dumps", "measured.as_json", "printable", "factors.reference"}


def faults(text: str) -> Iterator[str]:
    """Yield what prints, or makes a console, by another way than the terminal's."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name == "print" and node.args:
            [given] = node.args
            if not (isinstance(given, ast.Call) and ast.unparse(given.func) in PRINTED):
                yield f"{node.lineno}: print"
        if name in ("Console", "typer.echo", "sys.stdout.write", "sys.stderr.write"):
            yield f"{node.lineno}: {name}"
        if any(keyword.arg in ("markup", "emoji") for keyword in node.keywords) and name != "TextColumn":
            yield f"{node.lineno}: markup"


@pytest.mark.parametrize(
    "code", ["print(text)", "print(f'{text}')", "Console()", "typer.echo(text)", "out.print(a, markup=True)"]
)
def test_another_way_to_print_is_found(code):
    assert list(faults(code))


def test_commands_print_by_the_terminal_alone():
    files = [*(ROOT / "rig/cli").rglob("*.py"), *(ROOT / "rig/campaign").rglob("*.py")]
    own = ROOT / "rig/cli/terminal.py"
    found = {str(path.relative_to(ROOT)): list(faults(path.read_text())) for path in files if path != own}
    assert {name: one for name, one in found.items() if one} == {}
