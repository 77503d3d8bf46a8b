"""Softmax in front of a product in blocks of its row, rescaled once: same values, less scratch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer import welder
from explorer.compiler.compilation import Compilation
from explorer.compiler.options import Options
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Const, Expr, Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import For
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.ops.verify_kernel import verify_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.lowering.lower import lower
from explorer.transforms.softmax import LEAST_COLUMNS, OnlineSoftmax, in_blocks, policy, softmax_of
from tests.codegen.cases import BATCH, SEQ, attention, linear, softmax
from tests.codegen.running import run_kernel

TILE = Tiling((("ob", 1), ("oh", 1), ("oi", 16)))


def blocked(kernel: Kernel, size: int) -> Kernel:
    found = softmax_of(kernel)
    assert found is not None
    return in_blocks(kernel, found, size)


def numbers(shape: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]


@pytest.mark.few(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_blocks_give_the_same_values(size: int, causal: bool) -> None:
    kernel = attention(2, 32, 3, 16, {}, causal=causal).kernel
    values = numbers((2, 32, 48))
    want = evaluate_kernel(kernel, values, {})
    new = normalise(blocked(normalise(kernel), size))
    np.testing.assert_allclose(evaluate_kernel(new, values, {}), want, rtol=1e-4, atol=1e-5)
    got = run_kernel(new, TILE, dict(zip("qkv", values, strict=True)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def in_float64(kernel: Kernel) -> Kernel:
    def wide(e: Expr) -> Expr:
        match e:
            case Const(value, _):
                return Const(value, "float64")
            case Apply(op, args):
                return Apply(op, tuple(map(wide, args)))
        return e

    return replace(
        kernel,
        tensors=tuple(replace(t, dtype="float64") for t in kernel.tensors),
        computes=tuple(replace(c, expr=wide(c.expr)) for c in kernel.computes),
    )


def test_blocks_of_float64_are_computed_in_float64() -> None:
    kernel = in_float64(attention(2, 32, 3, 16, {}).kernel)
    values = [n.astype(np.float64) for n in numbers((2, 32, 48))]
    want = evaluate_kernel(kernel, values, {})
    new = normalise(blocked(normalise(kernel), 8))
    verify_kernel(new)
    np.testing.assert_allclose(evaluate_kernel(new, values, {}), want, rtol=1e-12, atol=1e-13)
    got = run_kernel(new, TILE, dict(zip("qkv", values, strict=True)))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.few(1)
@pytest.mark.parametrize("tile", [{"oi": 16}, {"ob": 1, "oh": 1, "oi": 7}, {"oh": 1}])
@pytest.mark.parametrize("constants", [{"k"}, {"v"}, {"k", "v"}])
def test_weights_that_are_read_a_block_at_a_time_are_packed_a_block_at_a_time(
    tile: dict[str, int], constants: set[str]
) -> None:
    kernel = replace(attention(2, 32, 3, 16, {}).kernel, constants=frozenset(constants))
    values = numbers((2, 32, 48))
    want = evaluate_kernel(kernel, values, {})
    new = normalise(blocked(normalise(kernel), 8))
    got = run_kernel(new, Tiling(tuple(tile.items())), dict(zip("qkv", values, strict=True)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_the_interpreter_finds_every_address_in_its_buffer() -> None:
    kernel = attention(1, 24, 2, 8, {}).kernel
    values = numbers((1, 24, 16))
    named, _ = canonical(normalise(blocked(kernel, 8)))
    names = [a.name for a in named.computes[-1].axes]
    program = lower(named, Tiling(((names[0], 1), (names[1], 5))))
    out = np.full((1, 24, 16), np.nan, np.float32)
    Interpreter(
        program, dict(zip(named.inputs, values, strict=True)) | {named.output: out}, {}
    ).run()
    want = evaluate_kernel(kernel, values, {})
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)


def test_nan_and_infinity_reach_the_same_rows() -> None:
    kernel = attention(1, 32, 1, 16, {}).kernel
    q, k, v = numbers((1, 32, 16))
    q[0, 3, 5], q[0, 7, 2], v[0, 30, 1] = np.nan, np.inf, np.inf
    with np.errstate(all="ignore"):
        want = evaluate_kernel(kernel, [q, k, v], {})
        got = run_kernel(
            normalise(blocked(kernel, 8)), Tiling((("oi", 16),)), {"q": q, "k": k, "v": v}
        )
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_scratch_holds_one_block_of_the_scores() -> None:
    kernel = attention(1, 512, 2, 64, {}).kernel
    new, axes = canonical(normalise(blocked(normalise(kernel), 128)))
    tiling = renamed_tiling(Tiling((("oh", 1), ("oi", 64))), axes)
    program = lower(new, tiling)
    assert isinstance(program.body[0], For)
    rows = [b for b in program.buffers if b.kind == "scratch" and b.dtype == "float32"]
    assert max(int(b.size) for b in rows) < 64 * 512


def test_the_policy_gives_its_reasons() -> None:
    for case, start in (
        (attention(1, 128, 2, 64, {}), "128 columns"),
        (attention(1, 520, 2, 64, {}), "520 columns are no multiple"),
        (attention(BATCH, SEQ, 2, 32, {}), "the number of columns"),
    ):
        kernel = normalise(case.kernel)
        found = softmax_of(kernel)
        assert found is not None
        first, second = policy(kernel, found)
        assert first.value == 0 and second.refused.startswith(start)
        assert OnlineSoftmax().rewritten(kernel) is kernel
    long = normalise(attention(1, 512, 2, 64, {}).kernel)
    assert len(OnlineSoftmax().rewritten(long).computes) > len(long.computes)


def test_what_is_no_softmax_in_front_of_a_product_stays() -> None:
    for case in (linear(5, 7, 9, "relu", {}), softmax(2, 33, {})):
        assert softmax_of(case.kernel) is None
        assert OnlineSoftmax(block=8).rewritten(case.kernel) is case.kernel


def test_a_negative_block_is_refused() -> None:
    with pytest.raises(BadOption, match=r"softmax\.block is a whole number .*, found -1"):
        OnlineSoftmax(block=-1)


def model(tmp_path: Path, rows: int | str) -> Path:
    """Attention of one head of 16 over a row of scores, as an ONNX file."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["x"]),
        helper.make_node("Softmax", ["x"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    shapes = {"q": (1, 40, 16), "k": (1, rows, 16), "v": (1, rows, 16), "m": (40, rows)}
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 40, 16))
    graph = helper.make_graph(nodes, "attention", given, [result])
    path = tmp_path / "attention.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def computes(compiled: Compilation) -> int:
    (call,) = (b.expr for b in compiled.program.kernel_calls)
    assert isinstance(call, KernelCall)
    return len(call.kernel.computes)


