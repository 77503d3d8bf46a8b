"""Recorded replay: a second run with the same shapes interprets nothing and makes no array."""

import ctypes
import threading
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest

from explorer.grinder import lowest, on_host
from explorer.ir.calls import Var
from explorer.ir.dims import symbol
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate
from explorer.process.counters import counters
from explorer.runtime.executable import Executable
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same

SET_HANDLER = 304  # PyDataMem_SetHandler's place in NumPy's table of C functions
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
CLEAR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
RESIZE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler: who gives arrays their bytes."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ALLOCATE),
        ("calloc", CLEAR),
        ("realloc", RESIZE),
        ("free", FREE),
    )


def counting(sizes):
    """A handler that notes every size that is asked for, temporaries included."""
    libc = ctypes.CDLL(None)
    for function in (libc.malloc, libc.calloc, libc.realloc):
        function.restype = ctypes.c_void_p

    def malloc(_, size):
        sizes.append(size)
        return libc.malloc(ctypes.c_size_t(size))

    def calloc(_, count, size):
        sizes.append(count * size)
        return libc.calloc(ctypes.c_size_t(count), ctypes.c_size_t(size))

    def realloc(_, pointer, size):
        sizes.append(size)
        return libc.realloc(ctypes.c_void_p(pointer), ctypes.c_size_t(size))

    def free(_, pointer, size):
        libc.free(ctypes.c_void_p(pointer))

    functions = (ALLOCATE(malloc), CLEAR(calloc), RESIZE(realloc), FREE(free))
    return Handler(b"counting", 1, None, *functions)


KEPT = []  # handlers: arrays that outlive a test are freed through them


@contextmanager
def arrays_made():
    """The size in bytes of every allocation that NumPy makes in the block."""
    python = ctypes.pythonapi
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    api = python.PyCapsule_GetPointer(np._core._multiarray_umath._ARRAY_API, None)
    place = ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))[SET_HANDLER]
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(place)
    sizes = []
    handler = counting(sizes)
    KEPT.append(handler)
    before = set_handler(python.PyCapsule_New(ctypes.addressof(handler), b"mem_handler", None))
    try:
        yield sizes
    finally:
        set_handler(before)


def test_every_array_that_numpy_makes_is_counted():
    with arrays_made() as sizes:
        kept = np.empty(1000, np.uint8)
        _ = kept + kept
        _ = np.zeros(3, np.int64)
    assert sizes == [1000, 1000, 24]


def chain(extent=32):
    model = Model()
    program = model.program(
        (Var("x", vector(extent)),), lambda b, x: [b.mix(b.flip(x), x), b.flip(x)]
    )
    return Executable(program, model.codes, DEVICE), program


def recorded(executable, inputs, **more):
    executable.run(inputs)
    with counters.delta() as did, arrays_made() as sizes:
        found = executable.run(inputs, **more)
    return found, did, sizes


def test_a5_14_the_second_run_captures_nothing_and_makes_its_outputs_only():
    executable, program = chain()
    inputs = inputs_of(program, 32)
    with counters.delta() as first:
        executable.run(inputs)
    assert (first.captures, first.replays, first.arrays_made) == (1, 0, 2)
    found, did, sizes = recorded(executable, inputs)
    assert (did.captures, did.replays, did.arrays_made, did.runs) == (0, 1, 2, 1)
    assert sizes == [32 * 8 + 64] * 2  # an output and what aligns it
    same(found, evaluate(program, inputs))


def test_a5_14_the_second_run_makes_no_array_at_all_where_out_gives_them():
    executable, program = chain()
    inputs = inputs_of(program, 32)
    out = {name: np.zeros(32, np.int64) for name in ("y0", "y1")}
    found, did, sizes = recorded(executable, inputs, out=out)
    assert (did.captures, did.replays, did.arrays_made, sizes) == (0, 1, 0, [])
    assert found["y0"] is out["y0"] and found["y1"] is out["y1"]
    same(found, evaluate(program, inputs))


