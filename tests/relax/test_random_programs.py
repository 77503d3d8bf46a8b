"""Deduction is sound, and every stage computes the same: random programs (property A5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from explorer.compiler.options import Options
from explorer.compiler.pipeline import pipeline
from explorer.devices.model import Device, MemoryLevel
from explorer.errors import ShapeError
from explorer.ir.calls import OpCall, Var
from explorer.ir.dims import evaluate_shape
from explorer.ir.program import Binding, Constant, Function, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ir.text.program_text import print_program
from explorer.ir.types import Tensor, dtype_of
from explorer.ops.interpreter.evaluate import Interpreter
from explorer.ops.interpreter.frame import CallFrame, bind_sizes
from explorer.ops.interpreter.verify import verify
from explorer.passes.snapshots import Step
from explorer.passes.validate import difference
from explorer.relax.options import Options as RelaxOptions
from tests.examples import examples
from tests.strategies.operator_programs import inputs_of, programs

DEVICE = Device(
    "test",
    "cpu",
    2,
    16,
    32,
    2.0,
    3.0,
    (MemoryLevel("L2", 1 << 20, 200.0, 64), MemoryLevel("DRAM", None, 20.0, 64, True)),
    1.0,
    0.2,
    10.0,
)
RELAX = RelaxOptions(fuse=True, dispatch=("blas",), lift=True)
STEPS, OTHER = (
    [s for s in pipeline(chosen, DEVICE) if s.stage <= Stage.ROLLED]
    for chosen in (Options(), Options(relax=RELAX))
)
SIZES = st.fixed_dictionaries({s: st.sampled_from([0, 1, 2, 3, 5, 7, 11]) for s in ("n", "m")})


class Watched(Interpreter):
    """The interpreter, with a look at every value that is bound."""

    def binding(
        self, binding: Binding, values: Mapping[str, Any], frame: CallFrame
    ) -> Sequence[np.ndarray]:
        found = super().binding(binding, values, frame)
        for var, value in zip(binding.vars, found, strict=True):
            satisfies(var, value, frame.sizes)
        return found


def satisfies(var: Var, value: Any, sizes: Mapping[str, int]) -> None:
    """What is annotated is so."""
    if not isinstance(var.type, Tensor):
        return
    assert var.type.dtype in (None, dtype_of(value)), var
    assert var.type.rank in (None, value.ndim), var
    if var.type.shape is not None:
        assert evaluate_shape(var.type.shape, sizes) == value.shape, var


def results(program: Program, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs, every value watched."""
    main = program.main
    run = Watched(program, bind_sizes(program, inputs))
    found = run.run(main, [inputs[p.name] for p in main.params])
    return dict(zip(main.output_names, found, strict=True))


ANY = (programs(), SIZES, SIZES, st.integers(0, 99), st.sampled_from([STEPS, OTHER]))
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=examples(40, few=10), **QUIET)
@given(*ANY)
def test_a5_04_every_stage_has_the_annotated_shapes_and_the_same_values(
    program: Program, one: dict[str, int], other: dict[str, int], seed: int, steps: list[Step]
) -> None:
    keeps_values(program, one, other, seed, steps)


@pytest.mark.exhaustive
@settings(max_examples=examples(1000), **QUIET)
@given(*ANY)
def test_a5_04_every_stage_of_a_thousand_programs_has_the_same_values(
    program: Program, one: dict[str, int], other: dict[str, int], seed: int, steps: list[Step]
) -> None:
    keeps_values(program, one, other, seed, steps)


def keeps_values(
    program: Program, one: dict[str, int], other: dict[str, int], seed: int, steps: list[Step]
) -> None:
    text = print_program(program)
    runs = [inputs_of(program, sizes, seed) for sizes in (one, other)]
    try:
        wanted = [results(program, inputs) for inputs in runs]
    except ShapeError:  # sides of a branch whose shapes differ, and an operator that takes one
        assume(False)
    for step in steps:
        program = step.run(program)
        verify(program)
        for inputs, values in zip(runs, wanted, strict=True):
            problem = difference(values, results(program, inputs))
            assert not problem, f"{step.name}: {problem}\n{text}"


# What random programs have found.


def one_operator(name: str, *shapes: tuple[int, ...], constants: Any = (), **attrs: Any) -> Program:
    """A program of one operator of inputs of these shapes and of constants."""
    params = tuple(Var(f"x{i}", Tensor(s, "float32")) for i, s in enumerate(shapes))
    known = {f"c{i}": Constant(np.array(c)) for i, c in enumerate(constants)}
    args = (*params, *(Var(n, c.type) for n, c in known.items()))
    out = Var("y", Tensor())
    body = (Binding((out,), OpCall(name, args, tuple(attrs.items())), frozenset({"op"})),)
    main = Function("main", params, body, (out,), ("y",))
    return Program((main,), known, sources=(SourceOp("op", name),))


FOUND = {
    "a gather at one place of an inner axis reads that place": one_operator(
        "Gather", (3, 4, 5), constants=[[2]], axis=1
    ),
    "a concatenation of nothing": one_operator("Concat", (0,), (0,), axis=0),
    "the greatest of nothing": one_operator("ReduceMax", (2, 0), constants=[[1]]),
    "the mean of nothing": one_operator("ReduceMean", (2, 0), constants=[[1]]),
    "the softmax of nothing": one_operator("Softmax", (2, 0), axis=1),
}


@pytest.mark.parametrize("program", FOUND.values(), ids=FOUND)
def test_what_random_programs_have_found(program: Program) -> None:
    inputs = inputs_of(program, {}, 0)
    wanted = results(program, inputs)
    for step in STEPS:
        program = step.run(program)
        verify(program)
        assert not difference(wanted, results(program, inputs)), step.name
