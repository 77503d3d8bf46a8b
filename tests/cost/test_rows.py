"""What is priced is what the tile program says: how rows lie, and what registers hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cost.estimate import Estimate
from explorer.errors import BadOption
from explorer.ir.decisions import Micro, Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.tile_program import Panels
from explorer.ir.tile_traversal import statements
from explorer.measure.this_machine.sample_kernels import batched_product, convolution, product
from explorer.tile.rewrites import tile_program
from tests.tile.programs import HERE

KERNELS = st.one_of(
    st.builds(product, st.integers(1, 70), st.just(20), st.integers(33, 80)),
    st.builds(convolution, st.integers(4, 20), st.just(8), st.just(48), st.sampled_from((1, 3))),
    st.builds(batched_product, st.integers(1, 3), st.integers(2, 40), st.just(16), st.just(64)),
)


@settings(deadline=None, max_examples=80)
@given(KERNELS, st.lists(st.integers(1, 40), min_size=3, max_size=3), st.integers(1, 14), st.data())
def test_rows_are_priced_as_they_are_iterated_over(
    kernel: Kernel, sizes: list[int], rows: int, data: st.DataObject
) -> None:
    named = normalise(kernel)
    axes = [a.name for a in named.computes[-1].axes[:-1]]
    cut = data.draw(st.sets(st.sampled_from(axes)) if axes else st.just(set()))
    tiling = Tiling(tuple((a, n) for a, n in zip(axes, sizes) if a in cut), Micro(rows, 2))
    priced = Estimate(named, tiling, HERE, once=True).rows
    try:
        program = tile_program(named, tiling, ShapeEnv(), HERE)
    except BadOption:
        return
    made = [s for s in statements(program.body) if isinstance(s, Panels)]
    for lie, panels in zip(priced.values(), made, strict=True):
        assert lie.registers == bool(panels.operands)
        assert (lie.run is None) == (panels.run is None)
        if lie.run is not None and panels.run is not None:
            assert (len(lie.run.outer), lie.run.exact) == (len(panels.run.outer), panels.run.exact)
        assert lie.last == panels.rows[-1].axis
