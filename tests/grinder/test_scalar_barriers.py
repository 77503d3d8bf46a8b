"""Units that look at a scalar meet before what comes next only where that may overwrite it."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.grinder import BranchTask, LoopTask, uprogram
from explorer.grinder import Options as Grinder
from explorer.grinder.tree import arm_needs_barrier, loop_needs_barrier
from explorer.ir.calls import Var
from explorer.ir.decisions.decided import Decisions
from explorer.ops.interpreter.evaluate import evaluate
from explorer.rammer import Options
from explorer.runtime.device_program import instructions as isa
from explorer.runtime.executable import Executable
from tests.runtime.interleaving import Fault
from tests.runtime.programs import DEVICE, Model, inputs_of
from tests.runtime.test_executable import same
from tests.runtime.test_interleavings import COUNT, TRUTH, VECTOR, N, by_model

BOTH = Decisions(rammer=Options(threads=2, brick_tasks=1), grinder=Grinder(alone="all"))


def in_model(executable: Executable, inputs: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The same in every drawn order of the units, without a race."""
    for seed in range(20):
        found, _ = by_model(executable, inputs, Random(seed))
        same(found, wanted)


def handed_on() -> tuple[Executable, dict[str, Any]]:
    """A loop that does nothing, and that another bool ends after the first trip."""
    model = Model()
    params = tuple(map(model.var, (COUNT, TRUTH, VECTOR, TRUTH)))
    body = model.function("body", params, lambda b, i, go, s, q: [q, s])

    def main(b: Any, p: Any, q: Any, x: Any) -> list[Any]:
        return [b.loop(body, model.constant(np.array(9)), p, [b.flip(x)], [q])]

    program = model.program((Var("p", TRUTH), Var("q", TRUTH), Var("x", VECTOR)), main, BOTH)
    inputs = inputs_of(program, N) | {"p": np.array(True), "q": np.array(False)}
    return Executable(program, model.codes, DEVICE), inputs


def test_where_a_loop_only_copies_all_meet_before_the_scalar_is_overwritten() -> None:
    executable, inputs = handed_on()
    (loop,) = (p for p in executable.tasks.parts if isinstance(p, LoopTask))
    assert loop_needs_barrier(loop, executable.tasks.values)
    in_model(executable, inputs, evaluate(executable.program, inputs))


def test_the_model_finds_the_barrier_missing() -> None:
    executable, inputs = handed_on()
    (step,) = executable._bound(inputs, {}).steps
    for rows in step.rows:
        look = int(np.flatnonzero(rows[:, 0] == isa.LOOK)[0])
        behind = look + int(np.flatnonzero(rows[look:, 0] == isa.BARRIER)[0])
        rows[behind] = (isa.JUMP, behind + 1, 0, 0, 0)
    with pytest.raises(Fault, match="while unit"):
        in_model(executable, inputs, evaluate(executable.program, inputs))


@explorer.trace
def struck(flags: explorer.tensor("bool", 4), x: explorer.tensor("float32", 8)) -> Any:
    """A side that changes the tensor whose element decides the branch."""
    flags = ~flags
    if flags[0]:
        flags[0] = False
        x = x + 1.0
    return flags, x


def test_a_side_that_changes_what_decided_it_waits_until_all_have_looked() -> None:
    c = explorer.compile(struck, options=explorer.Options(rammer=Options(threads=2)))
    found = uprogram(c.program)
    (branch,) = (p for p in found.parts if isinstance(p, BranchTask))
    assert arm_needs_barrier(branch, 1, found.values)
