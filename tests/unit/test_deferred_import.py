# SPDX-License-Identifier: GPL-3.0-or-later
"""What the analysis imports, and when."""

from __future__ import annotations

import subprocess
import sys

import pytest


def printed(code: str) -> str:
    """Return what another interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "name", ["polars", "numpy.f2py.crackfortran", "unittest", "matplotlib", "scipy.stats"]
)
def test_comparisons_import_nothing_large_that_they_do_not_use(name):
    code = (
        "import sys, joulerig.analysis.results, joulerig.analysis.compare.cells; print({!r} in sys.modules)"
    )
    assert printed(code.format(name)) == "False"


@pytest.mark.parametrize(
    ("module", "name"), [("joulerig.rig.cli.main", "numpy"), ("joulerig.analysis.results", "scipy")]
)
def test_what_every_command_imports_needs_nothing_large(module, name):
    """Each takes a tenth of a second or more, at the start of every command."""
    assert printed(f"import sys, {module}; print({name!r} in sys.modules)") == "False"


@pytest.mark.parametrize(
    "use",
    [
        "numpy.testing.assert_array_equal([1], [1])",
        "import numpy.testing; numpy.testing.assert_array_equal([1], [1])",
        "from numpy.testing import assert_array_equal; assert_array_equal([1], [1])",
        "import numpy.f2py.crackfortran as f; f.crackfortran",
        "from numpy import f2py; f2py.get_include()",
    ],
)
def test_what_is_deferred_is_there_when_it_is_used(use):
    assert printed(f"import numpy, joulerig.analysis.statistics.interval\n{use}\nprint('used')") == "used"


def test_a_module_that_was_imported_stays_as_it_is():
    code = (
        "import numpy.testing as before\nfrom joulerig.deferred_import import defer\ndefer('numpy.testing')\n"
        "import numpy.testing as after; print(before is after)"
    )
    assert printed(code) == "True"


def test_a_module_that_does_not_exist_is_left_out():
    code = (
        "import sys\nfrom joulerig.deferred_import import defer\ndefer('json.no_such')\n"
        "print('json.no_such' in sys.modules)"
    )
    assert printed(code) == "False"
