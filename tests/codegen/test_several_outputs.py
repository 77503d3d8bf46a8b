"""Kernels with several outputs do what the reference does, each output in memory of its own or in
that of an input.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import ShapeEnv, Sizes, SymbolBound, evaluate_shape, symbol
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.tile_program import Map, OnePass
from explorer.ir.types import numpy_dtype
from explorer.ops.interpreter.loop_nest import evaluate_outputs
from explorer.ops.verify_kernel import verify_kernel
from explorer.roller.cpu_candidates import cpu_candidates
from explorer.tile.coverage import Numbers, boxes_of, unwritten
from explorer.tile.interpret import Interpreter
from explorer.tile.rewrites import steps
from tests.codegen.running import run_outputs
from tests.codegen.several_outputs import (
    IN_PLACE,
    adam,
    beside,
    ends,
    product,
    shares,
    signs,
    values,
)
from tests.tile.programs import HERE, after, with_lanes

N = symbol("n")
ENV = ShapeEnv((SymbolBound("n", 0, 4000, 100),))
SHAPES = [(1,), (7,), (13,), (1009,), (0,), (3, 5), (1, 1), (33, 17), (4, 0), (2, 3, 37), ()]
KERNELS: list[tuple[Kernel, Sizes]] = [
    *((adam(shape), {}) for shape in SHAPES),
    *((adam(shape, IN_PLACE), {}) for shape in SHAPES),
    *((adam((N, 3), IN_PLACE[1:2]), {"n": n}) for n in (0, 1, 11, 1001)),
    *((product(m, n, k), {}) for m, n, k in ((1, 1, 1), (13, 37, 11), (64, 96, 33), (5, 7, 0))),
    (product(N, 24, 17), {"n": 19}),
    *((beside(m, n, k), {}) for m, n, k in ((1, 1, 1), (13, 37, 11), (64, 96, 33))),
    (beside(N, 24, 17), {"n": 19}),
    *((ends(m, n), {}) for m, n in ((1, 1), (13, 7), (37, 64), (0, 3))),
    *((shares(m, n), {}) for m, n in ((1, 1), (13, 7), (33, 64))),
    *((signs(shape), {}) for shape in ((1,), (1003,), (5, 9))),
]


def tilings(kernel: Kernel, sizes: Sizes) -> list[Tiling]:
    """Nothing cut, and a few that Roller finds."""
    found = cpu_candidates(normalise(kernel), HERE, ENV, {"n": 100, **sizes})
    legal = [c.value for c in islice(found, 8) if not c.refused and isinstance(c.value, Tiling)]
    cut = [Tiling(((a.name, 3),)) for a in normalise(kernel).computes[-1].axes[:1]]
    return [Tiling(), *cut, *legal[:4:2]]


@pytest.mark.few(4)
@pytest.mark.parametrize(("kernel", "sizes"), KERNELS, ids=lambda v: getattr(v, "name", str(v)))
def test_each_output_is_what_the_reference_says(kernel: Kernel, sizes: Sizes) -> None:
    verify_kernel(kernel)
    verify_kernel(normalise(kernel))  # one grid still cuts all outputs
    given = values(kernel, sizes)
    want = evaluate_outputs(kernel, [given[n] for n in kernel.inputs], sizes)
    for tiling in tilings(kernel, sizes):
        found = run_outputs(kernel, tiling, given, sizes, ENV)
        for a, b in zip(found, want, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=str(tiling))


@pytest.mark.few(12)
@pytest.mark.parametrize("lanes", [16, 8])
@pytest.mark.parametrize(("kernel", "sizes"), KERNELS, ids=lambda v: getattr(v, "name", str(v)))
def test_every_rewrite_keeps_the_values(kernel: Kernel, sizes: Sizes, lanes: int) -> None:
    given = values(kernel, sizes)
    want = evaluate_outputs(kernel, [given[n] for n in kernel.inputs], sizes)
    named, names = canonical(normalise(kernel))
    for tiling in tilings(kernel, sizes):
        own = renamed_tiling(tiling, names)
        for name, program in steps(named, own, ENV, with_lanes(lanes)):
            arrays = dict(zip(named.inputs, map(np.array, given.values()), strict=True))
            for output in named.outputs:
                shape = evaluate_shape(named.shape(output), sizes)
                arrays[output] = np.zeros(shape, numpy_dtype(named.dtype(output)))
                said = unwritten(boxes_of(program, output, Numbers(sizes)), arrays[output].size)
                assert not said, name
            made = Interpreter(program, arrays, sizes)
            for output, taken in named.updates:
                made.arrays[output] = made.arrays[taken]
            made.run()
            for output, right in zip(named.outputs, want, strict=True):
                found = made.arrays[output].reshape(right.shape)
                np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5, err_msg=name)


def test_a_step_of_an_optimizer_is_one_loop_over_vectors() -> None:
    """Its three tensors are written in one pass, whatever its shape, in place or not."""
    for shape in ((1009,), (33, 17)):
        for updates in ((), IN_PLACE):
            program = after("hoist", normalise(adam(shape, updates)))
            (loop,) = program.body
            assert isinstance(loop, OnePass) and loop.form is not None
            assert [type(p) for p in loop.parts] == [Map] * 3
