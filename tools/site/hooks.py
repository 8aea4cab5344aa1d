# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the site's pages that are not in docs/, for MkDocs (mkdocs.yml).

The README, the other documents at the top and the READMEs of folders become pages; the reference is
made from the code. Links are written relative to the repository, so that they work there too; here
they lead to the pages of the site, and a link to a source file becomes the name of that file.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]
import reference  # noqa: E402 - next to this file, which MkDocs loads by its path

TOP = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
PARTS = (
    "analysis",
    "ansible",
    "collectors",
    "firmware",
    "playbooks",
    "rig",
    "tests",
    "virtuallab",
    "workloads",
)
_LINK = re.compile(r"(!?)\[([^\]\[]+)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)")


def documents() -> dict[str, str]:
    """Return the site's page of each Markdown file of the repository, by path from the root."""
    pages = {path: uri for path, uri in TOP.items() if (ROOT / path).is_file()}
    pages |= {f"docs/{path.relative_to(ROOT / 'docs')}": str(path.relative_to(ROOT / "docs"))
              for path in sorted((ROOT / "docs").rglob("*.md"))}  # fmt: skip
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.md")):
            name = str(path.relative_to(ROOT))
            if not {"node_modules", "build", "fixtures"} & set(path.parts):
                pages[name] = (
                    "parts/" + name.removesuffix("/README.md").removesuffix(".md").replace("/", "-") + ".md"
                )
    return pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace each FOLDER/* of the navigation by that folder's pages."""
    pages = [*documents().values()]
    config.nav = _expand(config.nav, pages, _named(config.nav))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside of docs/ and those that are made from the code."""
    for path, uri in documents().items():
        if not path.startswith("docs/"):
            files.append(File.generated(config, uri, content=(ROOT / path).read_text()))
    for uri, text in reference.pages().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that hold in the repository into links that hold on the site."""
    sources = {uri: path for path, uri in documents().items()}
    source = sources.get(page.file.src_uri)
    return markdown if source is None else rewrite_links(markdown, source)


def rewrite_links(markdown: str, source: str) -> str:
    """Return the text of the file `source` (from the root) with links between pages of the site."""
    pages = documents()
    here = posixpath.dirname(pages[source])

    def replaced(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        page = pages.get(there) or pages.get(f"{there}/README.md")
        if page is None and there.startswith("docs/"):
            page = there.removeprefix("docs/")
        if page is not None:
            return f"{image}[{text}]({posixpath.relpath(page, here or '.')}{mark}{anchor})"
        if (ROOT / there).exists():
            return text if text.strip("`").rstrip("/") == there else f"{text} (`{there}`)"
        return match[0]

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= bool(_FENCE.match(line.strip()))
        lines.append(line if fenced else _LINK.sub(replaced, line))
    return "\n".join(lines)


def _named(nav: Any) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    return {uri for item in (nav.values() if isinstance(nav, dict) else nav) for uri in _named(item)}


def _expand(nav: Any, pages: list[str], named: set[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _expand(item, pages, named) for title, item in nav.items()}
    if isinstance(nav, list):
        expanded = [_expand(item, pages, named) for item in nav]
        return [entry for item in expanded for entry in (item if isinstance(item, list) else [item])]
    if isinstance(nav, str) and nav.endswith("/*"):
        return sorted(uri for uri in pages if posixpath.dirname(uri) == nav[:-2] and uri not in named)
    return nav