def test_the_pipeline_walks_long_rows_in_blocks_unless_it_is_told_not_to(tmp_path: Path) -> None:
    path = model(tmp_path, LEAST_COLUMNS)
    rng = np.random.default_rng(0)
    inputs = {n: rng.standard_normal((1, 40, 16)).astype(np.float32) for n in "q"}
    inputs |= {n: rng.standard_normal((1, LEAST_COLUMNS, 16)).astype(np.float32) for n in "kv"}
    mask = np.where(rng.random((40, LEAST_COLUMNS)) < 0.3, -np.inf, 0).astype(np.float32)
    mask[3], mask[4, : LEAST_COLUMNS // 2], mask[5, 7] = -np.inf, -np.inf, np.nan
    inputs["m"] = mask
    together = welder.Options(connect=(("s", "L2"), ("x", "L2"), ("p", "L2")))
    off = Options(welder=together, softmax=OnlineSoftmax(enabled=False))
    plain = explorer.compile(path, options=off)
    blocks = explorer.compile(path, options=Options(welder=together))
    assert computes(blocks) > computes(plain)
    (want,), (got,) = plain.run(inputs).values(), blocks.run(inputs).values()
    assert np.isnan(want[0, [3, 5]]).all() and np.isfinite(want[0, 4]).all()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_rows_of_unknown_length_stay_whole_and_any_length_is_right(tmp_path: Path) -> None:
    compiled = explorer.compile(model(tmp_path, "keys"))
    off = Options(softmax=OnlineSoftmax(enabled=False))
    assert compiled.program == explorer.compile(model(tmp_path, "keys"), options=off).program
    for rows in (1, 7, 128, 513):
        rng = np.random.default_rng(rows)
        q, k, v = (rng.standard_normal((1, n, 16)).astype(np.float32) for n in (40, rows, rows))
        m = np.where(rng.random((40, rows)) < 0.3, -np.inf, 0).astype(np.float32)
        x = np.einsum("bid,bjd->bij", q, k).astype(np.float64) + m
        with np.errstate(all="ignore"):
            p = np.exp(x - x.max(-1, keepdims=True))
            want = (p / p.sum(-1, keepdims=True)) @ v
        (got,) = compiled.run({"q": q, "k": k, "v": v, "m": m}).values()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
