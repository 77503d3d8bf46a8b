"""Matrix products and convolutions, of odd shapes, by every stage."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from explorer.errors import ShapeError
from explorer.ir.calls import KernelCall
from explorer.ir.kernel import Apply, Read
from tests.ops.one_operator import Case, check, proto, stages

random = np.random.default_rng(1)


def r(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def infinite(*shape: int) -> np.ndarray:
    """Some weights are infinite, and one is NaN: what lies past the border is not multiplied."""
    found = r(*shape)
    found[0, 0, 0, 0], found[1, 1, -1, -1], found[2, 0, -1, 0] = np.inf, -np.inf, np.nan
    return found


STEPS = {"strides": [2, 1], "pads": [1, 0, 0, 1]}
MATMULS = [
    Case("MatMul", [r(3, 5), r(5, 7)], free=(3,)),
    Case("MatMul", [r(2, 3, 5), r(5, 7)], known=(1,), free=(2, 3)),
    Case("MatMul", [r(2, 1, 3, 5), r(4, 5, 7)], free=(2, 3, 7)),
    Case("MatMul", [r(2, 4, 3, 5), r(2, 4, 5, 3)], free=(3,)),
    Case("MatMul", [r(2, 4, 3, 5), r(2, 4, 5, 3)], free=(5,)),
    Case("MatMul", [r(5), r(5, 7)], note="vector-matrix"),
    Case("MatMul", [r(3, 5), r(5)], note="matrix-vector"),
    Case("MatMul", [r(2, 3, 5), r(5)], note="batch-vector"),
    Case("MatMul", [r(5), r(5)], note="vector-vector"),
    Case("MatMul", [np.arange(6).reshape(2, 3), np.arange(12).reshape(3, 4)], note="integers"),
    Case("Gemm", [r(3, 5), r(5, 7)]),
    Case("Gemm", [r(3, 5), r(5, 7), r(7)], free=(3,)),
    Case("Gemm", [r(5, 3), r(7, 5), r(3, 1)], {"transA": 1, "transB": 1}),
    Case("Gemm", [r(3, 5), r(5, 7), r(3, 7)], {"alpha": 0.5, "beta": 2.0}),
    Case(
        "Gemm", [r(3, 5), r(7, 5), np.array(0.5, np.float32)], {"transB": 1, "alpha": 1.5}, (1, 2)
    ),
    Case("Einsum", [r(2, 3, 5), r(2, 5, 7)], {"equation": "bij,bjk->bik"}, free=(2,)),
    Case("Einsum", [r(3, 5), r(4, 5)], {"equation": "id, jd"}, note="implicit"),
    Case("Einsum", [r(3, 5)], {"equation": "ij->ji"}, note="transpose"),
    Case("Einsum", [r(4, 4)], {"equation": "ii->i"}, note="diagonal"),
    Case("Einsum", [r(3, 5)], {"equation": "ij->"}, note="sum"),
]
CONVS: list[Case] = [
    Case("Conv", [r(2, 3, 9, 8), r(4, 3, 3, 3)], free=(2,)),
    Case("Conv", [r(2, 3, 9, 8), r(4, 3, 3, 3), r(4)], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    Case("Conv", [r(1, 3, 9, 8), r(4, 3, 3, 2), r(4)], {"pads": [0, 2, 1, 0], "strides": [1, 3]}),
    Case("Conv", [r(1, 3, 11, 12), r(4, 3, 3, 3)], {"dilations": [2, 3], "pads": [1, 2, 1, 2]}),
    Case("Conv", [r(1, 6, 7, 7), r(4, 3, 3, 3), r(4)], {"group": 2, "pads": [1, 1, 1, 1]}),
    Case(
        "Conv",
        [r(2, 6, 7, 7), r(6, 1, 3, 3), r(6)],
        {"group": 6, "strides": [2, 2]},
        note="depthwise",
    ),
    Case("Conv", [r(2, 3, 7, 7), r(6, 1, 3, 3)], {"group": 3}, note="depthwise-multiplied"),
    Case("Conv", [r(2, 5, 4, 4), r(3, 5, 1, 1), r(3)], known=(1, 2), note="pointwise"),
    Case("Conv", [r(2, 3, 11), r(4, 3, 4), r(4)], {"strides": [2], "pads": [1, 2]}, note="1d"),
    Case("Conv", [r(1, 2, 5, 6, 7), r(3, 2, 2, 3, 2)], {"pads": [1, 0, 1, 0, 1, 0]}, note="3d"),
    Case("Conv", [r(1, 2, 7, 8), r(3, 2, 3, 3)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("Conv", [r(1, 2, 7, 8), r(3, 2, 4, 4)], {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    Case("Conv", [r(1, 2, 7, 8), r(3, 2, 4, 4)], {"auto_pad": "VALID"}),
    Case(
        "Conv",
        [r(1, 2, 9, 11), r(3, 2, 3, 3), r(3)],
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        free=(9, 11),
    ),
    Case("ConvTranspose", [r(2, 3, 5, 4), r(3, 4, 3, 3)]),
    Case("ConvTranspose", [r(2, 3, 5, 4), r(3, 4, 2, 2), r(4)], {"strides": [2, 2]}, (1, 2), (2,)),
    Case(
        "ConvTranspose",
        [r(1, 3, 5, 4), r(3, 4, 4, 3), r(4)],
        {"strides": [2, 3], "pads": [1, 1, 1, 0], "output_padding": [1, 0]},
    ),
    Case("ConvTranspose", [r(1, 4, 5, 4), r(4, 3, 3, 3), r(6)], {"strides": [2, 2], "group": 2}),
    Case("ConvTranspose", [r(1, 3, 5, 4), r(3, 4, 1, 1)], {"strides": [2, 2]}, note="gaps"),
    *(
        Case("ConvTranspose", [r(1, 3, 5, 4), infinite(3, 4, 3, 2)], STEPS, known, note=note)
        for known, note in (((1,), "infinite weights"), ((), "infinite weights that are given"))
    ),
    Case(
        "ConvTranspose", [r(1, 3, 5), r(3, 4, 3), r(4)], {"strides": [2], "pads": [1, 1]}, note="1d"
    ),
    Case("ConvTranspose", [r(2, 3, 5, 4), r(3, 4, 2, 2)], {"strides": [2, 2]}, (1,), (5, 4)),
    Case(
        "ConvTranspose",
        [r(3, 5, 1, 17), r(5, 3, 2, 4)],
        {"strides": [3, 1], "pads": [1, 0, 0, 0]},
        note="shorter than its stride",
    ),
    Case("Conv", [r(0, 4, 5, 5), r(6, 2, 3, 3), r(6)], {"group": 2}, note="of an empty batch"),
    Case(
        "ConvTranspose",
        [r(3, 3, 0), r(3, 3, 4), r(3)],
        {"strides": [3], "dilations": [2]},
        note="of no pixels",
    ),
]


def ids(cases: list[Case]) -> list[str]:
    return [f"{i}-{c.name}" for i, c in enumerate(cases)]


@pytest.mark.parametrize("case", MATMULS, ids=ids(MATMULS))
def test_a_matrix_product_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", CONVS, ids=ids(CONVS))
def test_a_convolution_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("group", [-1, 0, 3])
def test_channels_that_do_not_divide_into_groups_are_refused(
    op: str, group: int, tmp_path: Path
) -> None:
    onnx.save(proto(Case(op, [r(1, 4, 5), r(4, 4, 2)], {"group": group})), tmp_path / "case.onnx")
    with pytest.raises(ShapeError, match=rf"4 \w+ channels do not divide into {group} groups"):
        stages(tmp_path / "case.onnx")


@pytest.mark.parametrize("case", MATMULS[:15] + CONVS[:14], ids=ids(MATMULS[:15] + CONVS[:14]))
def test_a_contraction_is_a_sum_of_a_product_of_two_reads(case: Case, tmp_path: Path) -> None:
    onnx.save(proto(case), tmp_path / "case.onnx")
    kernels = [
        b.expr.kernel
        for b in stages(tmp_path / "case.onnx")[2].kernel_calls
        if isinstance(b.expr, KernelCall)
    ]
    first: Any = kernels[0].computes[0]
    assert first.combiner == "sum"
    assert isinstance(first.expr, Apply)
    assert first.expr.op == "mul"
    assert all(isinstance(a, Read) for a in first.expr.args)


def test_a_depthwise_convolution_sums_over_no_channel(tmp_path: Path) -> None:
    onnx.save(proto(CONVS[5]), tmp_path / "case.onnx")
    call = stages(tmp_path / "case.onnx")[2].kernel_calls[0].expr
    assert isinstance(call, KernelCall)
    assert [a.name for a in call.kernel.computes[0].axes] == ["n", "g", "h", "w"]
    assert [a.name for a in call.kernel.computes[0].reduce] == ["kh", "kw"]
