"""Chains of products and windows in one tile: what neighbouring tiles both need, borders, edges."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, apply, at
from explorer.ir.kernels.normal import writers
from explorer.ir.kernels.regions import Interval, propagate
from explorer.ir.tile_program import Fill, For
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.lowering.lower import lower
from explorer.tile.rewriting.windows import reduce_windows
from tests.codegen.guard_pages import SIDES, run_between_guards
from tests.codegen.running import run_kernel
from tests.roller.halo_chains import Chain, Step
from tests.tile.programs import with_lanes

POINT, DEPTH = Step("point", 20, relu=True), Step("depth", relu=True)
CHAINS = {
    "1x1, depthwise": Chain(9, 11, 12, (POINT, DEPTH)),
    "1x1, depthwise, 1x1": Chain(13, 7, 12, (POINT, DEPTH, Step("point", 9))),
    "strided": Chain(13, 15, 12, (POINT, Step("depth", stride=2), Step("point", 17))),
    "padded before": Chain(10, 9, 8, (POINT, Step("depth", pads=(1, 0)))),
    "padded behind": Chain(10, 9, 8, (POINT, Step("depth", stride=2, pads=(0, 1)))),
    "not padded": Chain(10, 9, 8, (POINT, Step("depth", pads=(0, 0)))),
    "5 x 5": Chain(8, 9, 8, (POINT, Step("depth", size=5, pads=(2, 2), relu=True))),
    "gated": Chain(9, 7, 12, (Step("point", 26), Step("depth"), Step("gate"), Step("point", 5))),
    "pooled": Chain(11, 9, 12, (POINT, Step("pool", stride=2))),
    "pooled 2 x 2": Chain(11, 9, 12, (POINT, Step("pool", size=2, stride=2, pads=(0, 0)))),
    "conv, conv": Chain(9, 11, 5, (Step("conv", 16, relu=True), Step("conv", 18, relu=True))),
    "conv, pooled": Chain(
        15, 14, 3, (Step("conv", 16, 5, 2, (2, 2)), Step("pool", stride=2, relu=True))
    ),
    "two of each": Chain(8, 9, 8, (POINT, DEPTH, Step("point", 24), Step("depth"))),
    "one row": Chain(1, 9, 8, (POINT, DEPTH)),
    "one column": Chain(9, 1, 8, (POINT, DEPTH)),
}


def tilings(chain: Chain, count: int) -> list[Tiling]:
    """Tilings by chance, of rows and columns of the image."""
    random = Random(f"0 {chain}")
    axes = writers(chain.kernel(), chain.kernel().output)[-1].axes
    found = []
    for _ in range(count):
        cut = []
        for a in axes[:-1]:
            assert isinstance(a.extent, int)
            if random.random() < 0.8:
                cut.append((a.name, random.randint(1, max(1, a.extent))))
        rows, vectors = random.choice(((14, 1), (14, 2), (3, 1), (8, 3), (1, 1)))
        found.append(Tiling(tuple(cut), Micro(rows, vectors, 16)))
    return found


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_gives_what_its_steps_give(name: str) -> None:
    chain = CHAINS[name]
    kernel, arrays = chain.kernel(), chain.arrays()
    want = evaluate_kernel(kernel, [arrays[n] for n in kernel.inputs], {})
    for tiling in tilings(chain, 3):
        got = run_kernel(kernel, tiling, arrays)
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4, err_msg=str(tiling))


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_touches_nothing_outside(name: str) -> None:
    chain = CHAINS[name]
    kernel, arrays = chain.kernel(), chain.arrays()
    for tiling in tilings(chain, 3):
        want = run_kernel(kernel, tiling, arrays)
        for side in SIDES:
            got = run_between_guards(kernel, tiling, arrays, side, {})
            np.testing.assert_array_equal(got, want, err_msg=f"{tiling} {side}")


def test_what_folds_read_past_its_border_is_not_padded() -> None:
    kernel = CHAINS["1x1, depthwise"].kernel()
    program = lower(kernel, Tiling((("h1_m", 3),), Micro(14, 2, 16)))
    (filled,) = [s.target.name for s in program.body if isinstance(s, Fill)]
    assert "halo" in filled  # a copy, which a window does not make
    assert not any(isinstance(s, Fill) for s in reduce_windows(program, with_lanes(16)).body)
    sizes = {b.name: b.size for b in program.buffers}
    assert sizes["y0"] == 5 * 11 * 20  # three rows, one above, one below, no column more


def test_what_a_convolution_reads_past_its_border_is_padded_in_place() -> None:
    kernel = CHAINS["conv, conv"].kernel()
    program = lower(kernel, Tiling((("h1_m", 3),), Micro(14, 1, 16)))
    sizes = {b.name: b.size for b in program.buffers}
    assert sizes["y0"] == 5 * 13 * 16
    assert "y0" in {s.target.name for s in program.body if isinstance(s, Fill)}


def test_loops_never_go_past_a_border_that_all_tiles_have() -> None:
    kernel = CHAINS["1x1, depthwise"].kernel()
    ranges = propagate(kernel, {"h1_m": 3}).axes[0]
    assert ranges["w0"] == Interval(ranges["w0"].lo, 11)
    assert not ranges["w0"].lo.terms
    assert ranges["w0"].lo.const == 0


def test_channels_are_no_blocks() -> None:
    chain = Chain(9, 11, 16, (Step("point", 16), Step("depth", stride=2, pads=(0, 0))))
    program = lower(chain.kernel(), Tiling((("h1", 2),), Micro(14, 1, 16)))
    assert not any(isinstance(s, For) for s in program.body)


def two_readers(border: float) -> Kernel:
    """`y = conv(-x) + max over a window of -x`: what lies outside is 0 to one, `border` to the
    other.
    """
    place = tuple(Axis(a, 8) for a in "hw")
    inner, out = (*place, Axis("c", 16)), (*place, Axis("o", 16))
    window = (Axis("kh", 3), Axis("kw", 3))
    near = (var("h") + var("kh") - 1, var("w") + var("kw") - 1)
    product = Apply(
        "mul", (Read("t", (*near, var("c")), 0.0), at("g", (*window, inner[2], out[2])))
    )
    computes = (
        Compute("t", inner, apply("neg", at("x", inner))),
        Compute("a", out, product, (*window, inner[2]), "sum"),
        Compute("m", out, Read("t", (*near, var("o")), border), window, "max"),
        Compute("y", out, apply("add", at("a", out), at("m", out))),
    )
    images = (TensorSpec(n, (8, 8, 16)) for n in ("x", "t", "a", "m", "y"))
    tensors = (TensorSpec("g", (3, 3, 16, 16)), *images)
    return Kernel("two_readers", tensors, computes, ("x", "g"), ("y",), frozenset("g"))


def test_what_is_made_inside_has_one_border() -> None:
    rng = np.random.default_rng(0)
    kernel, tiling = two_readers(0.0), Tiling((), Micro(4, 1, 16))
    x, g = (rng.standard_normal(kernel.shape(n)).astype(np.float32) for n in kernel.inputs)
    found = run_kernel(kernel, tiling, {"x": x, "g": g})
    np.testing.assert_allclose(found, evaluate_kernel(kernel, [x, g], {}), rtol=1e-4, atol=1e-4)
    with pytest.raises(BadOption, match="t is read past its border as -inf and 0") as error:
        lower(two_readers(-np.inf), tiling)
    assert error.value.where == "t"
