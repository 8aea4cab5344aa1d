# SPDX-License-Identifier: GPL-3.0-or-later
"""A registry of bundles: a campaign is listed with its figure, an edited one is not."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

from tests.bench.beyond import NotShownError
from tests.bench.beyond._campaigns import measured, provided
from tests.support.lab_driver import Lab


def show(lab: Lab) -> str:
    campaign = measured(lab, "registry")
    bundles, site = lab.folder / "bundles", lab.folder / "site"
    bundles.mkdir(exist_ok=True)
    good = bundles / "good.zip"
    provided(lab.rig("export", campaign, "--bundle", str(good)), "rig export --bundle")
    edited(good, bundles / "edited.zip")
    done = lab.rig("registry", "build", str(bundles), "--output", str(site))
    index = json.loads((site / "registry.json").read_text())
    listed = [Path(one["file"]).name for one in index["bundles"]]
    refused = {one["file"]: one["reasons"] for one in index["not_listed"]}
    if (done.returncode, listed, list(refused)) != (1, ["good.zip"], ["edited.zip"]):
        raise NotShownError(f"exit code {done.returncode}, listed {listed}, not listed {refused}")
    [cell] = index["bundles"][0]["cells"]
    return f"listed with {cell['ai_ops_per_joule']:.4g} ops/J; the edited one: {refused['edited.zip'][0]}"


def edited(bundle: Path, target: Path) -> None:
    """Copy a bundle with a tenth fewer joules in its journal."""
    journal = target.with_suffix(".sqlite")
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "journal.sqlite":
                journal.write_bytes(content)
                with closing(sqlite3.connect(journal)) as database, database:
                    database.execute("UPDATE result SET joules = joules * 0.9")
                content = journal.read_bytes()
            new.writestr(name, content)
    journal.unlink()
