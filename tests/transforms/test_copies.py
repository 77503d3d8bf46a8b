"""Views and copies disappear into the kernels beside them, and no value changes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from explorer.frontends.load import load
from explorer.ir.calls import KernelCall
from explorer.ir.kernels.contraction import contraction
from explorer.ir.program import Program
from explorer.relax import deduce, legalize
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.layout import ChooseLayout
from tests.examples import examples
from tests.transforms.programs import LIGHT, Shape, keeps_values, kernels, legalized, views, weights

node = helper.make_node


def attention(tmp_path: Path, shape: Shape) -> Program:
    """softmax(q k') v over 4 heads of 8, with the reshapes and transposes that exporters write."""
    heads = np.array([0, 0, 4, 8], np.int64)
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            node("Reshape", [f"{name}0", "heads"], [f"{name}1"]),
            node("Transpose", [f"{name}1"], [name], perm=[0, 2, 1, 3]),
        ]
    nodes += [
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["c0"]),
        node("Transpose", ["c0"], ["c1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["c1", "flat"], ["c"]),
        node("MatMul", ["c", "wo"], ["y"]),
    ]
    constants = {f"w{n}": weights(32, 32, seed=i) for i, n in enumerate("qkvo")}
    constants |= {"heads": heads, "flat": np.array([0, 0, 32], np.int64)}
    return legalized(tmp_path, nodes, {"x": shape}, ["y"], constants)


@pytest.mark.parametrize("shape", [(2, 7, 32), ("batch", "seq", 32)])
def test_attention_reads_its_heads_in_place(tmp_path: Path, shape: Shape) -> None:
    after = keeps_values(fold_copies, attention(tmp_path, shape))
    assert kernels(after) == ["matmul"] * 3 + ["matmul", "softmax", "matmul", "matmul"]
    assert views(after) == 0
    for binding in after.main.body:
        assert isinstance(binding.expr, KernelCall)
        if binding.expr.kernel.name == "matmul":
            assert contraction(binding.expr.kernel.computes[0]) is not None


def test_the_output_of_attention_is_a_permuted_store(tmp_path: Path) -> None:
    after = fold_copies(attention(tmp_path, (2, 7, 32)))
    product = after.main.body[-2].expr
    assert isinstance(product, KernelCall)
    assert product.kernel.shape(product.kernel.output) == (2, 7, 32)
    assert len(product.kernel.computes[0].axes) == 4


def test_origins_of_folded_copies_are_kept(tmp_path: Path) -> None:
    before = attention(tmp_path, (2, 7, 32))
    after = fold_copies(before)
    assert {n for b in before.main.body for n in b.origin} == {
        n for b in after.main.body for n in b.origin
    }


def test_a_shuffle_of_channels_becomes_a_store(tmp_path: Path) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Reshape", ["a", "five"], ["b"]),
        node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["c", "four"], ["d"]),
        node("Conv", ["d", "w"], ["y"], group=12, pads=[1, 1, 1, 1]),
    ]
    constants = {
        "five": np.array([2, 3, 4, 5, 5], np.int64),
        "four": np.array([2, 12, 5, 5], np.int64),
        "w": weights(12, 1, 3, 3),
    }
    before = legalized(tmp_path, nodes, {"x": (2, 12, 5, 5)}, ["y"], constants)
    after = keeps_values(fold_copies, before)
    assert kernels(after) == ["relu", "conv"] and views(after) == 0


