# SPDX-License-Identifier: GPL-3.0-or-later
"""Each chapter's template has a typed content."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from joulerig.analysis.report.chapter import Chapter
from joulerig.analysis.report.chapters import CHAPTERS


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_the_content_of_a_chapter_is_a_dataclass(chapter: Chapter[object]) -> None:
    returned = typing.get_type_hints(chapter.content)["return"]
    kinds = {kind for kind in typing.get_args(returned) or (returned,) if kind is not type(None)}
    assert kinds
    assert all(dataclasses.is_dataclass(kind) for kind in kinds)
