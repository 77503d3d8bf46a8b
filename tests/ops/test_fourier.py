"""DFT and STFT by every stage; NumPy's transforms say what is right, in doubles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import explorer
from explorer.frontends.load import load
from explorer.ir.calls import KernelCall
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.relax import deduce, legalize
from tests.ops.one_operator import Case, check, proto

random = np.random.default_rng(11)


def x(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


CASES = [
    Case("DFT", [x(2, 7, 1)], {"axis": 1}, opset=17, note="real"),
    Case("DFT", [x(2, 8, 2)], {"axis": 1, "inverse": 1}, opset=17, note="inverse"),
    Case("DFT", [x(2, 6, 3, 1)], {"axis": 1, "onesided": 1}, opset=17, note="onesided"),
    Case("DFT", [x(2, 5, 1), np.array(8)], {"axis": 1}, (1,), opset=17, note="longer"),
    Case("DFT", [x(2, 9, 1), np.array(4)], {"axis": 1}, (1,), opset=17, note="shorter"),
    Case("DFT", [x(3, 6, 2, 2), None, np.array(2)], {}, (2,), (6,), opset=20, note="axis"),
    Case("STFT", [x(2, 40, 1), np.array(8), None, np.array(16)], {}, (1, 3), opset=17),
    Case("STFT", [x(2, 40), np.array(8), None, np.array(16)], {}, (1, 3), (40,), 17, note="flat"),
    Case(
        "STFT",
        [x(2, 40, 1), np.array(5), np.hanning(12).astype(np.float32)],
        {"onesided": 0},
        (1,),
        opset=17,
        note="window",
    ),
    Case(
        "STFT",
        [x(2, 200, 1), np.array(7), np.hanning(60).astype(np.float32)],
        {"onesided": 1},
        (1,),
        (200,),
        opset=17,
        note="two sums",
        tolerance=2e-5,  # onnxruntime's own error at 60
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{c.name}" for n, c in enumerate(CASES)])
def test_a_transform_equals_onnxruntime(case: Case, tmp_path: Path) -> None:
    check(replace(case, tolerance=1e-5), tmp_path)


@pytest.mark.parametrize("attrs", [{}, {"inverse": 1}, {"onesided": 1}], ids=str)
def test_a_transform_of_nothing_is_one_over_symbols_too(
    attrs: dict[str, int], tmp_path: Path
) -> None:
    for shape in ((2, 0, 3, 2), (0, 4, 3, 2)):
        data = np.zeros((*shape[:-1], 1 if "onesided" in attrs else 2), np.float32)
        for free in ((), (0,), (*shape, 1)):
            model = proto(Case("DFT", [data], {"axis": 1, **attrs}, free=free, opset=17))
            onnx.save(model, tmp_path / "case.onnx")
            dims = model.graph.input[0].type.tensor_type.shape.dim
            bounds = {d.dim_param: (0, None) for d in dims if d.dim_param}
            kernels = legalize(deduce(load(tmp_path / "case.onnx", bounds=bounds).program))
            got = evaluate(kernels, {"x0": data})["y0"]
            rows = shape[1] // 2 + 1 if "onesided" in attrs else shape[1]
            assert got.shape == (shape[0], rows, shape[2], 2) and not got.any()


def program(case: Case, folder: Path) -> Program:
    onnx.save(proto(case), folder / "case.onnx")
    return load(folder / "case.onnx").program


@pytest.mark.parametrize("axis", [1, -2])
@pytest.mark.parametrize("free", [(), (6,)])
def test_the_axis_may_be_a_value_of_the_run(
    axis: int, free: tuple[int, ...], tmp_path: Path
) -> None:
    data = x(2, 6, 4, 1)
    case = Case("DFT", [data, None, np.array(axis)], {"onesided": 1}, free=free, opset=20)
    kernels = legalize(deduce(program(case, tmp_path)))
    verify(kernels)
    assert not kernels.library_calls
    found = evaluate(kernels, {"x0": data, "x2": np.array(axis)})["y0"]
    right = np.fft.rfft(data[..., 0].astype(float), axis=1 if axis == 1 else 2)
    np.testing.assert_allclose(found[..., 0], right.real, atol=1e-5)
    np.testing.assert_allclose(found[..., 1], right.imag, atol=1e-5)
    ran = explorer.compile(load(tmp_path / "case.onnx")).run({"x0": data, "x2": np.array(axis)})
    np.testing.assert_allclose(ran["y0"], found, atol=1e-6)


@pytest.mark.parametrize("length", [7, 8])
def test_a_onesided_spectrum_gives_the_signal_back(length: int, tmp_path: Path) -> None:
    signal = x(3, length)
    spectrum = np.fft.rfft(signal, axis=1)
    data = np.stack([spectrum.real, spectrum.imag], -1).astype(np.float32)
    attrs = {"inverse": 1, "onesided": 1}
    case = Case("DFT", [data, np.array(length), np.array(1)], attrs, (1, 2), opset=20)
    kernels = legalize(deduce(program(case, tmp_path)))
    found = evaluate(kernels, {"x0": data})["y0"]
    np.testing.assert_allclose(found[..., 0], signal, atol=1e-6)


def by_numpy(attrs: dict[str, object], data: np.ndarray) -> np.ndarray:
    signal = data[..., 0] + (1j * data[..., 1] if data.shape[-1] == 2 else 0)
    length = attrs["dft_length"][0]  # type: ignore[index]
    if len(attrs) == 4:
        return np.fft.irfft(signal, length, 1)[..., None]
    found = (np.fft.ifft if "inverse" in attrs else np.fft.fft)(signal, length, 1)
    rows = length // 2 + 1 if "onesided" in attrs else length
    return np.stack([found.real, found.imag], -1)[:, :rows]


@pytest.mark.parametrize("free", [(), (6,)])
@pytest.mark.parametrize(("length", "extent"), [(60, 60), (64, 50), (36, 40), (98, 98)])
@pytest.mark.parametrize(
    ("parts", "attrs"),
    [
        (1, {}),
        (1, {"onesided": 1}),
        (2, {"inverse": 1}),
        (2, {}),
        (2, {"inverse": 1, "onesided": 1}),
    ],
    ids=["real", "half", "inverse", "complex", "inverse of half"],
)
def test_a_length_that_is_a_product_takes_two_sums(
    parts: int,
    attrs: dict[str, int],
    length: int,
    extent: int,
    free: tuple[int, ...],
    tmp_path: Path,
) -> None:
    extent = extent // 2 + 1 if len(attrs) == 2 else extent
    data = x(2, extent, 3, parts)
    case = Case("DFT", [data, np.array(length), np.array(1)], attrs, (1, 2), free=free, opset=20)
    kernels = legalize(deduce(program(case, tmp_path)))
    verify(kernels)
    calls = [b.expr for b in kernels.main.body if isinstance(b.expr, KernelCall)]
    sums = [c for k in calls for c in k.kernel.computes if c.combiner]
    assert len(sums) == 2 and {c.kernel.tensors[-1].dtype for c in calls} == {"float32"}
    found = evaluate(kernels, {"x0": data})["y0"]
    given = {**attrs, "axis": 1, "dft_length": (length,)}
    right = by_numpy(given, data.astype(np.float64))
    np.testing.assert_allclose(found, right, atol=2e-6 * abs(right).max())
