"""What the host makes of the integers of a run, against NumPy, for any of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from explorer.errors import ShapeError
from explorer.frontends.load import load
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.slicing import cut
from explorer.relax import deduce, legalize
from tests.examples import examples

SMALL = st.integers(0, 5)
WIDE = st.integers(-9, 9) | st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 31, -(1 << 31)])


@cache
def program(
    op: str, rank: int, lengths: tuple[int, ...], attrs: tuple[tuple[str, Any], ...]
) -> Program:
    """One operator on a tensor of symbolic extents and integers of these lengths, as kernels."""
    names = [f"x{i}" for i in range(1 + len(lengths))]
    inputs = [
        helper.make_tensor_value_info("x0", TensorProto.FLOAT, [f"n{d}" for d in range(rank)])
    ]
    inputs += [
        helper.make_tensor_value_info(n, TensorProto.INT64, [length])
        for n, length in zip(names[1:], lengths, strict=True)
    ]
    node = helper.make_node(op, names, ["y"], name="node", **dict(attrs))
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "one.onnx"
        onnx.save(model, path)
        source = load(path, {f"n{d}": (0, None) for d in range(rank)})
        return legalize(deduce(source.program))


def answer(op: str, x: np.ndarray, *integers: Sequence[int], **attrs: Any) -> np.ndarray:
    lengths = tuple(map(len, integers))
    made = program(op, x.ndim, lengths, tuple(attrs.items()))
    assert not made.library_calls
    feeds = {f"x{i + 1}": np.array(v, np.int64) for i, v in enumerate(integers)}
    return evaluate(made, {"x0": x, **feeds})["y"]


def numbers(shape: Sequence[int]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape) - 7


@given(st.integers(0, 9), WIDE, WIDE, st.integers(-9, 9).filter(bool))
def test_a_cut_is_a_slice_whose_start_is_clipped_into_the_dim(
    n: int, start: int, end: int, step: int
) -> None:
    begin, count = cut(start, end, step, n)
    clipped = max(start, -n) if step < 0 else start
    below = step < 0 and end < -n
    wanted = np.arange(n)[slice(clipped, None if below else end, step)] if n else np.arange(0)
    np.testing.assert_array_equal(begin + step * np.arange(count), wanted)
    assert 0 <= begin <= max(0, n - 1)


@settings(deadline=None, max_examples=examples(60))
@given(st.tuples(SMALL, SMALL, SMALL), st.data())
def test_slices_of_any_axes(shape: tuple[int, int, int], data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(3)).map(lambda p: p[:2]))
    rows = [
        (data.draw(WIDE), data.draw(WIDE), data.draw(st.sampled_from((-3, -1, 1, 2)))) for _ in axes
    ]
    x, index = numbers(shape), [slice(None)] * 3
    for d, (start, end, step) in zip(axes, rows, strict=True):
        begin, count = cut(start, end, step, shape[d])
        last = begin + step * count
        index[d] = slice(begin, last if last >= 0 else None, step)
    starts, ends, steps = zip(*rows, strict=True)
    signed = [d - 3 if data.draw(st.booleans()) else d for d in axes]
    found = answer("Slice", x, starts, ends, signed, steps)
    np.testing.assert_array_equal(found, x[tuple(index)])


@settings(deadline=None, max_examples=examples(60))
@given(st.tuples(SMALL, SMALL), st.lists(st.integers(-1, 6), min_size=1, max_size=3), st.booleans())
def test_a_reshape_is_numpys_or_is_refused(
    shape: tuple[int, int], wanted: list[int], zero: bool
) -> None:
    x = numbers(shape)
    dims = list(wanted)
    if not zero:
        dims = [shape[d] if n == 0 and d < 2 else n for d, n in enumerate(wanted)]
    assume(not (0 in dims and -1 in dims))  # NumPy finds that ambiguous
    fits = not (not zero and 0 in wanted[2:])
    try:
        right = x.reshape(dims) if fits else None
    except ValueError:
        right = None
    if right is None:
        try:
            found = answer("Reshape", x, wanted, allowzero=int(zero))
        except ShapeError:
            return
        raise AssertionError(f"{shape} as {wanted} is {found.shape}")
    np.testing.assert_array_equal(answer("Reshape", x, wanted, allowzero=int(zero)), right)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.tuples(SMALL, SMALL, SMALL),
    st.lists(st.integers(-3, 2), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_a_sum_along_any_axes_is_numpys(
    shape: tuple[int, int, int], axes: list[int], keep: bool, noop: bool
) -> None:
    x, twice = numbers(shape), len({a % 3 for a in axes}) < len(axes)
    try:
        found = answer("ReduceSum", x, axes, keepdims=int(keep), noop_with_empty_axes=int(noop))
    except ShapeError:
        assert twice
        return
    assert not twice
    over = tuple(axes) if axes or noop else None
    np.testing.assert_array_equal(found, np.sum(x, axis=over, keepdims=keep))


@settings(deadline=None, max_examples=examples(60))
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.lists(st.integers(-2, 7), min_size=4, max_size=4),
    st.sampled_from(("constant", "edge", "reflect", "wrap")),
)
def test_pads_of_either_sign_are_numpys(shape: tuple[int, int], pads: list[int], mode: str) -> None:
    x = numbers(shape)
    cut_out = tuple(slice(max(0, -pads[d]), shape[d] - max(0, -pads[d + 2])) for d in (0, 1))
    around = [(max(0, pads[d]), max(0, pads[d + 2])) for d in (0, 1)]
    left = [shape[d] + min(0, pads[d]) + min(0, pads[d + 2]) for d in (0, 1)]
    assume(all(n > 0 for n in left))
    right = np.pad(x[cut_out], around, mode=mode)  # type: ignore[call-overload]
    np.testing.assert_array_equal(answer("Pad", x, pads, mode=mode), right)


@settings(deadline=None, max_examples=examples(60))
@given(st.tuples(SMALL, SMALL), st.lists(SMALL, min_size=3, max_size=3))
def test_an_expansion_is_numpys_broadcast_or_is_refused(
    shape: tuple[int, int], wanted: list[int]
) -> None:
    x = numbers(shape)
    try:
        right = np.broadcast_to(x, np.broadcast_shapes(shape, tuple(wanted)))
    except ValueError:
        right = None
    try:
        found = answer("Expand", x, wanted)
    except ShapeError:
        assert right is None
        return
    assert right is not None
    np.testing.assert_array_equal(found, right)
