"""How register tiles go over rows and where an epilogue runs: decided once, and checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.errors import CheckFailed
from explorer.ir.affine import Affine
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.kernel import Apply, Axis, Compute, Kernel, Read, TensorSpec, at, axes
from explorer.ir.kernels.normal import normalise
from explorer.ir.text.tile_printer import print_tile_program
from explorer.ir.tile_program import Do, Fetch, Find, For, Map, Panels, Run, TileProgram, fetches
from explorer.ir.tile_traversal import statements
from explorer.tile.interpret import Interpreter
from explorer.tile.rewrites import steps
from tests.codegen.cases import ENV, Case, arrays, conv, linear, specs
from tests.tile.programs import HERE, with_lanes


def program(case: Case, name: str = "register tiles") -> TileProgram:
    return dict(steps(normalise(case.kernel), case.tiling, ENV, with_lanes(8)))[name]


def panels(case: Case) -> Panels:
    (found,) = (s for s in statements(program(case).body) if isinstance(s, Panels))
    return found


def rows(m: int, function: str = "relu") -> Panels:
    return panels(linear(m, 24, 32, function, {}, Micro(6, 2)))


def test_rows_that_fill_whole_tiles_are_one_run() -> None:
    assert rows(36).run == Run((), True)
    assert rows(6).run == Run((), True)


def test_the_last_tile_of_a_run_is_moved_back() -> None:
    assert rows(37).run == Run((), False)


def test_fewer_rows_than_a_tile_stand_in_a_table() -> None:
    assert rows(5).run is None


def test_what_might_be_written_is_not_read_twice() -> None:
    """`r` is an input, so it may be what the output takes over: a tile moved back would read what
    it wrote.
    """
    assert rows(37, "two").run is None
    assert rows(36, "two").run == Run((), True)


def test_arithmetic_runs_on_registers_and_a_square_root_does_not() -> None:
    kept = rows(36)
    assert [f.buffer.kind for f in kept.operands] == ["output", "constant"]
    assert rows(36, "root").operands == ()


def test_elementary_functions_run_over_whole_rows_when_a_task_has_all_its_sums() -> None:
    made = program(linear(36, 24, 32, "erf", {}, Micro(6, 2)))
    first, then = made.body[-2:]
    assert isinstance(first, Panels) and isinstance(then, Map)
    assert isinstance(first.epilogue.expr, Fetch) and first.operands
    assert first.epilogue.target.buffer.kind == "scratch" and then.target.buffer.kind == "output"
    assert isinstance(then.expr, Do) and then.expr.op == "erf"


def test_a_batch_of_one_is_a_loop_around() -> None:
    case = conv(9, 8, 4, 32, 3, 1, 1, tile={"e0": 1}, micro=Micro(4, 2), n=2)
    loops = [s for s in statements(program(case).body) if isinstance(s, For)]
    assert any(isinstance(s.body[0], Panels) for s in loops)
    assert not any(isinstance(s, For) for s in statements(program(case, "hoist").body))


def test_what_was_decided_is_told() -> None:
    told = "\n".join(print_tile_program(program(linear(37, 24, 32, "relu", {}, Micro(6, 2)))))
    assert "rows in runs, the last tile moved back, on registers, prefetches" in told


@pytest.mark.parametrize(
    ("case", "told"),
    [
        (linear(37, 24, 32, "none", {}, Micro(6, 2)), "does not divide into tiles"),
        (conv(8, 9, 4, 32, 3, 1, 1, micro=Micro(4, 2)), "are not 4 elements apart"),
    ],
)
def test_the_interpreter_refuses_a_run_that_is_none(case: Case, told: str) -> None:
    whole = program(case)
    body = tuple(replace(s, run=Run((), True)) if isinstance(s, Panels) else s for s in whole.body)
    shape = case.kernel.shape("y")
    values = arrays(case) | {"y": np.zeros([int(n) for n in shape], np.float32)}
    with pytest.raises(CheckFailed, match=told):
        Interpreter(replace(whole, body=body), values, {}).run()


def test_the_nearest_cache_decides_what_is_prefetched() -> None:
    case = linear(36, 24, 32, "relu", {}, Micro(6, 2))
    small = replace(HERE.levels[0], capacity_bytes=2048)
    device = replace(with_lanes(8), levels=(small, *HERE.levels[1:]))
    for here, wanted in ((with_lanes(8), "rows"), (device, "panel")):
        last = steps(normalise(case.kernel), case.tiling, ENV, here)[-1][1]
        (found,) = (s for s in statements(last.body) if isinstance(s, Panels))
        assert found.prefetch == wanted


@pytest.mark.parametrize(
    ("lanes", "own_bytes", "wanted"), [(16, 8192, ""), (16, 4096, "panel"), (8, 4096, "")]
)
def test_panels_of_one_row_are_asked_for_ahead_on_wide_vectors_unless_a_unit_keeps_them(
    lanes: int, own_bytes: int, wanted: str
) -> None:
    case = linear(1, 24, 32, "relu", {}, Micro(1, 2, lanes))
    near, own = (replace(HERE.levels[0], capacity_bytes=n) for n in (1024, 4096))
    levels = (near, replace(own, name="L2", capacity_bytes=own_bytes))
    device = replace(with_lanes(lanes), levels=levels)
    last = steps(normalise(case.kernel), case.tiling, ENV, device)[-1][1]
    (found,) = (s for s in statements(last.body) if isinstance(s, Panels))
    assert found.prefetch == wanted


def chosen(by_row: bool) -> Case:
    """A product to which a row of a table is added: one for all, as a loop's trip says, or one for
    each row of the product.
    """
    m, k, n, length = 4, 24, 32, 7
    e = axes("e", (m, n))
    i, j, r = Axis("i", m), Axis("j", n), Axis("k", k)
    product = Compute("t", (i, j), Apply("mul", (at("x", (i, r)), at("w", (r, j)))), (r,), "sum")
    which = at("which", e[:1]) if by_row else Read("which", ())
    row = Read("table", (which, Affine(((e[1].name, 1),))))
    summed = Apply("abs", (Apply("add", (at("t", e), row)),))
    tensors = (
        *specs(x=(m, k), w=(k, n), table=(length, n), t=(m, n), y=(m, n)),
        TensorSpec("which", (m,) if by_row else (), "int64"),
    )
    inputs = ("x", "w", "table", "which")
    computes = (product, Compute("y", e, summed))
    kernel = Kernel("chosen", tensors, computes, inputs, ("y",), frozenset({"w"}))
    return Case("chosen", kernel, Tiling((), Micro(2, 2)), {})


@pytest.mark.parametrize("by_row", [False, True])
def test_a_row_for_all_tiles_is_found_before_them_and_one_for_each_row_is_not(by_row: bool) -> None:
    case = chosen(by_row)
    body = list(statements(program(case).body))
    places = [n for n, s in enumerate(body) if isinstance(s, Find)]
    (at_,) = (n for n, s in enumerate(body) if isinstance(s, Panels))
    inside = any(f.dynamic for f in fetches(panels(case).epilogue.expr))
    assert (bool(places), inside) == (not by_row, by_row)
    assert all(n < at_ for n in places)
    values = arrays(case)
    found = values | {"y": np.zeros((4, 32), np.float32)}
    Interpreter(program(case), found, {}).run()
    wanted = values["x"] @ values["w"] + values["table"][values["which"]]
    np.testing.assert_allclose(found["y"], np.abs(wanted), rtol=1e-4, atol=1e-5)
