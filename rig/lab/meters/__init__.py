# SPDX-License-Identifier: GPL-3.0-or-later
"""Meters: the families of instruments that the rig knows, and what a person at the bench does with them.

One small file a family, with its inventory config in the docstring; `other` is for any other libsigrok
driver.
"""

from __future__ import annotations

from joulerig.rig.lab.meters.families import (
    arachnid_labs_re_load_pro,
    demo,
    hameg_hmo,
    korad_kaxxxxp,
    other,
    rdtech_dps,
    scpi_dmm,
    scpi_pps,
)
from joulerig.rig.lab.meters.family import Accuracy, Family

FAMILIES: dict[str, Family] = {
    family.driver: family
    for family in (
        module.FAMILY
        for module in (
            hameg_hmo,
            scpi_pps,
            scpi_dmm,
            rdtech_dps,
            korad_kaxxxxp,
            arachnid_labs_re_load_pro,
            demo,
        )
    )
}

ACCURACY: dict[str, dict[str, Accuracy]] = {
    name: classes for family in FAMILIES.values() for name, classes in family.accuracy.items()
}


def family(driver: str) -> Family:
    """The family of libsigrok's `driver`; of one that the rig has no file for, `other`'s with its name."""
    return FAMILIES.get(driver) or other.family(driver)
