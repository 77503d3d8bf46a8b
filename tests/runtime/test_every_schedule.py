"""Whatever way control flow goes the results are the same: random programs, every schedule.

The programs nest branches, loops and functions that call themselves; of loops some make no trip.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.grinder import ControlSchedules, lowest, on_host
from explorer.grinder import Options as Grinder
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ir.program import Program
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import Interpreter
from explorer.rammer import Options
from explorer.runtime.executable import Executable
from tests.examples import examples
from tests.runtime.programs import DEVICE, Model, inputs_of, vector
from tests.runtime.test_executable import same
from tests.runtime.test_interleavings import N, programs
from tests.runtime.test_recursion import recursive

VECTOR, COUNT, TRUTH = vector(N), Tensor((), "int64"), Tensor((), "bool")


def mixed(seed: int) -> Any:
    """Each loop and branch at random, at the host where something inside must be."""
    rnd = Random(seed)

    def level(body: Any) -> tuple[str, str]:
        return rnd.choice([lowest, on_host])(body)

    return level


WAYS = {
    "device": lambda seed: ControlSchedules(),
    "host": lambda seed: ControlSchedules(on_host),
    "unrolled by 2": lambda seed: ControlSchedules(turn=2),
    "unrolled by 3": lambda seed: ControlSchedules(turn=3),
    "unrolled by 8": lambda seed: ControlSchedules(turn=8),
    "eager": lambda seed: ControlSchedules(on_host, apart=True),
    "mixed": lambda seed: ControlSchedules(mixed(seed), turn=2),
}


RECURSIVE_WAYS = {name: ways for name, ways in WAYS.items() if not name.startswith("unrolled")}
PART = 50  # programs of one part of the exhaustive test


class Decided(Interpreter):
    """An interpreter that notes which sides of branches were taken and how many trips loops made,
    those of recursive calls included.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program, {})
        self.seen = Counter[str]()

    def run(self, function: Any, args: Any, given: Any = None, of: str = "") -> list[Any]:
        self.seen[of.rpartition("/")[2]] += 1
        return super().run(function, args, given, of)

    def loop(self, loop: Any, values: Any, sizes: Any, of: str) -> Any:
        before = self.seen[of]
        found = super().loop(loop, values, sizes, of)
        trips = self.seen[of] - before
        self.seen["trips"] += trips
        self.seen["no trip"] += not trips
        return found


def agrees(seed: int, recurses: bool = False) -> Counter[str]:
    """A random program gives what NumPy gives, every way, on one thread and on two; what it
    decided.
    """
    rnd = Random(seed)
    model, program = recursive(rnd) if recurses else programs(rnd)
    inputs = inputs_of(program, N, seed)
    if recurses:
        inputs["k"] = np.array(seed % 3)
    python = Decided(program)
    found = python.run(program.main, [inputs[p.name] for p in program.main.params])
    wanted = dict(zip(program.main.output_names, found, strict=True))
    every = RECURSIVE_WAYS if recurses else WAYS
    ways = [(ways(seed), Grinder(alone="all")) for ways in every.values()]
    ways += [(ControlSchedules(), Grinder(alone=asked)) for asked in ("auto", "one")]
    ways += [
        (ControlSchedules(), Grinder(recursion=asked))
        for asked in ("serial", "parallel")
        if recurses
    ]
    ways += [(ControlSchedules(), Grinder(independent=asked)) for asked in ("together", "apart")]
    laid = program.decisions
    assert isinstance(laid.rammer, Options) and isinstance(laid.grinder, Grinder | None)
    depth = laid.grinder.depth if laid.grinder else 0
    for threads in (1, 2):
        for way, grinder in ways:
            rammer, grinder = replace(laid.rammer, threads=threads), replace(grinder, depth=depth)
            decided = replace(laid, rammer=rammer, grinder=grinder)
            executable = Executable(replace(program, decisions=decided), model.codes, DEVICE, way)
            same(executable.run(inputs), wanted)
            same(executable.run(inputs), wanted)
    return python.seen


@settings(max_examples=examples(15, few=4), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([False, False, True]))
def test_random_programs_give_the_same_every_way(seed: int, recurses: bool) -> None:
    agrees(seed, recurses)


@pytest.mark.exhaustive
@pytest.mark.parametrize("recurses", [False, True])
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_random_programs_give_the_same_every_way(part: int, recurses: bool) -> None:
    """Half of them call themselves. In every part branches go both ways, some loops make none."""
    first, seen = part * PART, Counter[str]()
    for seed in range(first, first + PART):
        seen += agrees(seed, recurses)
    assert all(seen[kind] for kind in ("then", "else", "trips", "no trip"))


def counted_if(trips: int) -> tuple[Model, Program]:
    """A loop over a branch, one side of which is two kernels that another launch follows."""
    model = Model()
    sides = [
        model.function(f"side{n}", (model.var(VECTOR),), lambda b, x, n=n: [flips(b, x, n)])
        for n in (2, 1)
    ]
    body = model.function(
        "body",
        tuple(map(model.var, (COUNT, TRUTH, VECTOR))),
        lambda b, i, go, s: [go, b.branch(b.test(s), *sides, [s], VECTOR)],
    )
    limit = model.constant(np.array(trips))
    program = model.program((Var("x", VECTOR),), lambda b, x: [b.loop(body, limit, None, [x])])
    return model, replace(program, decisions=Decisions(rammer=Options(threads=2)))


def flips(b: Any, x: Any, count: int) -> Any:
    for _ in range(count):
        x = b.flip(x)
    return x


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_python_launches_and_reads_in_every_trip_and_the_program_never(trips: int) -> None:
    """Quartet 4.6, properties 2 and 3: one launch a region, or one for each part of each trip; no
    read, or one for the limit and one for each branch.
    """
    model, program = counted_if(trips)
    inputs = inputs_of(program, N)
    for ways, reads, launches in (
        (ControlSchedules(), 0, 1),
        (ControlSchedules(turn=2), 0, 1),
        (ControlSchedules(on_host), 1 + trips, 2 * trips),
    ):
        executable = Executable(program, model.codes, DEVICE, ways)
        executable.run(inputs)
        with explorer.counters.delta() as did:
            (traced,) = executable.traced(inputs)
        assert did.host_reads == 2 * reads  # a run that warms up, and the one that is traced
        assert len(traced.launches) == launches


def test_where_kernels_are_apart_each_run_of_one_is_a_launch() -> None:
    model, program = counted_if(5)
    inputs = inputs_of(program, N)
    executable = Executable(program, model.codes, DEVICE, ControlSchedules(on_host, apart=True))
    (traced,) = executable.traced(inputs)
    runs = {(b.call, b.iteration) for b in executable.wall_of(traced).bricks}
    assert len(traced.launches) == len(runs) > 2 * 5


def test_a_while_reads_its_guard_before_every_trip_and_once_more() -> None:
    model = Model()
    body = model.function(
        "body",
        tuple(map(model.var, (COUNT, TRUTH, VECTOR))),
        lambda b, i, go, s: [b.test(b.flip(s)), b.flip(s)],
    )
    program = model.program((Var("x", VECTOR),), lambda b, x: [b.loop(body, None, b.test(x), [x])])
    inputs = inputs_of(program, N, 3)
    executable = Executable(program, model.codes, DEVICE, ControlSchedules(on_host))
    executable.run(inputs)
    with explorer.counters.delta() as did:
        executable.run(inputs)
    trips = 1 + max(b.iteration for b in executable.measured_wall(inputs).bricks if "/" in b.call)
    assert did.host_reads == trips + 1
