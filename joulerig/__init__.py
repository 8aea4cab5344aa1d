# SPDX-License-Identifier: GPL-3.0-or-later
"""Energy-aware storage testing: a hardware-in-the-loop rig that measures work per joule.

`joulerig.open` reads a campaign's results as polars frames. The sub-packages are folders of the
repository's top level, linked here: `joulerig.analysis` (energy, statistics, reports),
`joulerig.rig` (the controller) and `joulerig.virtuallab` (hosts and drives without hardware).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from joulerig.errors import JoulerigError

if TYPE_CHECKING:
    from os import PathLike

    from joulerig.notebook import Results

__all__ = ["JoulerigError", "open"]
__version__ = "0.1.0"


def open(path: str | PathLike[str]) -> Results:
    """Open a campaign's results folder or bundle as polars frames with units in their columns.

    Parameters
    ----------
    path : str or path
        `results/<campaign-id>`, also while the campaign runs: its state at this instant; or a
        bundle, a .zip that `rig export --bundle` wrote or the folder it was unpacked into. A .zip
        is unpacked into a temporary folder that lives as long as the object returned; what it holds
        is not verified (`rig verify` does that).

    Returns
    -------
    joulerig.notebook.Results
        `runs`, `cells()`, `ranking()`, `pairs()`, `phases()`, `energy()`, `power(run)`.

    Raises
    ------
    JoulerigError
        One line: ResultsError where there is no such folder or file, or it holds no campaign of
        this project; BundleError where it is no zip, or one that is damaged or unsafe to unpack.

    Examples
    --------
    ::

        from pathlib import Path

        import joulerig

        campaign = joulerig.open(max(Path("results").glob("demo-*")))  # or a bundle: "demo.zip"
        print(campaign)
        print(campaign.runs.select("drive", "filesystem", "scheduler", "status", "joules"))
        print(campaign.cells().select("drive", "filesystem", "scheduler", "^ai_ops_per_joule(_interval.*)?$"))
        print(campaign.ranking().select("drive", "place", "filesystem", "scheduler", "letters"))
        best = campaign.ranking()["cell"][0]
        run = campaign.runs.filter(cell=best, status="ok")["run"][0]
        print(campaign.power(run).select("time_ns", "drive", "rail", "watts"))
    """  # noqa: W505 - a line of the example
    from joulerig import notebook  # here, so that importing joulerig stays fast

    return notebook.open_results(path)
