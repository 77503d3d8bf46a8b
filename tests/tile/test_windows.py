"""Reductions over sliding windows: borders, strides, dilation, odd extents, maps of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from explorer.codegen.build import print_kernel
from explorer.devices.model import Device
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Axis, Compute, Const, Kernel, Read, TensorSpec, at
from explorer.ir.tile_program import Fill, Load, Map, Reduce, Window, fetches
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.lowering.lower import lower
from explorer.tile.rewriting.windows import window_of, windows_of
from tests.codegen.running import run_kernel
from tests.tile.programs import after, with_lanes

INF = float("inf")
WIDE = with_lanes(16)
START = {"sum": 0.0, "prod": 1.0, "max": -INF, "min": INF}


@dataclass(frozen=True)
class Windows:
    """`y[n, h, w, c] = f(reduction over i, j of x[n, s * h + d * i - pad, ...] (* k[i, j, c]))`."""

    height: int = 9
    width: int = 11
    channels: int = 16
    size: int = 3
    stride: int = 1
    pad: int = 1
    dilation: int = 1
    combiner: str = "sum"
    weighted: bool = True
    mapped: str = "relu6"
    tile: tuple[tuple[str, int], ...] = (("h", 4),)
    dtype: str = "float32"
    batch: int = 1

    @property
    def name(self) -> str:
        return " ".join(f"{k}{v}" for k, v in vars(self).items() if v != getattr(Windows, k))

    @property
    def rows(self) -> tuple[int, int]:
        reach = self.dilation * (self.size - 1) + 1
        h, w = ((n + 2 * self.pad - reach) // self.stride + 1 for n in (self.height, self.width))
        return h, w

    def kernel(self) -> Kernel:
        h, w = self.rows
        n, c = Axis("n", self.batch), Axis("c", self.channels)
        i, j = Axis("i", self.size), Axis("j", self.size)
        spatial = (n, Axis("h", h), Axis("w", w), c)
        places = [var(p) * self.stride + var(k) * self.dilation - self.pad for p, k in ("hi", "wj")]
        fill = START[self.combiner] if self.pad else None
        data = Read("x", (var("n"), *places, var("c")), fill)
        expr = Apply("mul", (data, at("k", (i, j, c)))) if self.weighted else data
        image = (self.batch, self.height, self.width, self.channels)
        specs = [
            TensorSpec("x", image, self.dtype),
            TensorSpec("k", (self.size, self.size, self.channels), self.dtype),
            TensorSpec("b", (self.channels,), self.dtype),
            TensorSpec("r", (self.batch, h, w, self.channels), self.dtype),
            TensorSpec("t", (self.batch, h, w, self.channels), self.dtype),
            TensorSpec("y", (self.batch, h, w, self.channels), self.dtype),
        ]
        last = "t" if self.mapped else "y"
        reduction = Compute(last, spatial, expr, (i, j), self.combiner)
        total, six = at("t", spatial), Const(6.0, self.dtype)
        maps = {
            "relu6": Apply(
                "min",
                (Apply("max", (Apply("add", (total, at("b", (c,)))), Const(0.0, self.dtype))), six),
            ),
            "residual": Apply("add", (Apply("tanh", (total,)), at("r", spatial))),
            "by row": Apply("mul", (total, at("r", (n, spatial[1], spatial[2], Axis("c", 1))))),
        }
        computes = [reduction]
        if self.mapped:
            computes.append(Compute("y", spatial, maps[self.mapped]))
        return Kernel("windows", tuple(specs), tuple(computes), ("x", "k", "b", "r"), ("y",),
                      frozenset({"k", "b"}))  # fmt: skip

    def arrays(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(7)
        kernel = self.kernel()
        return {
            t.name: rng.standard_normal(t.shape).astype(t.dtype)
            for t in kernel.tensors
            if t.name in kernel.inputs
        }

    def tiling(self) -> Tiling:
        return Tiling(self.tile)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Device:
    """A device with vectors of 512 bits or fewer; on any processor, since LLVM splits vectors that
    are too wide for it.
    """
    return with_lanes(getattr(request, "param", 16))


any_width = pytest.mark.parametrize("device", [16, 8, 4], indirect=True)


CASES = [
    Windows(),
    Windows(height=1, width=1),
    Windows(height=2, width=3, channels=5),
    Windows(height=0, pad=2),
    Windows(batch=0),
    Windows(channels=0),
    Windows(channels=17, mapped=""),
    Windows(channels=1, width=31),
    Windows(channels=70, stride=2, tile=(("h", 1),)),
    Windows(channels=130, stride=2, height=12, width=14, tile=(("h", 2), ("w", 3))),
    Windows(channels=48, tile=(("c", 16),)),
    Windows(channels=33, tile=(("w", 4), ("c", 16))),
    Windows(size=5, pad=2, channels=20),
    Windows(size=5, pad=2, stride=2, width=13, mapped="residual"),
    Windows(size=7, pad=3, channels=18, height=7, width=8),
    Windows(dilation=2, pad=2, channels=19),
    Windows(dilation=3, pad=1, height=10, width=12, mapped=""),
    Windows(pad=0, channels=40),
    Windows(pad=2, stride=3, height=10, width=13),
    Windows(pad=0, size=2, stride=2, weighted=False, mapped=""),
    Windows(weighted=False, mapped="by row", width=16),
    Windows(weighted=False, combiner="max", mapped="", stride=2, channels=64),
    Windows(weighted=False, combiner="max", mapped="", channels=21, width=19),
    Windows(weighted=False, combiner="min", mapped="residual", channels=37),
    Windows(weighted=False, combiner="prod", mapped="", channels=37, width=19),
    Windows(weighted=False, combiner="prod", mapped="residual", stride=2, channels=64),
    Windows(batch=2, channels=24, tile=(("n", 1), ("h", 3))),
    Windows(dtype="float64", channels=11, width=14),
]


@pytest.mark.few(10)
@any_width
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name or "plain")
def test_windows_equal_the_reference(case: Windows, device: Device) -> None:
    kernel, values = case.kernel(), case.arrays()
    source, _, _ = print_kernel(kernel, case.tiling(), ShapeEnv(), device)
    several = case.channels > 1 and case.rows != (1, 1)  # else no axis of results is left
    assert ("window_tile(" in source) == several
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    got = run_kernel(kernel, case.tiling(), values, device=device)
    np.testing.assert_allclose(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", [c for c in CASES if c.channels > 1], ids=lambda c: c.name)
def test_a_padded_copy_a_fold_and_its_map_are_one_window(case: Windows) -> None:
    body = lower(case.kernel(), case.tiling()).body
    kinds = [Fill, Load] * bool(case.pad) + [Reduce] + [Map] * bool(case.mapped)
    assert [type(s) for s in body] == kinds
    program = after("windows in registers", case.kernel(), case.tiling(), WIDE)
    (found,) = program.body
    assert isinstance(found, Window) and len(found.borders) == 2 * bool(case.pad)
    assert {b.name for b in program.buffers if b.kind == "scratch"} <= {
        found.reduction.target.buffer.name
    }
    assert found.data.buffer.name == "x" and found.target.buffer.name == "y"


def test_vectors_of_two_elements_have_no_windows() -> None:
    body = lower(Windows().kernel(), Windows().tiling()).body
    assert [type(s) for s in body] == [Fill, Load, Reduce, Map]
    assert windows_of(body, with_lanes(4)) and not windows_of(body, with_lanes(2))


@any_width
def test_nan_stays_in_the_largest_of_a_window_and_only_there(device: Device) -> None:
    case = Windows(weighted=False, combiner="max", mapped="", channels=35, width=23)
    kernel, values = case.kernel(), case.arrays()
    values["x"][0, 4, 9, 20] = np.nan
    values["x"][0, 0, 0, 3] = -INF
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    got = run_kernel(kernel, case.tiling(), values, device=device)
    assert np.isnan(want).sum() == 9
    np.testing.assert_array_equal(got, want)


@any_width
def test_infinite_sums_are_those_of_the_reference(device: Device) -> None:
    case = Windows(weighted=False, mapped="", channels=16)
    kernel, values = case.kernel(), case.arrays()
    values["x"][0, 2, 2, 1], values["x"][0, 2, 3, 1], values["x"][0, 6, 6, 2] = INF, -INF, INF
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    got = run_kernel(kernel, case.tiling(), values, device=device)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_another_number_at_the_border_than_the_fold_begins_with_is_no_window() -> None:
    kernel = Windows(weighted=False, combiner="max", mapped="").kernel()
    body = lower(kernel, Tiling((("h", 4),))).body
    assert isinstance(body[0], Fill)
    assert [n for n, _ in windows_of(body, WIDE).values()] == [3]
    other = (Fill(body[0].target, 0.0), *body[1:])
    assert not windows_of(other, WIDE)


def test_a_fold_that_something_else_reads_too_is_still_stored() -> None:
    body = lower(Windows().kernel(), Tiling((("h", 4),))).body
    ((count, found),) = windows_of((*body, body[-1]), WIDE).values()
    assert count == 3 and found.expr == found.target == found.reduction.target


def test_a_copy_whose_place_another_tensor_takes_afterwards_is_left_out() -> None:
    fill, load, reduction, mapped = lower(Windows().kernel(), Tiling((("h", 4),))).body
    assert isinstance(mapped, Map) and isinstance(fill, Fill)
    other = replace(mapped, target=replace(mapped.target, buffer=fill.target))
    reader = replace(mapped, expr=other.target)
    ((count, _),) = windows_of((fill, load, reduction, other, reader), WIDE).values()
    assert count == 4


def test_results_that_go_where_windows_still_lie_are_no_window_with_their_map() -> None:
    reduction, mapped = lower(Windows(pad=0).kernel(), Tiling((("h", 4),))).body
    assert isinstance(mapped, Map) and isinstance(reduction, Reduce)
    data = next(f for f in fetches(reduction.expr) if f.buffer.name == "x")
    assert window_of((reduction, mapped), WIDE) is not None
    inside = replace(mapped, target=replace(mapped.target, buffer=data.buffer))
    assert window_of((reduction, inside), WIDE) is None
