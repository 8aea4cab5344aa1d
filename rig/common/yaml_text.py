# SPDX-License-Identifier: GPL-3.0-or-later
"""Read YAML that people write, within bounds: the only place where the rig parses YAML.

A key stands once in a mapping. The text, the depth, and the number of values after aliases have
been replaced are limited, so that no file makes a reader hang or run out of memory or stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from joulerig.rig.common import paths
from joulerig.rig.common.errors import UserError

MOST_BYTES = 1 << 20
MOST_DEPTH = 64
MOST_VALUES = 100_000
MOST_DIGITS = 40  # of a number
# Text that Ansible tags; encrypted text stays encrypted.
_ANSIBLE_TAGS = ("!unsafe", "!vault", "!vault-encrypted")


def read(path: Path) -> Any:
    """Return what a YAML file holds. Raises UserError, FileNotFoundError."""
    return parse(content(path), paths.short(path))


def content(path: Path) -> str:
    """Return the text of a YAML file. Raises UserError, FileNotFoundError."""
    source = paths.short(path)
    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise UserError(f"{source}: over {MOST_BYTES} bytes; allowed: at most as many")
        return found.decode()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: {error}; allowed: UTF-8") from None


def parse(text: str, source: str) -> Any:
    """Return what a YAML text holds; `source` names it in errors. Raises UserError."""
    if len(text) > MOST_BYTES:
        raise UserError(f"{source}: over {MOST_BYTES} bytes; allowed: at most as many")
    loader = None
    try:
        loader = _Loader(text)  # it refuses characters that YAML has not
        return loader.get_single_data()
    except _Refused as error:
        raise UserError(f"{source}:{error.line}: {error.text}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{source}: {' '.join(str(error).split())}") from None
    finally:
        if loader is not None:
            loader.dispose()


class _Refused(yaml.YAMLError):
    """YAML that is beyond the bounds."""

    def __init__(self, node: yaml.Node | yaml.Event, text: str) -> None:
        assert node.start_mark is not None
        self.line, self.text = node.start_mark.line + 1, text


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, within the bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._values: dict[yaml.Node, int] = {}  # of each node, aliases replaced; 0: not done

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            self._count(node, "")
        return node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        try:
            if self._depth > MOST_DEPTH:
                event = self.peek_event()  # type: ignore[no-untyped-call]
                raise _Refused(event, f"over {MOST_DEPTH} levels deep; allowed: at most as many")
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def _count(self, node: yaml.Node, key: str) -> int:
        """Return the values in a node. Raises _Refused for too many, and for a repeated key."""
        if node in self._values:
            if not self._values[node]:
                raise _Refused(node, f"{key}: an alias in what it stands for; allowed: one outside it")
            return self._values[node]
        self._values[node] = 0
        values = 1
        for name, below in self._parts(node, key):
            values += self._count(below, name)
            if values > MOST_VALUES:
                raise _Refused(
                    node,
                    f"{key or 'top level'}: over {MOST_VALUES} values, aliases replaced;"
                    " allowed: at most as many",
                )
        self._values[node] = values
        return values

    def _parts(self, node: yaml.Node, above: str) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the values of a node with their keys."""
        if isinstance(node, yaml.SequenceNode):
            for number, one in enumerate(node.value):
                yield f"{above}.{number}" if above else str(number), one
        elif isinstance(node, yaml.MappingNode):
            lines: dict[Any, int] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise _Refused(key, f"{above or 'top level'}: a key that is a list or a mapping")
                name = f"{above}.{key.value}" if above else key.value
                read = self._key(key)
                if read in lines:
                    raise _Refused(key, f"{name}: stands in line {lines[read]} too; allowed: a key once")
                lines[read] = key.start_mark.line + 1
                yield name, value

    def _key(self, node: yaml.ScalarNode) -> Any:
        return node.value if node.tag.endswith(":merge") else self.construct_object(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        try:
            found = super().construct_object(node, deep)
        except ValueError as error:  # a date that there is not, a number of thousands of digits
            raise _Refused(node, f"{node.value[:MOST_DIGITS]!r}: {error}") from None
        if isinstance(found, int) and len(node.value) > MOST_DIGITS:
            raise _Refused(
                node,
                f"{node.value[:MOST_DIGITS]}...: a number of {len(node.value)} digits;"
                f" allowed: at most {MOST_DIGITS}",
            )
        return found


def _as_written(loader: _Loader, node: yaml.Node) -> Any:
    """Return what a tag of Ansible's stands before."""
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.MappingNode)
    return loader.construct_mapping(node, deep=True)


for _tag in _ANSIBLE_TAGS:
    _Loader.add_constructor(_tag, _as_written)
