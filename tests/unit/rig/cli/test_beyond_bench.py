# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of `make bench-beyond`, whose features can be shown in several sittings."""

import importlib
import json
from pathlib import Path

beyond = importlib.import_module("tests.bench.beyond.__main__")


def test_features_that_were_not_asked_for_keep_what_they_have(tmp_path: Path) -> None:
    output = tmp_path / "beyond.json"
    beyond.record(output, {"gate": {"seconds": 2.0, "shown": "x"}, "audit": {"seconds": 1.0, "shown": "y"}})
    beyond.record(output, {"gate": {"seconds": 3.0, "shown": None, "problem": "z"}})
    found = json.loads(output.read_text())
    assert found == {
        "audit": {"seconds": 1.0, "shown": "y"},
        "gate": {"seconds": 3.0, "shown": None, "problem": "z"},
    }
    assert list(found) == ["audit", "gate"]


def test_a_feature_that_there_is_no_longer_is_left_out(tmp_path: Path) -> None:
    output = tmp_path / "beyond.json"
    output.write_text(json.dumps({"gone": {"seconds": 1.0, "shown": "x"}}))
    beyond.record(output, {"gate": {"seconds": 2.0, "shown": "x"}})
    assert list(json.loads(output.read_text())) == ["gate"]
