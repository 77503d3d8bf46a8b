"""Random graphs and ONNX's node tests as programs that others run, a few of them."""

from __future__ import annotations

import shutil

import pytest

from tests.conformance.onnx_nodes import cases
from tests.portable.c_build import require_compiler
from tests.portable.elsewhere import PART, graphs, nodes

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")


@needs_node
@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 300, PART))
def test_random_graphs_are_right_in_webassembly(first: int) -> None:
    tally = graphs("wasm", range(first, first + PART))
    assert not tally.wrong, str(tally)
    assert tally.counts["right"] > tally.counts["refused"], str(tally)


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 300, PART))
def test_random_graphs_are_right_with_sanitizers(first: int) -> None:
    require_compiler()
    tally = graphs("c", range(first, first + PART))
    assert not tally.wrong, str(tally)
    assert tally.counts["right"] > tally.counts["refused"], str(tally)


@needs_node
@pytest.mark.few(1)
@pytest.mark.parametrize("part", range(0, 1836, 3 * PART))
def test_node_tests_of_onnx_are_right_in_webassembly(part: int) -> None:
    tally = nodes("wasm", range(part, min(part + 3 * PART, len(cases()))))
    assert not tally.wrong, str(tally)
    assert tally.counts["right"] > 0, str(tally)
