"""Work grows with the program and no faster, counted in calls of functions: no clock, no luck."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.frontends.model import Model
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.kernel import size_of
from explorer.ir.program import Program
from explorer.ops.interpreter.evaluate import evaluate
from explorer.passes.random_inputs import random_inputs
from explorer.roller import Price
from explorer.welder import Options as WelderOptions
from explorer.welder import Weld
from explorer.welder.policy import ByPairs
from explorer.welder.refusals import MOST_NESTED_OPERATIONS, MOST_OPERATIONS
from tests.benchmarks.growth import KINDS, Body, chain, tasked
from tests.roller.test_policy import DEVICE

TENFOLD = 15.0


LARGER, SMALLER = 1500, 150  # operators of a DenseNet


def compiled(kind: str, program: Program, until: str) -> explorer.Compilation:
    return explorer.compile(Model(kind, "", program), until=until)


def counted(work: Callable[[], object]) -> int:
    """How many functions, generators and built-in functions some work enters."""
    found = 0

    def note(frame: object, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def calls(kind: str, count: int, until: str) -> int:
    """How many functions a compilation enters."""
    program = KINDS[kind](count)

    def work() -> None:
        made = compiled(kind, program, until)
        if until == "planned":
            made.memory()

    return counted(work)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_a5_5_tenfold_operators_are_legalized_in_at_most_fifteenfold_work(kind: str) -> None:
    calls(kind, 20, "legalized")  # what is done once in a process
    assert calls(kind, 1500, "legalized") <= TENFOLD * calls(kind, 150, "legalized")


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_tenfold_operators_are_planned_in_at_most_fifteenfold_work(kind: str) -> None:
    calls(kind, 20, "planned")
    assert calls(kind, 500, "planned") <= TENFOLD * calls(kind, 50, "planned")


@pytest.mark.exhaustive
def test_a_densenet_of_tenfold_operators_is_grouped_in_at_most_fifteenfold_work() -> None:
    weld = Weld(DEVICE, Price(DEVICE))
    weld(tasked(20))
    small, large = (tasked(count) for count in (SMALLER, LARGER))
    assert counted(lambda: weld(large)) <= TENFOLD * counted(lambda: weld(small))


def test_models_of_one_name_and_no_file_are_told_apart_by_their_operators() -> None:
    assert Model("m", "", chain(3)).digest != Model("m", "", chain(4)).digest
    assert Model("m", "", chain(3)).digest == Model("m", "", chain(3)).digest
    counts = [len(compiled("m", chain(n), "typed").program.main.body) for n in (3, 4)]
    assert counts == [3, 4]


def test_a_chain_of_operators_is_welded_into_kernels_of_bounded_size() -> None:
    made = compiled("chain", chain(1000), "welded")
    sizes = [size_of(b.expr.kernel) for b in made.program.kernel_calls]  # type: ignore[union-attr]
    assert max(s.depth for s in sizes) == MOST_NESTED_OPERATIONS
    assert max(s.operations for s in sizes) <= MOST_OPERATIONS
    assert len(sizes) == -(-1000 // MOST_NESTED_OPERATIONS)


def test_a_bound_on_a_kernel_says_so_where_pictures_look() -> None:
    graph = compiled("chain", chain(100), "welded").snapshot("welder").decisions.tile_graph
    assert graph is not None
    reasons = {s.refused for g in graph.groups for s in g.steps if s.refused}
    most = MOST_NESTED_OPERATIONS
    said = f"the kernel would nest {most + 1} operations, at most {most}"
    assert f"{said}: with 1 fewer it would fit" in reasons
    assert all(f"operations, at most {most}: " in r for r in reasons)


def test_what_reads_a_value_twice_does_not_double_its_kernel_without_end() -> None:
    body = Body(1)
    value = body.params[0]
    for _ in range(60):
        value = body.op("Mul", value, value)
        value = body.op("Tanh", value)
    program = body.program((value,), {})
    made = compiled("doubling", program, "welded")
    sizes = [size_of(b.expr.kernel) for b in made.program.kernel_calls]  # type: ignore[union-attr]
    assert max(s.operations for s in sizes) <= MOST_OPERATIONS
    inputs = random_inputs(program)
    np.testing.assert_allclose(
        evaluate(made.program, inputs)["y0"],
        evaluate(made.snapshots[0].after, inputs)["y0"],
        rtol=1e-5,
    )


def test_no_policy_makes_kernels_that_python_cannot_walk() -> None:
    def always(merge: object, facts: object) -> Candidate:
        return Candidate("yes", True, (("gain", -1.0),))

    options = explorer.Options(welder=WelderOptions(policy=ByPairs(always)))
    made = explorer.compile(Model("chain", "", chain(1000)), options=options, until="planned")
    assert len(made.program.kernel_calls) == -(-1000 // MOST_NESTED_OPERATIONS)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_large_programs_run_as_their_text_says(kind: str) -> None:
    program = KINDS[kind](60)
    made = compiled(kind, program, "emitted")
    inputs = random_inputs(program)
    wanted = evaluate(made.snapshots[0].after, inputs)
    for name, value in made.run(inputs).items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-5)
