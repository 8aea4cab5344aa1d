# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML that the rig reads has bounds: each file beyond them is one line, at once."""

import ast
import resource
import time

import pytest

from joulerig.rig.campaign import playbook
from joulerig.rig.common import paths, yaml_text
from joulerig.rig.common.errors import UserError
from joulerig.rig.lab import definitions, inventory, model
from joulerig.rig.lab.meters import kept
from joulerig.virtuallab import profile

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)
MERGED = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
BAD = {
    "a key twice": ("a: 1\nb: 2\na: 3\n", ":3: a: stands in line 1 too; allowed: a key once"),
    "a key twice in one line": ("{a: 1, a: 2}\n", ":1: a: stands in line 1 too"),
    "a key twice below others": (
        "drives:\n  one:\n    wipe_blank: false\n    wipe_blank: true\n",
        ":4: drives.one.wipe_blank: stands in line 3 too",
    ),
    "a key twice in other words": ("a: {1: x, 0x1: y}\n", "a.0x1: stands in line 1 too"),
    "two merges": ("a: &a {b: 1}\nc:\n  <<: *a\n  <<: *a\n", "c.<<: stands in line 3 too"),
    "a billion laughs": (LAUGHS, "over 100000 values, aliases replaced; allowed: at most as many"),
    "laughs by merging": (MERGED, "over 100000 values, aliases replaced"),
    "an alias in itself": ("a: &a [*a]\n", "a.0: an alias in what it stands for"),
    "brackets": ("[" * 5000, "over 64 levels deep"),
    "maps": ("{a: " * 5000, "over 64 levels deep"),
    "indents": ("".join(" " * n + "- \n" for n in range(400)), "over 64 levels deep"),
    "a list as a key": ("? [1]\n: 2\n", "a key that is a list or a mapping"),
    "a digit too many": (f"a: {'9' * 41}\n", "a number of 41 digits; allowed: at most 40"),
    "digits without end": (f"a: {'9' * 5000}\n", ":1: '99999"),
    "hexadecimal digits": (f"a: 0x{'f' * 5000}\n", "a number of 5002 digits"),
    "no date": ("a: 2026-13-45\n", ":1: '2026-13-45': month must be in 1..12"),
    "a Python object": ("a: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
    "too much": ("#" * (yaml_text.MOST_BYTES + 1), "over 1048576 bytes; allowed: at most as many"),
    "no text": (b"\xff\xfe\xfd", "allowed"),
    "control characters": ("a: \x01\n", "special characters are not allowed"),
    "two documents": ("---\na: 1\n---\na: 2\n", "expected a single document"),
}


@pytest.fixture(params=BAD)
def bad(request):
    text, says = BAD[request.param]
    return text if isinstance(text, bytes) else text.encode(), says


def test_each_is_one_line_at_once(tmp_path, bad):
    text, says = bad
    path = tmp_path / "host.yml"
    path.write_bytes(text)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(UserError) as error:
        yaml_text.read(path)
    assert time.process_time() - began < 5  # the bomb took over 40 s
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_people_write_is_read(tmp_path):
    path = tmp_path / "host.yml"
    path.write_text("a: &a {b: 1}\nc:\n  <<: *a\n  b: 2\nd: [*a, !unsafe '{{ x }}', 5.0]\n")
    assert yaml_text.read(path) == {"a": {"b": 1}, "c": {"b": 2}, "d": [{"b": 1}, "{{ x }}", 5.0]}


def in_host_vars(lab_files, text):
    lab_files.write()
    path = lab_files.folder / "host_vars" / "bench1.yml"
    path.write_bytes(text)
    return path, lambda: model.load(lab_files.folder / "inventory.ini")


def in_an_inventory(lab_files, text):
    path = lab_files.folder / "lab.yml"
    path.write_bytes(text)
    return path, lambda: inventory.read(path, ["drives"])


def in_a_playbook(lab_files, text):
    path = lab_files.folder / "study.yml"
    path.write_bytes(text)
    return path, lambda: playbook.mapping(path)


def in_a_folder(name, load):
    def put(lab_files, text):
        lab = lab_files.load()
        path = lab_files.folder / name
        path.parent.mkdir(parents=True)
        path.write_bytes(text)
        return path, lambda: load(lab, path)

    return put


READERS = {
    "host_vars": in_host_vars,
    "an inventory": in_an_inventory,
    "a playbook": in_a_playbook,
    "a definition": in_a_folder(
        "more/x.yml", lambda lab, path: definitions.read_one(path, "x", lambda *_: 0)
    ),
    "definitions": in_a_folder("more/x.yml", lambda lab, path: definitions.read(path, "x", lambda *_: 0)),
    "a profile": in_a_folder("profiles/x.yml", lambda lab, path: profile.read(path)),
    "a meter's file": in_a_folder("calibrations/x.yml", lambda lab, path: kept.load(path, kept.Kept)),
}


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_has_the_bounds(lab_files, reader, bad):
    text, says = bad
    path, read = READERS[reader](lab_files, text)
    with pytest.raises(UserError) as error:
        read()
    assert says in str(error.value)
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)


def test_nothing_else_parses_yaml():
    """A gate: `yaml_text` is the only module that calls PyYAML's readers."""
    writes = {"safe_dump", "dump", "SafeDumper", "YAMLError"}
    found = []
    for top in ("rig", "analysis", "virtuallab", "collectors", "workloads", "joulerig", "ansible"):
        for path in (paths.ROOT / top).rglob("*.py"):
            if path.is_symlink() or path == paths.ROOT / "rig" / "common" / "yaml_text.py":
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module == "yaml":
                    found.append(f"{path}:{node.lineno}")
                of_yaml = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml"
                if of_yaml and node.attr not in writes:
                    found.append(f"{path}:{node.lineno}: yaml.{node.attr}")
    assert found == []
