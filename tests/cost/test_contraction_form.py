"""What the model counts of a contraction is what its tile program does: for random kernels and
every tiling that Roller may choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import explorer
from explorer.cost.counts import EDGE_ROW, ROW, TILE
from explorer.cost.estimate import Estimate
from explorer.ir.dims import Sizes
from explorer.ir.tile_program import For, Once, Panels, Statement, TileProgram
from explorer.tile.contraction_form import ContractionForm, PartForm, contraction_form
from explorer.tile.interpret import Env, Interpreter
from explorer.tile.lowering.lower import tensor_contraction
from explorer.tile.rewrites import steps
from tests.codegen.cases import ENV, Case
from tests.examples import examples
from tests.strategies import kernels
from tests.strategies.kernels import DEVICE, contractions, tiled

SUMS = kernels.products, kernels.convolutions, kernels.linears


@pytest.mark.timeout(60)
def test_the_form_of_a_depth_of_two_thousand_million_is_found_at_once() -> None:
    types = explorer.tensor("float32", 64, 1 << 31), explorer.tensor("float32", 16, 1 << 31)
    model = explorer.trace(lambda a, b: a @ b.T)(*types)
    compiled = explorer.compile(model, DEVICE, until="rolled")
    assert compiled.program.kernel_calls


def program_of(case: Case) -> TileProgram:
    return steps(case.kernel, case.tiling, ENV, DEVICE)[-1][1]


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


@given(tiled(*SUMS))
@settings(max_examples=examples(25))
def test_the_model_takes_a_contraction_to_have_the_form_that_it_gets(case: Case) -> None:
    for n in contractions(case.kernel):
        assert contraction_form(case.kernel, n, case.tiling) == made(program_of(case), case, n)


@given(tiled(*SUMS, kernels.attentions))
@settings(max_examples=examples(25, few=8))
def test_the_model_counts_the_register_tiles_and_rows_of_the_program(case: Case) -> None:
    program = program_of(case)
    counted = Estimate(case.kernel, case.tiling, DEVICE, once=True).counts(case.sizes)
    each = tuple(counted.each[n] for n in (TILE, ROW, EDGE_ROW))
    assert each == in_all_tasks(program, case.sizes)
