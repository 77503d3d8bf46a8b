"""The onnx package's node tests whose operators are expanded to ONNX's functions.

As they stand, the same operators are all held by the other files; expanded, one of each kind is
held every time and every case by `make test-all`.
"""

from __future__ import annotations

import pytest

from tests.conformance.onnx_nodes import one_of_each_kind, run, without_reason


def expanded(name: str) -> bool:
    return "expanded" in name


def test_one_function_of_each_kind_gives_what_onnx_says() -> None:
    kinds = one_of_each_kind(expanded)
    assert len(kinds) >= 178
    found = list(run(lambda name: name in kinds))
    assert {o.name for o in found} == kinds
    assert not without_reason(found)
    passed = [o for o in found if o.kind == "pass"]
    assert len(passed) >= 153
    assert sum(not o.library for o in passed) >= 146


@pytest.mark.exhaustive
def test_functions_give_what_onnx_says() -> None:
    found = list(run(expanded))
    assert not without_reason(found)
    passed = [o for o in found if o.kind == "pass"]
    assert len(passed) >= 465
    assert sum(not o.library for o in passed) >= 430
