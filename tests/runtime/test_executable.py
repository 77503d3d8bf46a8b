"""Straight programs: what comes out is what the interpreter says, however it is scheduled."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.errors import BadOption, DtypeError, MissingInput, ShapeError, UnknownInput
from explorer.ir.calls import Var
from explorer.ir.dims import symbol
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters
from explorer.runtime.executable import Executable
from tests.examples import examples
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.strategies.hand_programs import either, straight_programs


def same(found, wanted):
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert np.array_equal(found[name], array), name


def check(model, program, inputs, times=1):
    executable = Executable(program, model.codes, DEVICE)
    wanted = evaluate(program, inputs)
    for _ in range(times):
        same(executable.run(inputs), wanted)
    return executable


@settings(max_examples=examples(150))
@given(straight_programs(either), st.integers(0, 99))
def test_any_schedule_and_plan_gives_what_the_interpreter_gives(case, seed):
    model, program, extent = case
    check(model, program, inputs_of(program, extent, seed), times=3)


def place(brick):
    origin = sorted(brick.origin)
    return (brick.unit, brick.program, brick.call, brick.first, brick.last, brick.iteration, origin)


@settings(max_examples=examples(50))
@given(straight_programs(either))
def test_the_measured_bricks_are_the_planned_bricks(case):
    model, program, extent = case
    executable = Executable(program, model.codes, DEVICE)
    planned = executable.planned_wall({})
    measured = executable.measured_wall(inputs_of(program, extent))
    assert sorted(map(place, planned.bricks)) == sorted(map(place, measured.bricks))
    assert measured.kind == "measured" and measured.units == planned.units
    for unit in range(measured.units):
        parts = sorted(
            (p.start_us, p.end_us) for p in (*measured.bricks, *measured.gaps) if p.unit == unit
        )
        ends = [0.0, *(end for _, end in parts)]
        assert all(s == pytest.approx(e, abs=1e-6) for (s, _), e in zip(parts, ends))
        assert not parts or ends[-1] == pytest.approx(measured.total_us)
    writes = {b.var.name: b for b in program.kernel_calls}
    for brick in measured.bricks:
        for read in writes[brick.call].reads:
            ends = [b.end_us for b in measured.bricks if b.call == read.name]
            assert max(ends, default=0.0) <= brick.start_us + 1e-6


def test_one_executable_serves_many_sizes():
    model, n = Model(), symbol("n")
    params = (Var("x", vector(n)),)
    program = model.program(
        params, lambda b, x: [b.mix(b.flip(x), x), b.view(b.flip(x), (n, 1)), b.shape_of(n, 2 * n)]
    )
    executable = Executable(program, model.codes, DEVICE)
    for extent in (1, 8, 3, 200, 8, 1):
        inputs = inputs_of(program, extent, seed=extent)
        same(executable.run(inputs), evaluate(program, inputs))
    rows = executable.memory({"n": 10}).buffers
    assert [(r.bytes, r.formula) for r in rows] == [(80, "8*n")]


def chain(model=None):
    model = model or Model()
    x = Var("x", vector(32))
    return model, model.program((x,), lambda b, x: [b.mix(b.flip(x), x)])


def test_outputs_are_fresh_each_time():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, 32)
    first, second = executable.run(inputs)["y0"], executable.run(inputs)["y0"]
    first[:] = -1
    same({"y0": second}, evaluate(program, inputs))


def test_outputs_that_are_inputs_constants_views_and_each_other():
    model = Model()
    x = Var("x", vector(16))

    def write(b, x):
        k = model.constant(np.arange(16))
        a = b.flip(x)
        part = b.view(a, (2, 4), 8)
        return [x, k, a, a, part, b.view(x, (4, 4)), b.view(k, (8,), 8), part, b.shape_of(16, 3)]

    program = model.program((x,), write)
    inputs = inputs_of(program, 16)
    executable = check(model, program, inputs)
    found = executable.run(inputs)
    arrays = [*found.values(), inputs["x"]]
    for n, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[n + 1 :])
    assert all(a.flags.writeable for a in found.values())


def test_a_program_without_kernels_runs():
    model = Model()
    x = Var("x", vector(4))
    check(model, model.program((x,), lambda b, x: [x]), {"x": np.arange(4)})


def test_out_takes_the_results():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, 32)
    target = np.zeros(32, np.int64)
    found = executable.run(inputs, out={"y0": target})
    assert found["y0"] is target
    same(found, evaluate(program, inputs))


def test_out_may_be_the_input_or_lie_across_memory():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, 32)
    wanted = evaluate(program, inputs)["y0"]
    wide = np.zeros((32, 3), np.int64)
    executable.run(inputs, out={"y0": wide[:, 1]})
    assert np.array_equal(wide[:, 1], wanted) and not wide[:, 0].any()
    executable.run(inputs, out={"y0": inputs["x"]})
    assert np.array_equal(inputs["x"], wanted)


def test_a_prepared_run_reads_and_writes_the_same_arrays_each_time():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    inputs, target = inputs_of(program, 32), np.zeros(32, np.int64)
    run = executable.prepared(inputs, {"y0": target})
    for n in range(3):
        inputs["x"][:] = np.arange(32) * n
        run()
        same({"y0": target}, evaluate(program, inputs))


def test_a_prepared_run_refuses_arrays_that_it_would_have_to_copy():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, 32)
    wide = np.zeros((32, 3), np.int64)
    strided = {"x": np.repeat(inputs["x"], 2)[::2]}
    for passed, out in ((inputs, {}), (inputs, {"y0": wide[:, 1]}), (strided, {"y0": wide[0]})):
        with pytest.raises(ShapeError):
            executable.prepared(passed, out)


def test_two_outputs_in_overlapping_arrays_are_refused():
    model = Model()
    x = Var("x", vector(16))
    program = model.program((x,), lambda b, x: [b.flip(x), b.flip(b.flip(x))])
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, 16)
    block = np.zeros(24, np.int64)
    with pytest.raises(BadOption, match="'y0' and 'y1' share memory"):
        executable.run(inputs, out={"y0": block[:16], "y1": block[8:]})
    with pytest.raises(BadOption, match="share memory"):
        executable.run(inputs, out={"y0": block[:16], "y1": block[15::-1]})
    assert not block.any()


def test_two_outputs_may_be_every_second_element_of_one_array():
    model = Model()
    x = Var("x", vector(16))
    program = model.program((x,), lambda b, x: [b.flip(x), b.flip(b.flip(x))])
    inputs, block = inputs_of(program, 16), np.zeros(32, np.int64)
    Executable(program, model.codes, DEVICE).run(inputs, out={"y0": block[::2], "y1": block[1::2]})
    wanted = evaluate(program, inputs)
    assert np.array_equal(block[::2], wanted["y0"]) and np.array_equal(block[1::2], wanted["y1"])


@pytest.mark.parametrize(
    "out, error",
    [
        ({"y0": np.zeros(31, np.int64)}, ShapeError),
        ({"y0": np.zeros(32, np.int32)}, DtypeError),
        ({"z": np.zeros(32, np.int64)}, ShapeError),
    ],
)
def test_an_out_that_does_not_fit_is_refused(out, error):
    model, program = chain()
    with pytest.raises(error):
        Executable(program, model.codes, DEVICE).run(inputs_of(program, 32), out=out)


def test_inputs_may_be_strided_swapped_or_read_only():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    inputs = inputs_of(program, 32)
    wanted = evaluate(program, inputs)
    wide = np.repeat(inputs["x"], 2)
    same(executable.run({"x": wide[::2]}), wanted)
    same(executable.run({"x": inputs["x"].astype(">i8")}), wanted)
    raw = np.zeros(32 * 8 + 1, np.uint8)
    off = raw[1:].view(np.int64)
    off[:] = inputs["x"]
    same(executable.run({"x": off}), wanted)
    inputs["x"].flags.writeable = False
    same(executable.run(inputs), wanted)


def test_empty_tensors_are_no_special_case():
    model = Model()
    x = Var("x", vector(0))
    check(
        model, model.program((x,), lambda b, x: [b.mix(b.flip(x), x), x]), {"x": np.zeros(0, int)}
    )


@pytest.mark.parametrize(
    "inputs, error",
    [
        ({}, MissingInput),
        ({"x": np.zeros(32, np.int64), "z": np.zeros(1)}, UnknownInput),
        ({"x": np.zeros(32, np.float32)}, DtypeError),
        ({"x": np.zeros(33, np.int64)}, ShapeError),
    ],
)
def test_wrong_inputs_are_named_before_anything_runs(inputs, error):
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    with pytest.raises(error):
        executable.run(inputs)
    same(executable.run(inputs_of(program, 32)), evaluate(program, inputs_of(program, 32)))


def test_threads_run_one_executable_at_once():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    wrong = []

    def many(seed):
        inputs = inputs_of(program, 32, seed)
        wanted = evaluate(program, inputs)["y0"]
        for _ in range(100):
            if not np.array_equal(executable.run(inputs)["y0"], wanted):
                wrong.append(seed)

    threads = [threading.Thread(target=many, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_second_run_plans_nothing_and_takes_no_new_arena():
    model, program = chain()
    executable = Executable(program, model.codes, DEVICE)
    executable.run(inputs_of(program, 32))
    with counters.delta() as did:
        for _ in range(5):
            executable.run(inputs_of(program, 32))
    assert (did.runs, did.walls_planned, did.arenas_made) == (5, 0, 0)


def test_scalars_are_tensors():
    model = Model()
    x = Var("x", vector(8))
    program = model.program((x,), lambda b, x: [b.test(x), b.view(b.test(x), (1,))])
    check(model, program, inputs_of(program, 8))


def test_the_arena_is_named_in_bytes_with_views_beside_their_roots():
    model = Model()
    x = Var("x", vector(16))
    program = model.program((x,), lambda b, x: [b.flip(b.view(b.flip(x), (8,), 8))])
    memory = Executable(program, model.codes, DEVICE).memory({})
    root, view = memory.buffers
    assert (root.bytes, view.bytes, view.alias_of) == (128, 64, root.name)
    assert view.offset == root.offset + 64 and memory.planned_bytes == 128


def test_a_bool_input_of_any_shape_is_taken():
    model = Model()
    p = Var("p", Tensor((), "bool"))
    x = Var("x", vector(8))
    program = model.program((p, x), lambda b, p, x: [p, b.flip(x)])
    check(model, program, {"p": np.array(True), "x": np.arange(8)})


def test_a_wall_is_planned_without_any_code():
    model, program = chain()
    with_code = Executable(program, model.codes, DEVICE).planned_wall({})
    without = Executable(program, {}, DEVICE).planned_wall({})
    assert {b.call for b in without.bricks} == {b.call for b in with_code.bricks}


def test_many_bindings_do_not_hold_their_arenas(monkeypatch):
    model, n = Model(), symbol("n")
    program = model.program((Var("x", vector(n)),), lambda b, x: [b.flip(b.flip(x))])
    executable = Executable(program, model.codes, DEVICE)
    monkeypatch.setattr("explorer.runtime.executable.IDLE_ARENA_BYTES", 5000)
    monkeypatch.setattr("explorer.runtime.executable.MAX_BINDINGS", 4)
    for extent in [*range(1, 40), 7, 300]:
        inputs = inputs_of(program, extent)
        same(executable.run(inputs), evaluate(program, inputs))
        assert len(executable._bounds) <= 4
        assert sum(b.pooled_bytes for b in executable._bounds.values()) <= 5000 + 300 * 8
