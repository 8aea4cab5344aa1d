# SPDX-License-Identifier: GPL-3.0-or-later
"""`rig report`, `rig export`: write a campaign's lab report, its tables, its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from joulerig.plural import counted
from joulerig.rig.cli.options import CampaignArgument, out
from joulerig.rig.common.errors import UserError


def report(
    campaign: CampaignArgument = None,
    format: Annotated[str, typer.Option(help="html, pdf, or both separated by a comma.")] = "html,pdf",
) -> None:
    """Write a campaign's lab report."""
    from joulerig.analysis import report as reports
    from joulerig.rig.campaign import journal
    from joulerig.rig.common import paths

    formats = format.split(",")
    if unknown := sorted(set(formats) - {"html", "pdf"}):
        raise UserError(f"--format: {unknown[0]!r} is unknown; allowed: html, pdf")
    for path in reports.write(journal.find(paths.results(), campaign, former=True), formats):
        out.print(paths.short(path))


def export(
    campaign: CampaignArgument = None,
    output: Annotated[
        Path | None, typer.Option(help="Output folder (default: export/ in the campaign's folder).")
    ] = None,
    format: Annotated[str, typer.Option(help="csv, parquet, or both separated by a comma.")] = "csv,parquet",
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE.zip", help="Write one zip instead, which `rig verify` can check."),
    ] = None,
    coefficients: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Write the drives' energy coefficients instead."),
    ] = None,
    target: Annotated[
        str,
        typer.Option("--for", metavar="PROGRAM", help="Write the coefficients in that program's format."),
    ] = "",
) -> None:
    """Write a campaign's tables and series, with each column's meaning; or a bundle of all."""
    from joulerig.analysis import export as exports
    from joulerig.analysis import results
    from joulerig.analysis.bundle import environment, writer
    from joulerig.rig.campaign import journal, provenance
    from joulerig.rig.common import paths

    folder = journal.find(paths.results(), campaign)
    formats = format.split(",")
    if unknown := sorted(set(formats) - set(exports.FORMATS)):
        raise UserError(f"--format: {unknown[0]!r} is unknown; allowed: {', '.join(exports.FORMATS)}")
    if bundle is not None and output is not None:
        raise UserError("--bundle: cannot be combined with --output; a bundle is one file")
    if coefficients is not None and (bundle is not None or output is not None):
        raise UserError("--coefficients: cannot be combined with --bundle or --output")
    if coefficients is None and target:
        raise UserError("--for: only with --coefficients")
    try:
        if coefficients is not None:
            _export_coefficients(folder, coefficients, target)
            return
        if bundle is not None:
            written = writer.write(folder, bundle, environment.here(provenance.revision()))
            size = f"{counted(written.files, 'file')}, {counted(written.bytes, 'byte')}"
            out.print(f"{paths.short(written.path)}: {size}", soft_wrap=True)
            out.print(f"sha256 {written.sha256}", soft_wrap=True)
            return
        for path in exports.write(results.load(folder), output or folder / "export", formats):
            out.print(paths.short(path), soft_wrap=True)
    except OSError as error:
        raise UserError(
            f"{error.filename or bundle or coefficients or output or folder / 'export'}: cannot be written:"
            f" {error.strerror}"
        ) from None


def _export_coefficients(folder: Path, path: Path, target: str) -> None:
    """Write the coefficients of a campaign's drives, and print those that are withheld."""
    from joulerig.analysis import results
    from joulerig.analysis.coefficients import converters, document
    from joulerig.rig.common import paths

    if target and target not in converters.CONVERTERS:
        raise UserError(f"--for: {target!r} is unknown; allowed: {', '.join(converters.CONVERTERS)}")
    content = document.document(results.load(folder))
    if not content["drives"]:
        raise UserError(f"{folder.name}: no run has a drive by itself and a load that ended")
    text = converters.CONVERTERS[target](content) if target else document.as_text(content)
    document.write(path, text)
    for drive in content["drives"]:
        name = f"{drive['host']}/{drive['drive']}"
        given = counted(len(drive["coefficients"]), "coefficient")
        out.print(f"{name}: {given}", soft_wrap=True)
        for one in drive["withheld"]:
            of = f" of {one['cell']}" if one["cell"] else ""
            out.print(f"{name}: withheld: {one['name']}{of}: {one['reason']}", soft_wrap=True)
    out.print(paths.short(path), soft_wrap=True)
