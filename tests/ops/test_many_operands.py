"""Operators of thousands of operands become kernels of a few each: no expression nests as deep as
there are operands, and what they compute is the same.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import explorer
from explorer.frontends.load import load
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import size_of
from explorer.passes.fingerprint import program_key
from explorer.relax import deduce, legalize
from tests.frontends.models import model, saved, value


@pytest.mark.few(3)
@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Concat"])
@pytest.mark.parametrize("inputs", [1, 2500])
def test_five_thousand_operands_are_kernels_of_a_few(op: str, inputs: int, tmp_path: Path) -> None:
    names = [f"x{n % inputs}" for n in range(5000 if inputs == 1 else inputs)]
    attrs = {"axis": 0} if op == "Concat" else {}
    given = [value(f"x{n}", [4]) for n in range(inputs)]
    made = model([helper.make_node(op, names, ["y"], **attrs)], given, ["y"])
    program = legalize(deduce(load(saved(made, tmp_path)).program))
    calls = [b.expr for b in program.kernel_calls]
    assert all(isinstance(c, KernelCall) and len(c.kernel.inputs) <= 64 for c in calls)
    assert max(size_of(c.kernel).depth for c in calls if isinstance(c, KernelCall)) < 64
    assert program_key(program) and hash(program.main)


@pytest.mark.few(2)
@pytest.mark.parametrize("op", ["Sum", "Max", "Concat", "Mean"])
def test_what_many_operands_give_is_right(op: str, tmp_path: Path) -> None:
    shapes = [[3, 1] if n % 7 == 3 and op != "Concat" else [3, 5] for n in range(150)]
    given = [value(f"x{n}", s) for n, s in enumerate(shapes)]
    attrs = {"axis": 1} if op == "Concat" else {}
    names = [v.name for v in given]
    made = model([helper.make_node(op, names, ["y"], **attrs)], given, ["y"])
    compiled = explorer.compile(load(saved(made, tmp_path)))
    inputs = compiled.random_inputs()
    arrays = [a.astype(np.float64) for a in inputs.values()]
    if op == "Concat":
        wanted = np.concatenate(arrays, 1)
    elif op == "Max":
        wanted = np.maximum.reduce([np.broadcast_to(a, (3, 5)) for a in arrays])
    else:
        wanted = sum(arrays[1:], arrays[0]) / (150 if op == "Mean" else 1)
    np.testing.assert_allclose(compiled.run(inputs)["y"], wanted, rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_of_long_strides_has_no_loop_for_each_place(
    tmp_path: Path,
) -> None:
    weight = {"w": np.ones((1, 1, 2, 2), np.float32)}
    convolution = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[40, 40])
    made = model([convolution], [value("x", [1, 1, 3, 3])], ["y"], weight)
    compiled = explorer.compile(load(saved(made, tmp_path)))
    assert len(compiled.program.library_calls) == 1
    x = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    found = compiled.run(x)["y"]
    wanted = np.zeros((1, 1, 82, 82), np.float32)
    for i in range(3):
        for j in range(3):
            wanted[0, 0, 40 * i : 40 * i + 2, 40 * j : 40 * j + 2] = x[0, 0, i, j]
    np.testing.assert_array_equal(found, wanted)
