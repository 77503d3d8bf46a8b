"""Channels that are shuffled into pixels lie in the order of the pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import reads
from explorer.ir.program import Program
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from tests.transforms.programs import Shape, keeps_values, legalized, weights

node = helper.make_node


def upsampled(tmp_path: Path, mode: str, more: str = "", factor: int = 2) -> Program:
    """conv, bias, pixel shuffle, a sum; `more` reads the convolution as well."""
    channels = 16 * factor**2
    nodes = [
        node("Conv", ["x", "w", "b"], ["a"]),
        node("DepthToSpace", ["a"], ["s"], blocksize=factor, mode=mode),
        node("Add", ["s", "r"], ["t"]),
        node("Conv", ["t", "w2"], ["y"], pads=[1, 1, 1, 1]),
    ]
    if more:
        nodes.append(node("Relu", ["a"], [more]))
    constants = {
        "w": weights(channels, 8, 1, 1), "b": weights(channels),
        "w2": weights(16, 16, 3, 3, seed=1),
    }  # fmt: skip
    inputs: dict[str, Shape] = {"x": ("n", 8, 6, 5), "r": ("n", 16, 6 * factor, 5 * factor)}
    outputs = ["y", more] if more else ["y"]
    return fold_copies(legalized(tmp_path, nodes, inputs, outputs, constants))


def steps(program: Program) -> set[int]:
    """How far the innermost loop goes through what element-wise computes read."""
    found = set()
    for b in program.main.body:
        if isinstance(b.expr, KernelCall):
            for c in b.expr.kernel.computes:
                for r in reads(c.expr) if not c.reduce else ():
                    last = r.index[-1]
                    assert isinstance(last, Affine)
                    factor = last.factor(c.axes[-1].name)
                    assert isinstance(factor, int)
                    found.add(factor)
    return found


@pytest.mark.parametrize("factor", [2, 3])
def test_a_pixel_shuffle_reads_what_lies_dense(tmp_path: Path, factor: int) -> None:
    before = upsampled(tmp_path, "CRD", factor=factor)
    after = keeps_values(ChooseLayout(), before)
    assert max(steps(after)) == 1
    assert any(name.endswith(".shuffled") for name in after.constants)


def test_depth_first_channels_lie_well_already(tmp_path: Path) -> None:
    after = keeps_values(ChooseLayout(), upsampled(tmp_path, "DCR"))
    assert not any(name.endswith(".shuffled") for name in after.constants)


def test_what_others_read_keeps_its_order(tmp_path: Path) -> None:
    after = keeps_values(ChooseLayout(), upsampled(tmp_path, "CRD", more="z"))
    assert not any(name.endswith(".shuffled") for name in after.constants)


def test_the_old_constant_keeps_its_value(tmp_path: Path) -> None:
    before = upsampled(tmp_path, "CRD")
    bias = before.constants["b"].array.copy()
    after = ChooseLayout()(before)
    np.testing.assert_array_equal(before.constants["b"].array, bias)
    moved = next(c.array for n, c in after.constants.items() if n.startswith("b.shuffled"))
    assert sorted(moved) == sorted(bias)
