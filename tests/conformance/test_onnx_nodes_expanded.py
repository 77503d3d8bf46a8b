"""The onnx package's node tests whose operators are expanded to ONNX's functions."""

from __future__ import annotations

from tests.conformance.onnx_nodes import run, without_reason


def test_functions_give_what_onnx_says() -> None:
    found = list(run(lambda name: "expanded" in name))
    assert not without_reason(found)
    passed = [o for o in found if o.kind == "pass"]
    assert len(passed) >= 465
    assert sum(not o.library for o in passed) >= 430
