"""A whole model as one persistent kernel makes what the CPU makes, control flow included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.codegen.cuda.persistent import HUNG
from explorer.errors import BadOption, CheckFailed, DeviceFault
from explorer.ir.dtypes import numpy_dtype
from explorer.ir.kernel import reads
from explorer.runtime.binding.launch_code import LaunchCode
from explorer.runtime.cuda.driver import SimulatedDriver
from explorer.runtime.cuda.program import DeviceProgram
from explorer.runtime.cuda.run import ProgramRun
from explorer.runtime.device_program import instructions as isa

DATA = Path(__file__).parents[2] / "data"
QUICK = (
    "zoo:small_lstm",
    "zoo:small_attention_decoding",
    "tiny_while.onnx",
    "tiny_skip.onnx",
    "zoo:small_looped_lstm",
)
MORE = (
    *("zoo:small_bert", "zoo:small_llama", "zoo:small_vit", "zoo:small_seq2seq", "zoo:small_swin"),
    *("zoo:small_resnext29", "zoo:small_seq2seq_decoder", "zoo:small_beam_search"),
    *(
        "zoo:small_moe",
        "zoo:small_blockdrop",
        "zoo:small_skipnet",
        "zoo:small_nasrnn",
        "zoo:small_lstm_tc",
    ),
)
UNITS = 3


def compiled(model: str, target: str = "cuda-sim") -> explorer.Compilation:
    return explorer.compile(model if model[:4] == "zoo:" else str(DATA / model), target=target)


def agree(got: Any, want: Any) -> None:
    assert [*got] == [*want]
    for name, values in want.items():
        scale = max(1.0, float(np.abs(values).max(initial=0)))
        np.testing.assert_allclose(got[name], values, 1e-4, 1e-5 * scale)


def check(model: str) -> ProgramRun:
    c, cpu = compiled(model), compiled(model, "cpu")
    program = c.device_program(units=UNITS)
    assert program.units == UNITS
    for seed in range(2):
        run = ProgramRun(program, SimulatedDriver(UNITS, seed))
        inputs = c.random_inputs()
        agree(run.run(inputs), cpu.run(inputs))
        agree(run.run(inputs), cpu.run(inputs))
    return run


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", QUICK)
def test_a_program_makes_what_the_cpu_makes(model: str) -> None:
    run = check(model)
    wall = run.wall()
    assert {b.unit for b in wall.bricks} <= {*range(UNITS)}
    assert len(wall.bricks) >= sum(len(r) for code in run.program.launches for r in code.runs) // 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", MORE)
def test_more_programs_make_what_the_cpu_makes(model: str) -> None:
    check(model)


@pytest.mark.exhaustive
def test_a_program_in_float16_multiplies_pieces_of_matrices() -> None:
    """Blocks of more and of fewer warps in one kernel: all lanes of each come together."""

    @explorer.trace
    def layers(
        x: explorer.tensor("float16", 64, 80),  # type: ignore[valid-type]
        w: explorer.tensor("float16", 80, 96),  # type: ignore[valid-type]
        v: explorer.tensor("float16", 96, 40),  # type: ignore[valid-type]
    ):
        return explorer.np.maximum(x @ w, 0) @ v

    c = explorer.compile(layers, target="cuda-sim")
    program = c.device_program(units=UNITS)
    assert program.source.count("= mma_float16(") > 2
    rng = np.random.default_rng(0)
    shapes = {"x": (64, 80), "w": (80, 96), "v": (96, 40)}
    given = {n: (rng.standard_normal(s) / 4).astype(np.float16) for n, s in shapes.items()}
    (want,) = explorer.evaluate(c.model.program, given).values()
    for seed in range(2):
        (got,) = ProgramRun(program, SimulatedDriver(UNITS, seed)).run(given).values()
        np.testing.assert_allclose(got.astype("f4"), want.astype("f4"), 4e-3, 4e-3)


def test_equal_texts_of_other_types_are_other_code() -> None:
    """Copies of numbers and of truths read alike, and lie in memory otherwise."""

    @explorer.trace
    def turned(x: explorer.tensor("int32", 5), y: explorer.tensor("bool", 5)):  # type: ignore[valid-type,no-untyped-def]
        return x[::-1] + x[:1], x[::-1], y[::-1]

    c = explorer.compile(turned, target="cuda-sim")
    given = (np.array([7, 300, -1, 70_000, 5], np.int32), np.array([1, 0, 0, 1, 0], bool))
    found = ProgramRun(c.device_program(units=UNITS), SimulatedDriver(UNITS)).run(c.named(given))
    for got, want in zip(
        found.values(), explorer.compile(turned).run(c.named(given)).values(), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.exhaustive
def test_a_loop_makes_as_many_trips_as_the_cpu() -> None:
    run = check("tiny_while.onnx")
    bricks = run.wall().bricks
    trips = max(b.iteration for b in bricks) + 1
    c = compiled("tiny_while.onnx", "cpu")
    assert trips > 1
    measured = c.measured_wall(c.random_inputs())
    assert max(b.iteration for b in measured.bricks) + 1 == trips


@pytest.mark.exhaustive
def test_threads_that_share_a_sum_make_what_the_cpu_makes() -> None:
    weights = np.random.default_rng(0).standard_normal((256, 128)).astype(np.float32)

    @explorer.trace
    def product(x: explorer.tensor("float32", 8, 256)):  # type: ignore[valid-type,no-untyped-def]
        return explorer.np.tanh(x @ weights)

    c, cpu = (explorer.compile(product, target=t) for t in ("cuda-sim", "cpu"))
    program = c.device_program(units=UNITS)
    assert any(block.parts for blocks in program.plan.blocks.values() for block in blocks)
    inputs = c.random_inputs()
    for seed in range(2):
        agree(ProgramRun(program, SimulatedDriver(UNITS, seed)).run(inputs), cpu.run(inputs))


def without_one(program: DeviceProgram) -> Iterator[tuple[LaunchCode, ...]]:
    """The launches of a program with one wait, or one barrier of all units, taken away, where what
    follows may read what others made.
    """
    (code,) = program.launches
    for op in (isa.WAIT, isa.BARRIER):
        found = ((u, n) for u, r in enumerate(code.rows) for n in np.flatnonzero(r[:, 0] == op))
        for unit, n in found:
            if reads_another(code, unit, n):
                continue
            rows = [r.copy() for r in code.rows]
            rows[unit][n] = (isa.JUMP, n + 1, 0, 0, 0)
            yield (replace(code, rows=tuple(rows)),)


def reads_another(code: LaunchCode, unit: int, n: int) -> bool:
    """Whether a unit waits for a part of a value of which it goes on with another one, of equal
    parts, point by point: operators wait for each other as wholes.
    """
    op, other, step = (int(x) for x in code.rows[unit][n][:3])
    if op != isa.WAIT:
        return False
    made = next(r for row, r in code.runs[other].items() if code.rows[other][row][4] == step)
    runs, (value,) = code.runs[unit], made.operator.results
    after = runs[min(row for row in runs if row > n)]
    mine, its = (after.first, after.last), (made.first, made.last)
    every = [r for some in code.runs for r in some.values()]
    parts = {(r.first, r.last) for r in every if r.operator.results == (value,)}
    kernel = after.operator.call.kernel
    names = {t for t, arg in zip(kernel.inputs, after.operator.args) if arg == value}
    readers = [c for c in kernel.computes for r in reads(c.expr) if r.tensor in names]
    apart = mine in parts and its != mine
    own = {(r.first, r.last) for r in runs.values() if r.operator.results == (value,)} == {mine}
    return (apart or own) and not any(c.reduce for c in readers)


@pytest.mark.exhaustive
def test_a_wait_too_few_shows() -> None:
    """As a wrong value, in one order of blocks or another: all but one in a hundred at most."""
    c = compiled("zoo:small_lstm")
    inputs, program = c.random_inputs(), c.device_program(units=UNITS)
    want = ProgramRun(program, SimulatedDriver(UNITS)).run(inputs)["state"]
    broken = [*without_one(program)]
    assert len(broken) > 5
    shown = 0
    for steps in broken:
        found = []
        for seed in range(30):
            run = ProgramRun(program, SimulatedDriver(UNITS, seed))
            program.steps = steps
            try:
                found.append(bool(np.allclose(run.run(inputs)["state"], want, equal_nan=True)))
            except CheckFailed:
                found.append(False)
            if not found[-1]:
                break
        shown += not all(found)
    assert shown == len(broken), f"{shown} of {len(broken)}"


def test_more_units_than_are_resident_are_refused() -> None:
    program = compiled("zoo:small_lstm").device_program(units=UNITS)
    with pytest.raises(BadOption, match="3 blocks wait for each other and the stand-in holds 2"):
        ProgramRun(program, SimulatedDriver(UNITS - 1))


def test_a_hang_is_told_by_the_kernel_itself() -> None:
    """Each unit has a clock, and gives up; nobody else need end it."""
    c = compiled("zoo:small_lstm")
    program = c.device_program(units=UNITS)
    (code,) = program.launches
    rows = [r.copy() for r in code.rows]
    waited = {(int(r[1]), int(r[2])) for own in rows for r in own if r[0] == isa.WAIT}
    unit, last = max(waited, key=lambda w: w[1])  # no later step of the unit covers it
    shown = unit, int(np.flatnonzero(rows[unit][:, 4] == last)[0])
    rows[shown[0]][shown[1], 4] = 0
    program.steps = (replace(code, rows=tuple(rows)),)
    run = ProgramRun(program, SimulatedDriver(UNITS))
    with pytest.raises(CheckFailed, match="a deadlock"):
        run.run(c.random_inputs())
    program.patience_ns = 2_000
    run = ProgramRun(program, SimulatedDriver(UNITS, watched=False))
    with pytest.raises(DeviceFault, match="hung on the stand-in"):
        run.run(c.random_inputs())
    assert run.traced[-1][1].fault == HUNG


@explorer.trace
def chosen(x: explorer.tensor("bfloat16", 5, 13)):  # type: ignore[valid-type,no-untyped-def]
    some = x[explorer.np.nonzero(x > x[0, 0])]
    return some + some, explorer.np.sum(some)


@pytest.mark.parametrize("least", [0, 9])
def test_data_may_leave_nothing_of_narrow_values(least: int) -> None:
    c = explorer.compile(chosen, target="cuda-sim")
    x = np.random.default_rng(0).integers(1, 5, (5, 13))
    x[0, 0] = least
    given = {"x": x.astype(numpy_dtype("bfloat16"))}
    want = explorer.compile(chosen).run(given)
    for name, got in c.run(given).items():
        assert got.dtype == want[name].dtype and got.shape == want[name].shape
        np.testing.assert_allclose(got.astype("f4"), want[name].astype("f4"), 1e-2)


@explorer.trace
def narrow_product(x: explorer.tensor("bfloat16", 5, 13)):  # type: ignore[valid-type,no-untyped-def]
    return explorer.np.maximum(x @ explorer.np.transpose(x), x[0, 0])


def test_a_program_in_bfloat16_runs_as_one_kernel() -> None:
    c = explorer.compile(narrow_product, target="cuda-sim")
    run = ProgramRun(c.device_program(units=UNITS), SimulatedDriver(UNITS, 1))
    x = np.random.default_rng(0).integers(-3, 4, (5, 13)).astype(numpy_dtype("bfloat16"))
    (got,), (want,) = (
        run.run({"x": x}).values(),
        explorer.compile(narrow_product).run({"x": x}).values(),
    )
    np.testing.assert_array_equal(got.astype("f4"), want.astype("f4"))


def test_a_kernel_without_thread_blocks_is_named() -> None:
    @explorer.trace
    def narrow(x: explorer.tensor("float8_e5m2", 5, 13)):  # type: ignore[valid-type,no-untyped-def]
        return x.astype("float32")

    with pytest.raises(BadOption, match="no elements of float8_e5m2"):
        explorer.compile(narrow, target="cuda-sim").device_program()
    with pytest.raises(BadOption, match="has no thread blocks on this-cpu"):
        compiled("zoo:small_lstm", "cpu").device_program()


@pytest.mark.exhaustive
def test_copies_leave_no_part_of_a_warp_where_lanes_shuffle() -> None:
    """Of 7 x 7 x 8 points 392 threads take one each, and 128 shuffle."""
    program = compiled("zoo:small_nasnet", "h100").device_program(units=132)
    shuffling = [b for b in program.blocks.values() if "shfl_xor_sync" in b.source]
    assert shuffling and all(b.threads % 32 == 0 for b in shuffling)


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
@pytest.mark.parametrize("sheet", ["a100", "h100"])
def test_a_program_is_assembled(sheet: str) -> None:
    found = compiled("zoo:small_lstm", sheet).device_program().assembled
    assert "globaltimer" in found.ptx and 0 < found.registers <= 255
    assert found.occupancy.blocks >= 1
