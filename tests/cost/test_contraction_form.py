"""What the model counts of a contraction is what its tile program does: for random kernels and
every tiling that Roller may choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explorer.cost.counts import EDGE_ROW, ROW, TILE
from explorer.cost.estimate import Estimate
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Expr, Kernel, apply, at, axes
from explorer.ir.kernels.normal import normalise
from explorer.ir.shapes.dims import Dim, Sizes
from explorer.ir.tile_programs.program import TileProgram
from explorer.ir.tile_programs.statements import For, Once, Panels, Statement
from explorer.roller.enumerated import space_of
from explorer.tile.contraction_form import ContractionForm, PartForm, contraction_form
from explorer.tile.interpret import Env, Interpreter
from explorer.tile.lowering.lower import tensor_contraction
from explorer.tile.rewrites import steps
from tests.codegen.cases import BATCH, ENV, Case, attention, conv, linear, specs
from tests.examples import examples
from tests.tile.programs import with_lanes

DEVICE = with_lanes(8)
EXTENTS = st.sampled_from([1, 2, 3, 5, 7, 13, 16, 17, 31, 32])
WIDTHS = st.sampled_from([8, 13, 16, 24, 32, 33])
MOST_POINTS = 60_000  # of a contraction that is interpreted: a bound on time, chosen


def product(
    batch: tuple[int, ...], m: tuple[Dim, ...], n: int, k: int, b: str, lies: str, after: str
) -> Kernel:
    """Rows of one or more axes; the right operand constant or not, turned or not; results turned,
    so that rows are dense in them, or not; an epilogue that reads what may change.
    """
    lead = axes("b", batch)
    rows, j, r = axes("i", m), Axis("j", n), Axis("k", k)
    right = (*lead, j, r) if b.endswith("turned") else (*lead, r, j)
    total = Compute(
        "t",
        (*lead, *rows, j),
        Apply("mul", (at("x", (*lead, *rows, r)), at("w", right))),
        (r,),
        "sum",
    )
    e = axes("e", (*batch, *m, n))
    body: dict[str, Expr] = {
        "": at("t", e),
        "relu": apply("max", at("t", e), 0.0),
        "residual": Apply("add", (at("t", e), at("z", e))),
        "tanh": Apply("tanh", (at("t", e),)),
    }
    order = (*range(len(batch)), len(e) - 1, *range(len(batch), len(e) - 1))
    stored = tuple(e[d] for d in (order if lies == "turned" else range(len(e))))
    last = Compute("y", e, body[after], store=tuple(var(a.name) for a in stored))
    shapes = {
        "x": (*batch, *m, k),
        "w": tuple(a.extent for a in right),
        "z": (*batch, *m, n),
        "t": (*batch, *m, n),
        "y": tuple(a.extent for a in stored),
    }
    known = frozenset({"w"} if b.startswith("constant") else set())
    return Kernel("product", specs(**shapes), (total, last), ("x", "w", "z"), ("y",), known)


@st.composite
def products(draw: st.DrawFn) -> Case:
    batch = tuple(draw(st.lists(st.sampled_from([1, 2, 3]), max_size=2)))
    few = [1, 2, 3, 4, 7] if len(batch) == 2 else [1, 2, 5, 7, 13, 16, 37]
    m: tuple[Dim, ...] = tuple(draw(st.lists(st.sampled_from(few), min_size=1, max_size=3)))
    if draw(st.integers(0, 5)) == 0:
        m = (BATCH, *m[1:])
    b = draw(st.sampled_from(["constant", "constant turned", "open", "open turned"]))
    lies, after = (
        draw(st.sampled_from(["", "turned"])),
        draw(st.sampled_from(["", "relu", "residual", "tanh"])),
    )
    n = draw(st.sampled_from([1, 2, 8, 13, 16, 24, 32, 33]))
    kernel = product(batch, m, n, draw(st.sampled_from([1, 3, 16, 64])), b, lies, after)
    return Case(
        "product", normalise(kernel), Tiling(), {"batch": draw(st.sampled_from([1, 5, 37]))}
    )


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    size, stride = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 1, 2]))
    groups, each = draw(st.sampled_from([1, 1, 1, 2])), draw(st.sampled_from([1, 3, 8]))
    made = conv(
        draw(st.sampled_from([1, 2, 3, 7, 9])) + size,
        draw(st.sampled_from([1, 2, 5, 13, 17])) + size,
        groups * each,
        groups * draw(WIDTHS),
        size,
        stride,
        draw(st.sampled_from([0, size // 2])),
        groups,
        draw(st.sampled_from([1, 1, 2])) if size > 1 and stride == 1 else 1,
        draw(st.booleans()),
        n=draw(st.sampled_from([1, 1, 2, 3])),
    )
    return replace(made, kernel=normalise(made.kernel))


@st.composite
def linears(draw: st.DrawFn) -> Case:
    function = draw(st.sampled_from(["relu", "none", "erf", "root", "two"]))
    m = draw(st.sampled_from([1, 2, 3, 7, 13, 36, 37, BATCH]))
    made = linear(m, draw(st.sampled_from([1, 24, 640])), draw(WIDTHS), function, {})
    return replace(made, kernel=normalise(made.kernel))


@st.composite
def attentions(draw: st.DrawFn) -> Case:
    """Two products a head, one head after another where a tile has several."""
    heads, d = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([4, 8, 16]))
    made = attention(
        draw(st.sampled_from([1, 2])), draw(st.sampled_from([5, 16, 33])), heads, d, {}
    )
    return replace(made, kernel=normalise(made.kernel))


@st.composite
def tiled(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Case:
    """A kernel with a tiling out of its space, that breaks no rule."""
    case = draw(cases)
    space = space_of(case.kernel, DEVICE, ENV, case.sizes)
    tiling = space.tiling(draw(st.integers(0, space.count - 1)))
    assume(space.legal(tiling))
    return replace(case, tiling=tiling)


def program_of(case: Case) -> TileProgram:
    return steps(case.kernel, case.tiling, ENV, DEVICE)[-1][1]


def contractions(kernel: Kernel) -> list[int]:
    return [n for n, c in enumerate(kernel.computes) if tensor_contraction(kernel, c) is not None]


def panels_in(
    body: Sequence[Statement], around: tuple[For, ...] = ()
) -> Iterator[tuple[Panels, tuple[For, ...]]]:
    """Every contraction with the loops around it, outermost first."""
    for s in body:
        if isinstance(s, For):
            yield from panels_in(s.body, (*around, s))
        elif isinstance(s, Once):
            yield from panels_in(s.body, around)
        elif isinstance(s, Panels):
            yield s, around


def made(program: TileProgram, case: Case, number: int) -> ContractionForm | None:
    """The form as it is read off the program of a kernel with one contraction."""
    found = tensor_contraction(case.kernel, case.kernel.computes[number])
    every = list(panels_in(program.body))
    if not every:
        return None
    assert found is not None
    last, loops = every[-1]
    rows = {a.name for a in found.rows}
    parts = []
    for s, around in every:
        counts = [int(f.span.size) for f in around if f.span.axis == "_block"]
        run = s.run
        along = 0 if run is None else len(s.rows) - len(run.outer)
        part = PartForm(along, run is not None and run.exact, bool(s.operands))
        parts.append((part, *(counts or [1])))
    kind = last.contract.b.buffer.kind
    return ContractionForm(
        tuple(f.span.axis for f in loops if f.span.axis in rows),
        tuple(x.axis for x in last.rows),
        tuple(parts),
        {"packed": "ahead", "scratch": "tile"}.get(kind, "in place"),
        last.epilogue.target.buffer.name.endswith("_turned"),
    )


def in_all_tasks(program: TileProgram, sizes: Sizes) -> tuple[int, int, int]:
    """Of all tasks: register tiles, rows that are looked up in tables, and rows that go through L1,
    as the program's own loops bring them.
    """
    run = Interpreter(replace(program, packings=()), {}, sizes)
    tiles = table = edge = 0

    def of(s: Panels, env: Env) -> None:
        nonlocal tiles, table, edge
        columns, m = run.values(s.columns, env), s.micro
        heights = [len(next(iter(t.values()))) for t in run.row_tiles(s, env)]
        table += 0 if s.run is not None else len(heights) * m.rows
        for j in range(0, len(columns), m.columns):
            tiles += len(heights)
            wide = j + m.columns <= len(columns)
            edge += sum(h for h in heights if not (s.operands and wide and h == m.rows))

    def walk(body: Sequence[Statement], env: Env) -> None:
        for s in body:
            if isinstance(s, Panels):
                of(s, env)
            elif isinstance(s, Once):
                walk(s.body, env)
            elif isinstance(s, For):
                for value in run.values(s.span, env):
                    walk(s.body, env | {s.span.axis: value})

    for task in np.ndindex(*(run.dim(g.count) for g in program.grid)):
        walk(program.body, {g.variable: t * g.tile for g, t in zip(program.grid, task)})
    return tiles, table, edge


@given(tiled(st.one_of(products(), convolutions(), linears())))
@settings(max_examples=examples(25))
def test_the_model_takes_a_contraction_to_have_the_form_that_it_gets(case: Case) -> None:
    for n in contractions(case.kernel):
        assert contraction_form(case.kernel, n, case.tiling) == made(program_of(case), case, n)


@given(tiled(st.one_of(products(), convolutions(), linears(), attentions())))
@settings(max_examples=examples(25, few=8))
def test_the_model_counts_the_register_tiles_and_rows_of_the_program(case: Case) -> None:
    program = program_of(case)
    assume(contractions(case.kernel))
    counted = Estimate(case.kernel, case.tiling, DEVICE, once=True).counts(case.sizes)
    each = tuple(counted.each[n] for n in (TILE, ROW, EDGE_ROW))
    assert each == in_all_tasks(program, case.sizes)
