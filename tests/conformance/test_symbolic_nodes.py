"""The onnx package's node tests over symbolic dims: a case of each operator; by `make test-all`
every case.
"""

from __future__ import annotations

import pytest

from tests.conformance.onnx_nodes import cases, first_of_each
from tests.conformance.symbolic_nodes import run, unexpected

PARTS = 6


def checked(names: list[str], part: int) -> None:
    """Run a part of the cases."""
    chosen = set(names[part::PARTS])
    found = list(run(chosen.__contains__))
    assert len(found) > len(chosen)
    assert not [o for o in found if unexpected(o)]


@pytest.mark.parametrize("part", range(PARTS))
def test_an_operator_gives_over_symbols_what_onnx_says(part: int) -> None:
    checked(first_of_each(lambda name: "expanded" not in name), part)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_gives_over_symbols_what_onnx_says(part: int) -> None:
    checked([str(case.name) for case in cases()], part)
