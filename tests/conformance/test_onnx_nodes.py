"""The onnx package's node tests, as their operators stand, from A to K.

One of each kind is held every time and every case by `make test-all`. Those whose
operators are expanded to ONNX's functions are in test_onnx_nodes_expanded.py.
"""

from __future__ import annotations

import pytest

from tests.conformance.onnx_nodes import one_of_each_kind, run, without_reason


def as_it_stands(name: str) -> bool:
    return "expanded" not in name and name < "test_l"


def test_one_operator_of_each_kind_gives_what_onnx_says() -> None:
    kinds = one_of_each_kind(as_it_stands)
    assert len(kinds) >= 252
    found = list(run(lambda name: name in kinds))
    assert {o.name for o in found} == kinds
    assert not without_reason(found)
    passed = [o for o in found if o.kind == "pass"]
    assert len(passed) >= 246
    assert sum(not o.library for o in passed) >= 229


@pytest.mark.exhaustive
def test_operators_give_what_onnx_says() -> None:
    found = list(run(as_it_stands))
    assert not without_reason(found)
    passed = [o for o in found if o.kind == "pass"]
    assert len(passed) >= 665
    assert sum(not o.library for o in passed) >= 600
