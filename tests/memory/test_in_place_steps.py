"""Programs whose kernels write several results over their arguments, on one unit and on two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.errors import VerifyError
from explorer.frontends.model import Model
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Compute, Expr, Kernel, TensorSpec, apply, at, axes
from explorer.ir.program import Binding, Function, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ir.types import Tensor
from explorer.memory.plan import Options as MemoryOptions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from explorer.rammer import Options as RammerOptions
from explorer.transforms.copies.copies import fold_copies
from explorer.transforms.simplify.redundancy import share_common_subexpressions
from tests.codegen.several_outputs import IN_PLACE, adam

SHAPE = (700, 37)
OVER = axes("i", SHAPE)
ORIGIN = frozenset({"step"})


def value(name: str) -> Var:
    return Var(name, Tensor(SHAPE, "float32"))


def mapped(name: str, arg: str, expr: Expr) -> Binding:
    """A value made of another one, element by element."""
    specs = (TensorSpec("x", SHAPE), TensorSpec("y", SHAPE))
    kernel = Kernel("map", specs, (Compute("y", OVER, expr, origin=ORIGIN),), ("x",), ("y",))
    return Binding((value(name),), KernelCall(kernel, (value(arg),)), ORIGIN)


def step(x: str, v: str, h: str, after: str) -> Binding:
    """A step of Adam over its parameter and its moments."""
    kernel = adam(SHAPE, IN_PLACE)
    kernel = replace(kernel, computes=tuple(replace(c, origin=ORIGIN) for c in kernel.computes))
    made = tuple(value(f"{n}{after}") for n in ("x", "v", "h"))
    return Binding(made, KernelCall(kernel, tuple(map(value, (x, "g", v, h)))), ORIGIN)


def program_of(*body: Binding, outputs: tuple[str, ...]) -> Program:
    params = tuple(map(value, ("a", "g", "b", "c")))
    results = tuple(map(value, outputs))
    main = Function("main", params, body, results, outputs)
    return Program((main,), sources=(SourceOp("step", "Step"),), stage=Stage.LEGALIZED)


PLAIN = at("x", OVER)
TWICE, MORE = apply("mul", PLAIN, 2.0), apply("add", PLAIN, 1.0)
MADE = (mapped("x", "a", TWICE), mapped("v", "b", TWICE), mapped("h", "c", MORE))


def training() -> Program:
    """Two steps in the same memory; what reads the parameter before comes before."""
    return program_of(
        *MADE,
        mapped("read", "x", MORE),
        step("x", "v", "h", "1"),
        mapped("between", "x1", MORE),
        step("x1", "v1", "h1", "2"),
        mapped("late", "read", TWICE),
        outputs=("x2", "v2", "h2", "late", "between"),
    )


def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.random(SHAPE).astype(np.float32) for n in ("a", "g", "b", "c")}


def check(program: Program, options: explorer.Options, runs: int = 5) -> None:
    values = inputs()
    want = evaluate(program, values)
    compiled = explorer.compile(Model("steps", "", program), options=options)
    verify(compiled.program)
    for _ in range(runs):
        found = compiled.run(values)
        for name, right in want.items():
            np.testing.assert_allclose(found[name], right, rtol=1e-5, atol=1e-6, err_msg=name)
    for name, array in inputs().items():
        np.testing.assert_array_equal(values[name], array)


@pytest.mark.parametrize("policy", ["arena", "storages"])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_written_over_was_read_before(threads: int, policy: str) -> None:
    rammer, memory = RammerOptions(threads=threads), MemoryOptions(policy=policy)
    check(training(), explorer.Options(rammer=rammer, memory=memory))


def test_a_step_waits_for_what_reads_the_memory_that_it_writes_over() -> None:
    compiled = explorer.compile(Model("steps", "", training()))
    (run,) = compiled.executable.planner.runs
    place = {o.binding: n for n, o in enumerate(run.operators)}
    assert place["read"] in run.reads[place["x1"]]
    assert place["between"] in run.reads[place["x2"]]
    assert place["read"] not in run.reads[place["x2"]]  # the step between waited for it


def test_a_copy_that_is_written_over_stays_a_copy() -> None:
    """As a view it would be the argument itself, and the caller's array would change."""
    copies = tuple(mapped(n, a, PLAIN) for n, a in zip("xvh", "abc", strict=True))
    program = program_of(*copies, step("x", "v", "h", "1"), outputs=("x1", "v1", "h1"))
    check(program, explorer.Options())
    assert len(fold_copies(program).kernel_calls) == 4


def test_equal_values_of_which_one_is_written_over_stay_two() -> None:
    program = program_of(
        *MADE,
        mapped("same", "a", TWICE),
        step("x", "v", "h", "1"),
        mapped("late", "same", MORE),
        outputs=("x1", "v1", "h1", "late"),
    )
    assert len(share_common_subexpressions(program).main.body) == 6
    check(program, explorer.Options())


def test_what_was_written_over_is_read_no_more() -> None:
    program = program_of(
        *MADE, step("x", "v", "h", "1"), mapped("late", "x", MORE), outputs=("x1", "late")
    )
    with pytest.raises(VerifyError, match="reads 'x', over which 'x1' was written"):
        verify(program)
    with pytest.raises(VerifyError, match="reads 'v', over which 'v1' was written"):
        verify(program_of(*MADE, step("x", "v", "h", "1"), outputs=("x1", "v")))
