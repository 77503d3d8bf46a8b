"""Every rewrite of a tile program keeps what it computes, on odd sizes, inside of its buffers."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ir.dims import evaluate_shape, symbols_of
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_program import (
    Buffer,
    Fetch,
    Find,
    Map,
    Once,
    OnePass,
    Reduce,
    Scan,
    Statement,
    TileProgram,
    Window,
)
from explorer.ir.tile_traversal import (
    dims,
    loads,
    reads,
    renamed,
    statements,
    touched,
    variables,
    writes,
)
from explorer.ops.interpreter.evaluate import evaluate_kernel
from explorer.tile.interpret import Interpreter
from explorer.tile.rewrites import REWRITES, steps
from tests.codegen.cases import CASES, ENV, Case, arrays
from tests.tile.programs import with_lanes
from tests.tile.test_hoisting import TILING, convolution
from tests.tile.test_windows import CASES as WINDOWS
from tests.tile.test_windows import Windows

WIDTHS = (16, 8)


def programs(case: Case, lanes: int) -> tuple[tuple[str, TileProgram], ...]:
    named, axes = canonical(normalise(case.kernel))
    return steps(named, renamed_tiling(case.tiling, axes), ENV, with_lanes(lanes))


@pytest.mark.few(30)
@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_rewrite_keeps_the_values(case: Case, lanes: int) -> None:
    values = arrays(case)
    want = evaluate_kernel(case.kernel, [values[n] for n in case.kernel.inputs], case.sizes)
    named, _ = canonical(normalise(case.kernel))
    given = dict(zip(named.inputs, (values[n] for n in case.kernel.inputs), strict=True))
    shape = evaluate_shape(case.kernel.shape(case.kernel.output), case.sizes)
    scale = max(1.0, float(np.abs(np.nan_to_num(want.astype(float))).max(initial=0)))
    before: TileProgram | None = None
    for name, program in programs(case, lanes):
        if program == before:
            continue
        out = np.full(shape, np.nan if want.dtype.kind == "f" else 77, want.dtype)
        Interpreter(program, given | {"y": out}, case.sizes).run()
        np.testing.assert_allclose(
            out.astype(float),
            want.astype(float),
            atol=case.tolerance * scale,
            rtol=1e-5,
            err_msg=name,
        )
        before = program


@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: c.name or "plain")
def test_a_window_means_what_it_was_made_of(case: Windows) -> None:
    kernel, values = case.kernel(), case.arrays()
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    for name, program in steps(normalise(kernel), case.tiling(), ENV, with_lanes(16)):
        out = np.full(want.shape, np.nan, want.dtype)
        Interpreter(program, {**values, kernel.output: out}, {}).run()
        np.testing.assert_allclose(out, want, atol=1e-5, rtol=1e-5, err_msg=name)


def shared() -> tuple[tuple[str, TileProgram], ...]:
    """A kernel whose border is copied once for a row of tasks."""
    return steps(normalise(convolution(5, 4, 3, 40)), TILING, ENV, with_lanes(16))


def test_what_the_first_of_several_tasks_does_holds_for_all() -> None:
    kernel, rng = convolution(5, 4, 3, 40), np.random.default_rng(0)
    values = {n: rng.standard_normal(kernel.shape(n)).astype(np.float32) for n in kernel.inputs}
    want = evaluate_kernel(kernel, [values[n] for n in kernel.inputs], {})
    for name, program in shared():
        out = np.full(want.shape, np.nan, want.dtype)
        Interpreter(program, {**values, kernel.output: out}, {}).run()
        np.testing.assert_allclose(out, want, atol=1e-5, rtol=1e-5, err_msg=name)


def test_the_cases_meet_every_kind_of_statement() -> None:
    """What the grammar has is made by some rewrite of some case, but what is never made is dead."""
    met: set[type] = set()
    forms: set[str] = set()
    for case in CASES:
        for s in statements(programs(case, 16)[-1][1].body):
            met.add(type(s))
            form = getattr(s, "form", None)
            forms |= {form.order} if form else set()
    windows = (steps(normalise(w.kernel()), w.tiling(), ENV, with_lanes(16)) for w in WINDOWS)
    met |= {type(s) for found in windows for s in statements(found[-1][1].body)}
    met |= {type(s) for s in statements(shared()[-1][1].body)}
    assert {Map, Reduce, OnePass, Window, Find, Once} <= met
    assert {"along", "across", "blocks", "stacked"} <= forms


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_traversal_sees_all_that_a_statement_is_made_of(case: Case) -> None:
    """Against all that can be found by looking into every field of every value."""
    for _, program in programs(case, 16):
        for s in program.body:
            found = list(parts(s))
            assert {b.name for b in touched(s)} == {b.name for b in found if type(b) is Buffer}
            assert {f.buffer for one in statements((s,)) for f in loads(one)} <= {*reads(s)}
            known = {str(n) for d in dims(s) for n in symbols_of(d)}
            assert known <= {b.name for b in ENV.symbols}
            assert {v for f in found if type(f) is Fetch for v in f.offset.variables} <= variables(
                s
            ) | {"_r", "_j"}


def parts(value: object) -> list[object]:
    """A value and all that it is made of, but the place of a window's fold, which is a name."""
    if isinstance(value, Window):
        rest = (value.data, value.weights, value.target, value.operands, value.borders)
        return [value, *(x for part in rest for x in parts(part))]
    if isinstance(value, tuple):
        return [x for part in value for x in parts(part)]
    fields = getattr(value, "__dataclass_fields__", ())
    return [value, *(x for name in fields for x in parts(getattr(value, name)))]


@pytest.mark.parametrize("case", CASES[:20], ids=lambda c: c.name)
def test_renamed_there_and_back_is_the_same(case: Case) -> None:
    for _, program in programs(case, 16):
        there = {b.name: f"{b.name}_new" for b in program.buffers}
        back = {new: old for old, new in there.items()}
        for s in program.body:
            other = renamed(s, there)
            assert {b.name for b in touched(other)} == {there[b.name] for b in touched(s)}
            assert {b.name for b in writes(other)} == {there[b.name] for b in writes(s)}
            assert renamed(other, back) == s
            assert renamed(s, {"no such buffer": "x"}) is s


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_every_program_has_its_text(case: Case) -> None:
    """Two programs of one kernel have one text only where they are the same."""
    known: dict[tuple[str, ...], TileProgram] = {}
    for _, program in programs(case, 16):
        text = print_tile_program(program)
        assert text and all("object at" not in line and line.strip() for line in text)
        body = known.setdefault(text, program).body
        assert [_kind(s) for s in body] == [_kind(s) for s in program.body]


def _kind(s: Statement) -> str:
    return f"{type(s).__name__}{s.exclusive if isinstance(s, Scan) else ''}"


def test_rewrites_have_names_of_their_own() -> None:
    names = [name for name, _ in REWRITES]
    assert len({*names, "lower"}) == len(names) + 1
