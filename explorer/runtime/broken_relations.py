"""Runs whose sizes break a relation: without the arms that contain it, if these are not taken.

y = if c: f(x) else g(x), where g has x: float32[n, 4] = match w: [m, 4], and n is not m
->  y = f(x), and c is checked: if it does not hold, the host runs up to the match_cast
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from explorer.errors import ShapeError
from explorer.grinder.host import Relation
from explorer.ir.calls import Branch
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes, evaluate_dim
from explorer.ir.text.text_tokens import print_dim
from explorer.runtime.binding.recording import RunTrace
from explorer.runtime.frames import Frames, RunRegion

Array = np.ndarray
Arm = tuple[str, bool]  # first value of a branch of the main function; True: `then`


class PrunedProgram:
    """A program in which some branches have one arm, with a check of which arm was taken."""

    def __init__(
        self,
        program: Program,
        arms: Collection[Arm],
        compiled: Callable[[Program], RunRegion],
        strict: Callable[[], Frames],
    ) -> None:
        """Compile the program without these arms; `strict` runs it when one of them is taken."""
        self.names = program.main.output_names
        self.expected_conditions = {f"{binding}\0taken": not is_then for binding, is_then in arms}
        self.compiled, self.strict = compiled(_without_arms(program, dict(arms))), strict

    def run(
        self,
        inputs: Mapping[str, Array],
        traced: RunTrace | None = None,
        known_sizes: Sizes | None = None,
    ) -> list[Array]:
        """Return the outputs in order.

        Raises:
            ShapeError: A match_cast of an arm that is taken does not hold.
        """
        outputs = self.compiled(inputs, known_sizes or {}, traced)
        if all(
            bool(outputs[name]) == expected for name, expected in self.expected_conditions.items()
        ):
            return [outputs[name] for name in self.names]
        return self.strict().run(inputs, traced, known_sizes)


def broken_arms(
    program: Program, relations: Mapping[str, Sequence[Relation]], sizes: Sizes
) -> frozenset[Arm] | None:
    """Return the arms with a relation that does not hold, at most one of each branch.

    Return None if a relation elsewhere does not hold.
    """
    broken = {
        n for n, of_function in relations.items() if not all(r.holds(sizes) for r in of_function)
    }
    arms: dict[str, bool] = {}
    for binding in program.main.body:
        if isinstance(binding.expr, Branch) and broken:
            for is_then, name in ((True, binding.expr.then), (False, binding.expr.orelse)):
                inside = broken.intersection(_reachable(program, name, set()))
                if inside and binding.name in arms:
                    return None
                if inside:
                    arms[binding.name] = is_then
                    broken -= inside
    return None if broken else frozenset(arms.items())


def check_relations(
    program: Program, relations: Mapping[str, Sequence[Relation]], sizes: Sizes
) -> None:
    """Check that the sizes keep all relations, for devices that run without the host.

    Raises:
        ShapeError: The sizes break a relation.
    """
    for of_function in relations.values():
        for relation in of_function:
            if not relation.holds(sizes):
                expected, actual = (
                    evaluate_dim(d, sizes) for d in (relation.expected, relation.actual)
                )
                raise ShapeError(
                    f"dim {relation.axis} of {relation.name!r} in {program.name} must be "
                    f"{print_dim(relation.expected)} = {expected} and is {actual}",
                    where=relation.name,
                    expected=expected,
                    actual=actual,
                    try_="inputs of sizes that agree",
                )


def _reachable(program: Program, name: str, seen: set[str]) -> Iterator[str]:
    """Yield a function and those that it runs."""
    if name not in seen:
        seen.add(name)
        yield name
        for binding in program.function(name).body:
            for callee in binding.calls:
                yield from _reachable(program, callee, seen)


def _without_arms(program: Program, arms: Mapping[str, bool]) -> Program:
    """Return the program with both arms of each branch replaced by the other arm.

    It also outputs the conditions.
    """
    main, body = program.main, []
    outputs, names = main.outputs, main.output_names
    for binding in main.body:
        if isinstance(binding.expr, Branch) and binding.name in arms:
            expr = binding.expr
            other_arm = expr.orelse if arms[binding.name] else expr.then
            binding = replace(binding, expr=replace(expr, then=other_arm, orelse=other_arm))
            outputs, names = (*outputs, expr.cond), (*names, f"{binding.name}\0taken")
        body.append(binding)
    changed = replace(main, body=tuple(body), outputs=outputs, output_names=names)
    changed_program = program.with_function(changed)
    reached = {*_reachable(changed_program, main.name, set())}
    return replace(
        changed_program, functions=tuple(f for f in changed_program.functions if f.name in reached)
    )
