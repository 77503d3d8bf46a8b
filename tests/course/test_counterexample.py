"""A wrong pass is shown the smallest program that it breaks; a right one none."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from explorer.course import counterexample
from explorer.course.counterexample import random_program, smaller_programs
from explorer.errors import BadOption
from explorer.ir.calls import OpCall
from explorer.ir.program import Binding, Program

AFTER = "fold constants"


def every_power(program: Program) -> Program:
    """A square of every power: right for 2 alone."""

    def squared(b: Binding) -> Binding:
        if isinstance(b.expr, OpCall) and b.expr.op == "Pow":
            return replace(b, expr=OpCall("Mul", (b.expr.args[0],) * 2, ()))
        return b

    return program.with_body(tuple(map(squared, program.main.body)))


def turned(program: Program) -> Program:
    """Products with their sides changed."""

    def turn(b: Binding) -> Binding:
        if isinstance(b.expr, OpCall) and b.expr.op == "MatMul":
            return replace(b, expr=replace(b.expr, args=b.expr.args[::-1]))
        return b

    return program.with_body(tuple(map(turn, program.main.body)))


def as_it_is(program: Program) -> Program:
    return program.with_body(program.main.body)


def loses(program: Program) -> Program:
    return program.with_body(program.main.body[1:])


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_smallest_program_is_a_line_or_two(seed: int) -> None:
    found = counterexample(every_power, after=AFTER, seed=seed)
    assert found is not None and "enp.power" in found.program
    assert found.program.count("\n") <= 3 and "expected" in found.wrong
    found = counterexample(turned, after=AFTER, seed=seed)
    assert found is not None and "enp.matmul" in found.program
    assert found.program.count("\n") <= 4 and 'tensor("float32", 2, 2)' in found.program


def test_a_right_pass_breaks_none() -> None:
    assert counterexample(as_it_is, after=AFTER, programs=50) is None


def test_a_program_that_is_none_is_a_counterexample() -> None:
    found = counterexample(loses, after=AFTER)
    assert found is not None and "the pass 'loses' returned a program" in found.wrong


def test_a_step_that_there_is_not_is_named() -> None:
    with pytest.raises(BadOption, match="no such step"):
        counterexample(as_it_is, after="fold")


def test_what_is_smaller_is_a_program_and_no_chain_of_smaller_ones_is_endless() -> None:
    rng = Random(1)
    for _ in range(50):
        now = random_program(rng)
        for _ in range(200):
            if not (less := list(smaller_programs(now))):
                break
            now = rng.choice(less)
            assert all(max(line.args) < now.first_line + n for n, line in enumerate(now.lines))
            assert now.inputs >= 1 and now.size >= 1 and now.lines
        else:
            pytest.fail(f"always smaller: {now}")
