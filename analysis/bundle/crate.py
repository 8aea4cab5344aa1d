# SPDX-License-Identifier: GPL-3.0-or-later
"""`ro-crate-metadata.json`: what a bundle is, in the terms of RO-Crate 1.1.

Source: https://w3id.org/ro/crate/1.1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from joulerig.analysis.results.campaign import Campaign

FILE = "ro-crate-metadata.json"
CONTEXT = "https://w3id.org/ro/crate/1.1/context"
CONFORMS_TO = "https://w3id.org/ro/crate/1.1"
LICENCE = "Not stated: ask who made the measurements."

_FORMATS = {
    ".csv": "text/csv",
    ".json": "application/json",
    ".sqlite": "application/vnd.sqlite3",
    ".parquet": "application/vnd.apache.parquet",
    ".html": "text/html",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
}
_ABOUT = {
    "journal.sqlite": "Every run with its phases, performance, energy, AI and what happened, as SQLite.",
    "environment.json": "The program and the libraries that made this bundle.",
    "manifest-sha256.txt": "SHA-256 of every other file, as `sha256sum --check` reads it.",
    "export/schema.json": "What each column of the tables in export/ means, with its unit.",
    "report/report.html": "The lab report.",
    "report/report.pdf": "The lab report, for print.",
}
_ABOUT_OF_RUN = {
    "result.json": "What the test host's module returned.",
    "load.json": "The load's own report.",
    "settings.json": "The settings that were in effect.",
    "power.csv": "The power trace at the stored rate, with the meter's counters.",
    "progress.csv": "What the load reported while it ran.",
    "processor.csv": "The energy counter of the test host's processor packages.",
    "truth.json": "What the virtual drives say of the phases' ends.",
    "witness.jsonl": "What the writer asked of a drive until its power was cut, and what was acknowledged.",
    "before.jsonl": "What was on the drive before its first power cut, sector by sector.",
    "after.jsonl": "What was read back after the power cut, sector by sector.",
    "cut.json": "What is known of the power cut: hold-up, mount, check, health.",
    "twin_cut.json": "What the virtual drive says that it lost.",
    "precondition.json": "How the drive came to its state.",
    "smart_before.json": "The drive's own counters before the run.",
    "smart_after.json": "The drive's own counters after the run.",
}


def document(campaign: Campaign, sizes: Mapping[str, int | None], environment: Mapping[str, Any]) -> bytes:
    """Return `metadata` as JSON."""
    return (json.dumps(metadata(campaign, sizes, environment), indent=1, ensure_ascii=False) + "\n").encode()


def metadata(
    campaign: Campaign, sizes: Mapping[str, int | None], environment: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the metadata of a bundle of these files.

    `sizes`: by name; a size that is not known is None.

    The date is the campaign's (its end, or its latest run's), so that the same campaign gives the
    same text.
    """
    files = [_file(name, sizes[name]) for name in sorted(sizes)]
    program = {
        "@id": "#joulerig",
        "@type": "SoftwareApplication",
        "name": "Joulerig",
        "softwareVersion": str(environment.get("revision") or "not known"),
    }
    done = {
        "@id": "#campaign",
        "@type": "CreateAction",
        "name": f"Campaign {campaign.id}",
        "startTime": _instant(campaign.created_ns),
        "endTime": _instant(_last_ns(campaign)),
        "instrument": {"@id": program["@id"]},
        "result": {"@id": "./"},
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "identifier": campaign.id,
        "name": f"{campaign.name}: storage energy campaign {campaign.id}",
        "description": _description(campaign),
        "datePublished": _instant(_last_ns(campaign)),
        "license": LICENCE,
        "hasPart": [{"@id": one["@id"]} for one in files],
        "mentions": [{"@id": done["@id"]}],
    }
    descriptor = {
        "@id": FILE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": CONFORMS_TO},
        "about": {"@id": "./"},
    }
    return {"@context": CONTEXT, "@graph": [descriptor, root, done, program, *files]}


def problems(document: Any, names: set[str]) -> list[str]:
    """List what is wrong with a bundle's metadata document; empty where it holds.

    `names`: the other files of the bundle.
    """
    if not isinstance(document, dict) or document.get("@context") != CONTEXT:
        return [f"@context is not {CONTEXT}"]
    graph = document.get("@graph")
    if not isinstance(graph, list) or not all(isinstance(one, dict) and "@id" in one for one in graph):
        return ["@graph is no list of entities with @id"]
    entities = {one["@id"]: one for one in graph}
    found = [] if len(entities) == len(graph) else ["an @id is there twice"]
    descriptor, root = entities.get(FILE, {}), entities.get("./", {})
    wanted: list[tuple[str, Any, Any]] = [
        (f"{FILE}: @type", descriptor.get("@type"), "CreativeWork"),
        (f"{FILE}: about", descriptor.get("about"), {"@id": "./"}),
        (f"{FILE}: conformsTo", descriptor.get("conformsTo"), {"@id": CONFORMS_TO}),
        ("./: @type", root.get("@type"), "Dataset"),
    ]
    found += [f"{what} is {value!r}, not {right!r}" for what, value, right in wanted if value != right]
    found += [
        f"./: no {key}" for key in ("name", "description", "datePublished", "license") if not root.get(key)
    ]
    names = {quote(name) for name in names}
    parts = {one.get("@id") for one in root.get("hasPart") or [] if isinstance(one, dict)}
    found += [f"{name}: not in hasPart" for name in sorted(names - parts)]
    found += [f"{name}: in hasPart, and not in the bundle" for name in sorted(map(str, parts - names))]
    found += [
        f"{name}: no entity of @type File"
        for name in sorted(names & parts)
        if not _is_file(entities.get(name))
    ]
    return found


def _is_file(entity: Mapping[str, Any] | None) -> bool:
    return entity is not None and entity.get("@type") == "File"


def _file(name: str, size: int | None) -> dict[str, Any]:
    suffix = f".{name.rsplit('.', 1)[-1]}"
    about = _ABOUT.get(name) or (
        _ABOUT_OF_RUN.get(name.rsplit("/", 1)[-1]) if name.startswith("runs/") else None
    )
    entity: dict[str, Any] = {"@id": quote(name), "@type": "File", "name": name}
    if about:
        entity["description"] = about
    if suffix in _FORMATS:
        entity["encodingFormat"] = _FORMATS[suffix]
    return entity | ({"contentSize": str(size)} if size is not None else {})


def _description(campaign: Campaign) -> str:
    counts: dict[str, int] = {}
    for run in campaign.runs:
        counts[run.status] = counts.get(run.status, 0) + 1
    outcomes = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    virtual = " All figures come from a virtual lab: simulated drives and meters." if campaign.virtual else ""
    return (
        f"{campaign.question} Runs: {outcomes}.{virtual} `rig verify` computes every number again from the"
        " raw files herein."
    )


def _last_ns(campaign: Campaign) -> int:
    ends = [run.ended_ns for run in campaign.runs if run.ended_ns is not None]
    return campaign.finished_ns or max(ends, default=campaign.created_ns)


def _instant(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).isoformat()
