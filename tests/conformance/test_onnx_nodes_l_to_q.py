"""The onnx package's node tests, as their operators stand, from L to Q.

Those whose operators are expanded to ONNX's functions are in test_onnx_nodes_expanded.py.
"""

from __future__ import annotations

from tests.conformance.onnx_nodes import run, without_reason


def test_operators_give_what_onnx_says() -> None:
    found = list(run(lambda name: "expanded" not in name and "test_l" <= name < "test_r"))
    assert not without_reason(found)
    passed = [o for o in found if o.kind == "pass"]
    assert len(passed) >= 270
    assert sum(not o.library for o in passed) >= 240
