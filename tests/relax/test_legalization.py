"""Every operator becomes kernels and views; which ones, and that no origin is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from explorer.frontends.load import load
from explorer.ir.calls import Branch, KernelCall, Loop, OpCall, View
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.ops import family
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.conformance.salt import LIGHT
from tests.frontends.models import DATA, model, saved, value

TINY = sorted(p.stem for p in DATA.glob("tiny_*.onnx"))
CNNS = [
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "zfnet512",
]


def kernels(path: Path) -> Program:
    program = legalize(deduce(load(path).program))
    verify(program)
    return program


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CNNS)
def test_a_light_model_becomes_kernels_without_a_library_call(name: str) -> None:
    program = kernels(LIGHT / f"light_{name}.onnx")
    assert program.stage == Stage.LEGALIZED
    assert program.library_calls == ()
    assert not any(isinstance(b.expr, OpCall) for _, b in program.bindings())


@pytest.mark.parametrize("name", TINY)
def test_every_source_operator_is_found_again_or_has_a_reason(name: str) -> None:
    program = kernels(DATA / f"{name}.onnx")
    found = {o for _, b in program.bindings() for o in b.origin} | {n for n, _ in program.dropped}
    assert found == {s.name for s in program.sources}
    for call in program.kernel_calls:
        assert isinstance(call.expr, KernelCall)
        assert all(c.origin for c in call.expr.kernel.computes)


def test_families_name_what_kernels_do() -> None:
    program = kernels(LIGHT / "light_shufflenet.onnx")
    by_op = {s.name: s.op for s in program.sources}
    wanted = {
        "Conv": "conv",
        "Gemm": "matmul",
        "Relu": "elementwise",
        "BatchNormalization": "elementwise",
        "MaxPool": "reduction",
        "Softmax": "reduction",
        "Transpose": "layout",
        "Concat": "layout",
        "Reshape": "layout",
        "Sum": "elementwise",
        "AveragePool": "reduction",
    }
    for _, binding in program.bindings():
        (origin,) = binding.origin
        assert family(binding) == wanted[by_op[origin]], by_op[origin]


def test_control_flow_stays_with_kernels_inside() -> None:
    skip, loop = kernels(DATA / "tiny_skip.onnx"), kernels(DATA / "tiny_while.onnx")
    assert any(isinstance(b.expr, Branch) for b in skip.main.body)
    assert any(isinstance(b.expr, Loop) for b in loop.main.body)
    for program in (skip, loop):
        assert all(f.body for f in program.functions)
        assert {family(b) for b in program.main.body} >= {"control flow"}


def test_an_lstm_is_one_product_for_all_inputs_and_two_kernels_a_step() -> None:
    program = kernels(DATA / "tiny_lstm.onnx")
    names = [b.expr.kernel.name for b in program.kernel_calls if isinstance(b.expr, KernelCall)]
    assert names.count("lstm_inputs") == 2
    assert names.count("lstm_gates") == 2 * 7  # the first of eight steps starts from zeros
    assert names.count("lstm_cell") == 2 * 8  # of the cell and of the hidden state
    gates = {
        b.expr.kernel
        for b in program.kernel_calls
        if isinstance(b.expr, KernelCall) and b.expr.kernel.name == "lstm_gates"
    }
    assert len(gates) == 1


def test_nothing_moves_in_a_view() -> None:
    program = kernels(DATA / "tiny_gpt2.onnx")
    views = [b for b in program.main.body if isinstance(b.expr, View)]
    ops = {s.name: s.op for s in program.sources}
    assert {ops[o] for b in views for o in b.origin} >= {"Reshape", "Unsqueeze"}


def test_known_scales_and_shifts_of_a_batch_norm_become_two_constants(tmp_path: Path) -> None:
    program = kernels(LIGHT / "light_resnet50.onnx")
    norms = [
        b.expr.kernel
        for b in program.kernel_calls
        if isinstance(b.expr, KernelCall) and b.expr.kernel.name == "batch_norm"
    ]
    assert len(norms) == 53
    assert all(k.inputs == ("x", "scale", "shift") for k in norms)
    assert all(k.constants == {"scale", "shift"} for k in norms)


def test_constants_that_nothing_reads_are_gone() -> None:
    program = kernels(LIGHT / "light_resnet50.onnx")
    read = {v.name for _, b in program.bindings() for v in b.reads}
    assert set(program.constants) <= read


def test_the_parts_of_a_concat_share_the_axes_that_are_the_same(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Concat", ["a", "b"], ["y"], axis=1)],
        [value("a", [2, 3]), value("b", [2, 4])],
        ["y"],
    )
    (call,) = kernels(saved(made, tmp_path)).kernel_calls
    assert isinstance(call.expr, KernelCall)
    first, second = call.expr.kernel.computes
    assert first.out == second.out
    assert first.axes[0] == second.axes[0]
    assert first.axes[1].name != second.axes[1].name


def test_a_softmax_is_four_computes_and_a_layer_norm_three(tmp_path: Path) -> None:
    program = kernels(DATA / "tiny_bert.onnx")
    counts = {
        b.expr.kernel.name: len(b.expr.kernel.computes)
        for b in program.kernel_calls
        if isinstance(b.expr, KernelCall)
    }
    assert (counts["softmax"], counts["layer_norm"], counts["matmul"]) == (4, 3, 1)


def test_legalising_does_not_touch_the_arrays() -> None:
    model = load(LIGHT / "light_squeezenet.onnx")
    program = legalize(deduce(model.program))
    for name, constant in program.constants.items():
        if name in model.program.constants:
            assert constant is model.program.constants[name]
            assert not constant.array.flags.writeable
    assert np.isfinite(sum(c.array.size for c in program.constants.values()))