def test_a_view_stays_where_nothing_moves(tmp_path: Path) -> None:
    nodes = [node("Flatten", ["x"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    before = legalized(tmp_path, nodes, {"x": ("n", 3, 4)}, ["y"], {"w": weights(12, 5)})
    after = keeps_values(fold_copies, before)
    assert views(after) == 1


def test_a_padding_goes_into_a_window_that_fills_alike(tmp_path: Path) -> None:
    nodes = [
        node("Pad", ["x", "pads"], ["a"]),
        node("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 2, 2], np.int64), "w": weights(4, 3, 3, 3)}
    before = legalized(tmp_path, nodes, {"x": (1, 3, 6, 6)}, ["y"], constants)
    after = keeps_values(fold_copies, before)
    assert len(after.main.body) == 1


def test_a_copy_that_is_an_output_stays_one(tmp_path: Path) -> None:
    nodes = [node("Transpose", ["x"], ["y"], perm=[1, 0]), node("Relu", ["y"], ["z"])]
    before = legalized(tmp_path, nodes, {"x": (3, 4)}, ["y", "z"])
    assert kernels(keeps_values(fold_copies, before)) == ["transpose", "relu"]


def test_shufflenet_is_left_without_copies_of_its_own() -> None:
    before = legalize(deduce(load(str(LIGHT / "light_shufflenet.onnx")).program))
    after = fold_copies(before)
    assert "transpose" in kernels(before)
    assert "transpose" not in kernels(after)


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[str, tuple[int, ...]]]]:
    """A shape, and reshapes, transposes and reversals of it one after the other."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=2, max_size=4)))
    now, steps = list(shape), list[tuple[str, tuple[int, ...]]]()
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["transpose", "merge", "split", "reverse"]))
        if kind == "transpose":
            order = tuple(draw(st.permutations(range(len(now)))))
            now = [now[d] for d in order]
            steps.append((kind, order))
        elif kind == "reverse":
            steps.append((kind, (draw(st.integers(0, len(now) - 1)),)))
        elif kind == "merge" and len(now) > 1:
            d = draw(st.integers(0, len(now) - 2))
            now = [*now[:d], now[d] * now[d + 1], *now[d + 2 :]]
            steps.append(("reshape", tuple(now)))
        else:
            d = draw(st.integers(0, len(now) - 1))
            factor = draw(st.sampled_from([f for f in range(1, now[d] + 1) if now[d] % f == 0]))
            now = [*now[:d], now[d] // factor, factor, *now[d + 1 :]]
            steps.append(("reshape", tuple(now)))
    return shape, steps


@settings(max_examples=examples(60))
@given(chains(), st.sampled_from(["Relu", "Softmax", "ReduceMax"]), st.booleans())
def test_random_chains_of_copies_keep_every_value(
    chain: tuple[tuple[int, ...], list[tuple[str, tuple[int, ...]]]], last: str, first: bool
) -> None:
    shape, steps = chain
    nodes = [node("Tanh" if first else "Identity", ["x"], ["v0"])]
    constants: dict[str, np.ndarray] = {}
    for n, (kind, value) in enumerate(steps):
        if kind == "transpose":
            nodes.append(node("Transpose", [f"v{n}"], [f"v{n + 1}"], perm=list(value)))
        elif kind == "reverse":
            ends = {"start": -1, "end": -(1 << 40), "axis": value[0], "step": -1}
            constants |= {f"{k}{n}": np.array([v], np.int64) for k, v in ends.items()}
            nodes.append(node("Slice", [f"v{n}", *(f"{k}{n}" for k in ends)], [f"v{n + 1}"]))
        else:
            constants[f"s{n}"] = np.array(value, np.int64)
            nodes.append(node("Reshape", [f"v{n}", f"s{n}"], [f"v{n + 1}"]))
    nodes.append(node(last, [f"v{len(steps)}"], ["y"]))
    with TemporaryDirectory() as folder:
        before = legalized(Path(folder), nodes, {"x": shape}, ["y"], constants)
        after = keeps_values(fold_copies, before)
    assert len(after.main.body) <= len(before.main.body)


@pytest.mark.parametrize("shape", [(2, 7, 6), ("batch", "seq", 6)])
def test_flattened_rows_are_written_and_read_as_they_are(tmp_path: Path, shape: Shape) -> None:
    nodes = [
        node("Tanh", ["x"], ["h"]),
        node("Reshape", ["h", "rows"], ["a"]),
        node("Gemm", ["a", "w", "b"], ["g"]),
        node("Shape", ["x"], ["s"], end=2),
        node("Concat", ["s", "heads"], ["split"], axis=0),
        node("Reshape", ["g", "split"], ["v"]),
        node("Transpose", ["v"], ["t"], perm=[0, 2, 1, 3]),
        node("Relu", ["t"], ["y"]),
    ]
    constants = {
        "rows": np.array([-1, 6], np.int64),
        "heads": np.array([2, 4], np.int64),
        "w": weights(6, 8),
        "b": weights(8),
    }
    before = legalized(tmp_path, nodes, {"x": shape}, ["y"], constants)
    after = keeps_values(fold_copies, before)
    assert kernels(after) == ["tanh", "gemm", "relu"] and views(after) == 0
    gemm = after.main.body[1].expr
    assert isinstance(gemm, KernelCall)
    assert len(gemm.kernel.shape("a")) == 3 and len(gemm.kernel.shape("y")) == 3
    assert contraction(gemm.kernel.computes[0]) is not None


def test_a_view_of_a_view_is_one(tmp_path: Path) -> None:
    nodes = [
        node("Reshape", ["x", "one"], ["a"]),
        node("Slice", ["a", "start", "end"], ["b"]),
        node("Reshape", ["b", "two"], ["y"]),
    ]
    constants = {
        "one": np.array([4, 6], np.int64), "two": np.array([2, 3, 2], np.int64),
        "start": np.array([1], np.int64), "end": np.array([3], np.int64),
    }  # fmt: skip
    before = legalized(tmp_path, nodes, {"x": (3, 8)}, ["y"], constants)
    after = keeps_values(fold_copies, before)
    assert views(before) == 3 and len(after.main.body) == 1


THIN = {
    "of one row": (64, [1, 100], {"pads": [1, 1, 1, 1]}),
    "by depth, of one row": (8, [1, 7], {"pads": [1, 1, 1, 1], "group": 8}),
    "of one plane": (8, [1, 6, 6], {"pads": [1] * 6}),
    "of one row, padded below": (64, [1, 5], {"pads": [0, 1, 2, 1]}),
    "of one pixel": (64, [1, 1], {"pads": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("batch", [1, 2, "n"])
@pytest.mark.parametrize("case", THIN)
def test_a_border_of_an_axis_of_one_element_stays_a_border(
    tmp_path: Path, case: str, batch: int | str
) -> None:
    channels, image, attributes = THIN[case]
    inner = 1 if "group" in attributes else channels
    nodes = [node("Conv", ["x", "w"], ["y"], **attributes)]
    constants = {"w": weights(channels, inner, *[3] * len(image))}
    before = legalized(tmp_path, nodes, {"x": (batch, channels, *image)}, ["y"], constants)
    keeps_values(lambda p: fold_copies(ChooseLayout()(p)), before)


@pytest.mark.parametrize("first", ["Tile", "Reshape"])
def test_merged_dims_that_are_walked_backwards_are_walked_by_two_loops(
    tmp_path: Path, first: str
) -> None:
    nodes = [
        node("Tanh", ["x"], ["h"]),
        node(first, ["h", "by"], ["a"]),
        node("Slice", ["a", "minus", "far", "zero", "minus"], ["b"]),
        node("Relu", ["b"], ["y"]),
    ]
    constants = {
        "by": np.array([3, 1, 1] if first == "Tile" else [6, 7], np.int64),
        "far": np.array([-(1 << 40)], np.int64),
        "zero": np.array([0], np.int64),
        "minus": np.array([-1], np.int64),
    }
    before = legalized(tmp_path, nodes, {"x": (2, 3, 7)}, ["y"], constants)
    after = keeps_values(fold_copies, before)
    calls = [b.expr for b in after.main.body if isinstance(b.expr, KernelCall)]
    assert all(a.extent > 1 for e in calls for c in e.kernel.computes for a in c.axes)
