"""Constructions as values: their steps, their options, and what they are for every operator."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.devices.catalogue import device, device_names
from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.affine import var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import Dim, ShapeEnv, SymbolBound, symbol
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.normal import normalise
from explorer.roller import Options
from explorer.roller.construct.axis_fusion import unfused
from explorer.roller.construct.construct import (
    Growth,
    construct,
    is_memory_bound,
    of_expression,
    results_of,
    reuse_slopes,
    rules_for,
)
from explorer.roller.construct.expression import expression_of
from explorer.roller.construct.rtile import unit_tile
from explorer.roller.construct.shrink import shrink_tiles
from explorer.roller.cpu_candidates import cpu_candidates
from explorer.roller.named_policies import POLICIES
from explorer.roller.tile_order import in_order, why_first
from tests.codegen.cases import CASES, ENV, Case, linear
from tests.examples import examples
from tests.roller.operators import KERNELS, conv, matmul, pooling, reduction, relu, transposed
from tests.roller.test_policy import DEVICE, SIZES

V100, MI50 = device("v100"), device("mi50")
FIRST = {k.name: k for k in reversed(KERNELS)}  # of each operator
EVERY = [  # of a second GPU, whose sheet is of the first one's kind, one kernel of each operator
    pytest.param(where, kernel, id=f"{where.name}-{kernel.name}{number}", marks=marks)
    for where in (V100, MI50, DEVICE)
    for number, kernel in enumerate(KERNELS)
    for marks in [
        pytest.mark.exhaustive if where is MI50 and kernel is not FIRST[kernel.name] else ()
    ]
]


@pytest.mark.few(10)
@pytest.mark.parametrize(("where", "kernel"), EVERY)
def test_every_operator_is_constructed_for_every_device(kernel: Kernel, where: object) -> None:
    found = construct(kernel, where)  # type: ignore[arg-type]
    assert found.steps and found.rounds
    assert found.visited == len([s for s in found.steps if s.verdict != "eps breaks on axis"])
    for step in found.steps:
        assert step.number == found.steps.index(step) or step.parent < step.number
        assert step.compute_us >= 0 and step.memory_us >= 0


def test_a_path_leads_from_one_point_to_the_result() -> None:
    found = construct(matmul(4096, 4096, 4096), V100)
    result = next(s for s in found.steps if s.verdict == "result")
    path = found.path(result)
    assert path[0].tile.shape == (1, 1, 1) and path[-1] is result
    assert [s.level for s in path] == sorted((s.level for s in path), reverse=True)
    down = next(s for s in path if s.verdict == "compute bound: one level down")
    assert down.tile.shape == (8, 4, 1) and down.compute_us > down.memory_us
    assert all(s.memory_us >= s.compute_us for s in path[: path.index(down)])


@pytest.mark.parametrize("where", [V100, DEVICE])
def test_layers_that_differ_in_names_have_the_same_results_each_its_own(where: Device) -> None:
    e = expression_of(matmul(96, 640, 320))
    other = replace(e, name="another", axes=("p", "q", "r"))
    for growth in (Growth(), Growth(score="paper", top_k=3)):
        found, wanted = results_of(e, where, growth), of_expression(unfused(e), where, growth)
        assert found == wanted.results and len(found) == len(set(found))
        again = results_of(other, where, growth)
        assert again == of_expression(unfused(other), where, growth).results
        assert again != found
    assert results_of(replace(e, extents=(96, 640, 256)), where) != results_of(e, where)


def test_a_step_that_does_not_fit_says_what_it_needs() -> None:
    found = construct(matmul(4096, 4096, 4096), V100)
    refused = next(s for s in found.steps if s.verdict == "does not fit")
    assert refused.reason == "45056 registers of a block, there are 32768"


def test_an_axis_that_eps_breaks_is_named() -> None:
    found = construct(matmul(128, 1000, 2048), DEVICE)
    step = found.steps[0]
    assert (step.verdict, step.axis, step.eps) == ("eps breaks on axis", "n", 0.0)
    assert "waste" in step.reason and "of 1000" in step.reason


def test_the_papers_score_is_another_order() -> None:
    paper = construct(matmul(4096, 4096, 4096), V100, None, Growth(score="paper"))
    artifact = construct(matmul(4096, 4096, 4096), V100)
    assert paper.results and paper.score == "paper"
    assert paper.results != artifact.results


def test_a_score_or_a_count_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(BadOption, match="'best'"):
        Growth(score="best")  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="1 or more"):
        Growth(top_k=0)


def test_a_gpu_whose_sheet_does_not_limit_blocks_is_refused() -> None:
    with pytest.raises(BadOption, match="block_threads"):
        construct(matmul(64, 64, 64), replace(V100, block_threads=0))


def test_operators_that_reuse_little_have_the_streaming_policy() -> None:
    assert not is_memory_bound(expression_of(matmul(4096, 4096, 4096)))
    for kernel in (relu(128, 56, 56), pooling(8, 83, 168, 3, 2), matmul(65536, 2, 1024)):
        assert is_memory_bound(expression_of(kernel))
        assert construct(kernel, V100).policy == "memory bound"
    assert len(reuse_slopes(expression_of(relu(3)))) == 8


def test_a_convolution_is_tiled_as_the_product_that_it_is() -> None:
    found = construct(conv(1, 56, 64, 64, 3), V100)
    assert found.expression.axes == ("n*h*w", "o", "c*kh*kw")
    assert found.expression.extents == (56 * 56, 64, 576)
    apart = construct(conv(1, 56, 64, 64, 3), V100, None, Growth(fuse=False, top_k=1))
    assert apart.expression.axes == ("n", "h", "w", "o", "c", "kh", "kw")


def test_a_small_operator_is_cut_until_every_unit_has_work() -> None:
    kernel = matmul(128, 1000, 2048)
    first = construct(kernel, V100, None, Growth(shrink=False)).results[0]
    assert first.grid < V100.units
    small = shrink_tiles(first, V100.units)
    assert small.grid >= V100.units and small.shrunk_from == first.tiles
    assert construct(kernel, V100).results[0] == small


def test_the_unit_tile_is_one_multiply_add() -> None:
    unit = unit_tile(expression_of(matmul(64, 64, 64)))
    assert (unit.points, unit.elements, unit.footprint_bytes) == (1, 3, 8)


@pytest.mark.few(6)
@pytest.mark.parametrize("case", CASES[::3], ids=lambda c: c.name)
def test_constructed_tilings_are_legal_and_unique(case: Case) -> None:
    kernel = normalise(case.kernel)
    found = list(cpu_candidates(kernel, DEVICE, ENV, SIZES))
    legal = [c for c in found if not c.refused]
    assert legal and found[: len(legal)] == legal
    assert len({c.value for c in found}) == len(found)
    assert found == list(cpu_candidates(kernel, DEVICE, ENV, SIZES))


def test_construction_is_as_good_as_weighing_many_by_the_model() -> None:
    kernel = normalise(linear(128, 384, 1536, "relu", {}).kernel)
    best = [next(p(kernel, DEVICE, ENV, SIZES, 10)).cost_us for p in POLICIES.values()]
    assert max(best) <= 1.05 * min(best)


def test_a_policy_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(BadOption, match="found 'guess'"):
        Options(policy="guess")
    assert Options(policy="construct").policy == "construct"


@pytest.mark.parametrize("name", device_names("gpu"))
def test_the_papers_product_of_two_columns_has_tiles_on_every_sheet(name: str) -> None:
    """M0 of Roller's evaluation: rows of two columns are whole, so that no transaction is asked of
    them, and nothing of them is wasted.
    """
    found = construct(matmul(65536, 2, 1024), device(name))
    best = found.results[0]
    assert found.policy == "memory bound" and not best.border
    assert best.tile(0).spatial[1] == 2 and best.threads % device(name).lanes == 0


SHORT = st.one_of(st.integers(1, 9), st.sampled_from([13, 17, 31, 33, 65, 127]))
SMALL = st.one_of(
    st.builds(matmul, SHORT, SHORT, SHORT),
    st.builds(relu, SHORT),
    st.builds(relu, SHORT, SHORT, SHORT),
    st.builds(reduction, SHORT, SHORT),
    st.builds(transposed, SHORT, SHORT),
    st.builds(conv, st.integers(1, 2), st.integers(1, 7), SHORT, SHORT, st.sampled_from([1, 3])),
)


@settings(max_examples=examples(40), deadline=None)
@given(SMALL, st.sampled_from(device_names("gpu")), st.integers(1, 4))
def test_every_small_operator_has_a_tile_on_every_sheet(kernel: Kernel, name: str, k: int) -> None:
    sheet = device(name)
    found = construct(kernel, sheet, None, Growth(top_k=k))
    assert 1 <= len(found.results) <= k
    rules, _ = rules_for(sheet, found.expression)
    for p in found.results:
        assert p.grid >= 1 and 1 <= p.threads <= sheet.block_threads
        assert all(r.fits for n in range(2) for r in rules.rooms(p.tiles[n:], n))


def test_a_register_tile_that_divides_the_rows_is_weighed_too() -> None:
    narrow = replace(DEVICE, lanes=8, registers=16)
    case = linear(128, 384, 384, "relu", {})
    best = next(cpu_candidates(normalise(case.kernel), narrow, ENV, {}))
    assert isinstance(best.value, Tiling)
    assert best.value.micro == Micro(4, 3, 8)  # of 6 rows, 128 leave a third of a tile over


def test_a_product_whose_rows_are_two_axes_of_the_output_is_constructed() -> None:
    i, j, k = Axis("i", 24), Axis("j", 72), Axis("k", 32)
    p, q = Axis("p", 3), Axis("q", 8)
    x, w = Read("x", (var("i"), var("k"))), Read("w", (var("k"), var("j")))
    product = Compute("t", (i, j), Apply("mul", (x, w)), (k,), "sum")
    row = var("p") * 8 + var("q")
    parted = Compute("y", (p, q, j), Apply("neg", (Read("t", (row, var("j"))),)))
    shapes = {"x": (24, 32), "w": (32, 72), "t": (24, 72), "y": (3, 8, 72)}
    tensors = tuple(TensorSpec(name, shape, "float32") for name, shape in shapes.items())
    kernel = Kernel("parted", tensors, (product, parted), ("x", "w"), ("y",), frozenset({"w"}))
    assert not next(cpu_candidates(normalise(kernel), DEVICE, ENV, {})).refused


def test_rows_that_a_run_decides_are_cut_finer_than_rows_that_are_known() -> None:
    """A run may have a quarter of those that are planned, and then tasks for all units."""
    sizes = {"rows": 2240}

    def first(rows: Dim) -> tuple[Tiling, str]:
        compute = Compute("y", (Axis("i", rows),), Apply("exp", (Read("x", (var("i"),)),)))
        specs = (TensorSpec("x", (rows,)), TensorSpec("y", (rows,)))
        kernel = Kernel("exp", specs, (compute,), ("x",), ("y",))
        weighed = [
            Candidate(str(n), Tiling((("i", n),), Micro(1, 1)), (("compute", 5000.0 + cost),))
            for n, cost in ((280, 0.0), (70, 40.0), (10, 90.0))
        ]
        env = ShapeEnv((SymbolBound("rows", 1, None, 2240),))
        found = next(in_order(weighed, kernel, DEVICE, env, sizes, 3))
        return found.value, why_first(found, weighed[0], kernel, DEVICE, sizes)

    assert DEVICE.units == 2
    known, by_run = first(2240), first(symbol("rows"))
    assert known[0].tile == (("i", 280),) and known[1] == ""
    assert by_run[0].tile == (("i", 70),) and by_run[1] == "its 32 tasks suit 2 cores better than 8"