def test_a5_14_nothing_that_a_replay_makes_is_left_in_memory():
    executable, program = chain(1000)
    inputs = inputs_of(program, 1000)
    out = executable.run(inputs)
    executable.run(inputs, out=out)
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    tracemalloc.start()
    try:
        for _ in range(5):
            executable.run(inputs, out=out)
        made = tracemalloc.take_snapshot().filter_traces([domain])
        kept = executable.run(inputs)
        fresh = tracemalloc.take_snapshot().filter_traces([domain])
    finally:
        tracemalloc.stop()
    assert not made.traces
    assert sum(t.size for t in fresh.traces) == sum(a.nbytes + 64 for a in kept.values())


def test_a6_18_a_new_extent_captures_once_and_an_old_one_replays():
    executable, program = chain(symbol("n"))
    for extent, new in ((3, 1), (3, 0), (7, 1), (3, 0), (7, 0), (1, 1), (0, 1), (0, 0), (7, 0)):
        inputs = inputs_of(program, extent, seed=extent)
        with counters.delta() as did:
            found = executable.run(inputs)
        assert (did.captures, did.replays) == (new, 1 - new)
        same(found, evaluate(program, inputs))


def test_a6_18_an_output_is_not_overwritten_by_the_next_run():
    executable, program = chain()
    inputs = [inputs_of(program, 32, seed) for seed in range(5)]
    found = [executable.run(i) for i in inputs]
    for i, outputs in zip(inputs, found, strict=True):
        same(outputs, evaluate(program, i))
    addresses = {a.ctypes.data for outputs in found for a in outputs.values()}
    assert len(addresses) == 10


