# SPDX-License-Identifier: GPL-3.0-or-later
"""A self-contained HTML document as PDF.

Imports little, so that `second_process` is soon ready to make one.
"""

from __future__ import annotations

import logging
from types import ModuleType

from joulerig.garbage import none_collected


def pdf(document: str) -> bytes:
    """Return a document as PDF. Nothing outside it is fetched: it holds all it needs."""
    weasyprint, plain_paths = import_weasyprint()
    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of CSS that is for screens
    fetcher = weasyprint.urls.URLFetcher(allowed_protocols=["data"], fail_on_errors=True)
    # WeasyPrint keeps all its boxes to the end.
    with none_collected(), plain_paths.drawn_at_once():
        written: bytes | None = weasyprint.HTML(string=document, url_fetcher=fetcher).write_pdf()
    assert written is not None
    return written


def import_weasyprint() -> tuple[ModuleType, ModuleType]:
    """Import WeasyPrint, and `plain_paths`: they take as long as a small report's HTML."""
    import weasyprint

    from joulerig.analysis.drawing import plain_paths

    return weasyprint, plain_paths