def test_a5_14_threads_replay_recordings_of_their_own():
    executable, program = chain()
    start, wrong = threading.Barrier(4), []

    def many(seed):
        inputs = inputs_of(program, 32, seed)
        wanted = evaluate(program, inputs)
        out = {name: np.empty_like(a) for name, a in wanted.items()}
        start.wait()
        for _ in range(50):
            found = executable.run(inputs, out=out)
            if not all(np.array_equal(found[n], a) for n, a in wanted.items()):
                wrong.append(seed)

    with counters.delta() as did:
        threads = [threading.Thread(target=many, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    assert did.captures == did.arenas_made <= 4
    assert did.captures + did.replays == did.runs == 200


def with_a_library_call(kind=vector(16)):
    model = Model()
    program = model.program(
        (Var("x", kind),),
        lambda b, x: [b.flip(b.library("CumSum", b.flip(x), zero(model), type=kind)), x],
    )
    return Executable(program, model.codes, DEVICE), program


def zero(model):
    return model.constant(np.array(0))


def test_a5_14_a_library_call_amid_kernels_is_replayed():
    executable, program = with_a_library_call()
    for seed in range(3):
        inputs = inputs_of(program, 16, seed)
        found, did, _ = recorded(executable, inputs)
        assert (did.captures, did.replays, did.library_calls, did.arrays_made) == (0, 1, 1, 2)
        same(found, evaluate(program, inputs))


def test_a5_14_a_library_call_reads_inputs_and_writes_outputs_where_each_run_has_them():
    model = Model()
    kind = vector(16)
    program = model.program(
        (Var("x", kind),), lambda b, x: [b.library("CumSum", x, zero(model), type=kind)]
    )
    executable = Executable(program, model.codes, DEVICE)
    for seed in range(3):
        inputs, out = inputs_of(program, 16, seed), {"y0": np.zeros(16, np.int64)}
        assert executable.run(inputs, out=out)["y0"] is out["y0"]
        same(out, evaluate(program, inputs))


def test_a_library_call_that_fails_leaves_the_recording_as_it_was():
    model = Model()
    program = model.program(
        (Var("x", vector(16)), Var("axis", Tensor((), "int64"))),
        lambda b, x, axis: [b.library("CumSum", b.flip(x), axis, type=vector(16))],
    )
    executable = Executable(program, model.codes, DEVICE)
    inputs = {"x": np.arange(16), "axis": np.array(0)}
    wanted = evaluate(program, inputs)
    same(executable.run(inputs), wanted)
    with pytest.raises(Exception, match="axis"):
        executable.run({**inputs, "axis": np.array(5)})
    with counters.delta() as did:
        same(executable.run(inputs), wanted)
    assert (did.captures, did.replays) == (0, 1)


@pytest.mark.parametrize("level", [lowest, on_host])
def test_a5_14_decisions_are_made_anew_and_what_follows_is_replayed(level):
    model = Model()
    count, truth = Tensor((), "int64"), Tensor((), "bool")
    loop = model.function(
        "loop",
        (model.var(count), model.var(truth), model.var(vector(16))),
        lambda b, i, going, s: [going, b.flip(s)],
    )
    arms = [
        model.function(name, (model.var(vector(16)),), write)
        for name, write in (("then", lambda b, s: [b.flip(s)]), ("orelse", lambda b, s: [s]))
    ]
    program = model.program(
        (Var("x", vector(16)), Var("trip", count), Var("p", truth)),
        lambda b, x, trip, p: [b.branch(p, *arms, [b.loop(loop, trip, None, [x])], vector(16))],
    )
    executable = Executable(program, model.codes, DEVICE, level)
    executable.run({"x": np.arange(16), "trip": np.array(1), "p": np.array(True)})
    out = {"y0": np.zeros(16, np.int64)}
    for trip, p in ((1, True), (5, False), (0, True), (0, False)):
        inputs = {"x": np.arange(16), "trip": np.array(trip), "p": np.array(p)}
        wanted = evaluate(program, inputs)
        with counters.delta() as did, arrays_made() as sizes:
            found = executable.run(inputs, out=out)
        same(found, wanted)
        assert (did.captures, did.replays, did.arrays_made, sizes) == (0, 1, 0, [])
        assert did.host_reads == (2 if level is on_host else 0)


def test_an_input_that_kernels_cannot_read_is_copied_and_counted():
    executable, program = chain()
    inputs = inputs_of(program, 32)
    executable.run(inputs)
    with counters.delta() as did:
        same(executable.run({"x": np.repeat(inputs["x"], 2)[::2]}), evaluate(program, inputs))
    assert did.arrays_made == 3


def test_an_out_that_kernels_cannot_write_costs_one_array():
    executable, program = chain()
    inputs = inputs_of(program, 32)
    wide = np.zeros((32, 2), np.int64)
    with counters.delta() as did:
        found = executable.run(inputs, out={"y0": wide[:, 0], "y1": np.zeros(32, np.int64)})
    assert did.arrays_made == 1
    same(found, evaluate(program, inputs))


def test_sizes_tell_what_no_input_says():
    model, n = Model(), symbol("n")
    program = model.program((Var("x", vector(4)),), lambda b, x: [b.flip(x), b.shape_of(n, 2 * n)])
    executable = Executable(program, model.codes, DEVICE)
    for extent in (5, 9, 5):
        found = executable.run({"x": np.arange(4)}, sizes={"n": extent})
        assert found["y1"].tolist() == [extent, 2 * extent]


def test_an_output_over_an_input_and_an_empty_one_is_still_right():
    model = Model()
    params = (Var("x", vector(16)), Var("e", vector(0)))
    program = model.program(params, lambda b, x, e: [b.flip(x), b.flip(e), b.mix(b.flip(x), x)])
    executable = Executable(program, model.codes, DEVICE)
    block = np.arange(40)
    inputs = {"x": block[12:28], "e": np.zeros(0, np.int64)}
    wanted = {n: a.copy() for n, a in evaluate(program, inputs).items()}
    executable.run(inputs, out={"y0": block[:16], "y1": block[8:8], "y2": block[20:36]})
    assert np.array_equal(block[20:36], wanted["y2"])
    assert np.array_equal(block[:16], wanted["y0"])
