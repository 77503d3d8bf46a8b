"""Runs under sizes that break a relation of a program: without the arms that have it, where these
are not taken.

y = if c: f(x) else g(x), where g has x: float32[n, 4] = match w: [m, 4], and n is not m
->  y = f(x), and c is looked at: where it does not hold, the host runs up to the match_cast
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
from explorer.runtime.binding.recording import Traced
from explorer.runtime.frames import Frames, RunRegion

Array = np.ndarray
Arm = tuple[str, bool]  # a branch of the main function, by its first value, and which side


class OtherArms:
    """Runs a program in which some branches have one arm, and looks whether it was taken."""

    def __init__(
        self,
        program: Program,
        arms: Collection[Arm],
        compiled: Callable[[Program], RunRegion],
        strict: Callable[[], Frames],
    ) -> None:
        self.names = program.main.output_names
        self.wanted = {f"{binding}\0taken": not side for binding, side in arms}
        self.compiled, self.strict = compiled(_without(program, dict(arms))), strict

    def run(
        self, inputs: Mapping[str, Array], traced: Traced | None = None, given: Sizes | None = None
    ) -> list[Array]:
        """The outputs in order; raises what the match_casts raise."""
        found = self.compiled(inputs, given or {}, traced)
        if all(bool(found[name]) == side for name, side in self.wanted.items()):
            return [found[name] for name in self.names]
        return self.strict().run(inputs, traced, given)


def broken_arms(
    program: Program, relations: Mapping[str, Sequence[Relation]], sizes: Sizes
) -> frozenset[Arm] | None:
    """Return the arms with a relation that does not hold, one of a branch at most; None where one
    stands elsewhere.
    """
    broken = {n for n, found in relations.items() if not all(r.holds(sizes) for r in found)}
    arms: dict[str, bool] = {}
    for binding in program.main.body:
        if isinstance(binding.expr, Branch) and broken:
            for side, name in ((True, binding.expr.then), (False, binding.expr.orelse)):
                inside = broken.intersection(_reached(program, name, set()))
                if inside and binding.name in arms:
                    return None
                if inside:
                    arms[binding.name] = side
                    broken -= inside
    return None if broken else frozenset(arms.items())


def check_relations(
    program: Program, relations: Mapping[str, Sequence[Relation]], sizes: Sizes
) -> None:
    """ShapeError where sizes break a relation: for what runs without the host."""
    for found in relations.values():
        for relation in found:
            if not relation.holds(sizes):
                wanted, given = (evaluate_dim(d, sizes) for d in (relation.wanted, relation.given))
                raise ShapeError(
                    f"dim {relation.axis} of {relation.name!r} in {program.name} must be "
                    f"{print_dim(relation.wanted)} = {wanted} and is {given}",
                    where=relation.name,
                    expected=wanted,
                    found=given,
                    try_="inputs of sizes that agree",
                )


def _reached(program: Program, name: str, seen: set[str]) -> Iterator[str]:
    """A function, and those that it runs."""
    if name not in seen:
        seen.add(name)
        yield name
        for binding in program.function(name).body:
            for callee in binding.calls:
                yield from _reached(program, callee, seen)


def _without(program: Program, arms: Mapping[str, bool]) -> Program:
    """The program with the other arm of branches in the place of both; it gives the conditions,
    too.
    """
    main, body = program.main, []
    outputs, names = main.outputs, main.output_names
    for binding in main.body:
        if isinstance(binding.expr, Branch) and binding.name in arms:
            expr = binding.expr
            kept = expr.orelse if arms[binding.name] else expr.then
            binding = replace(binding, expr=replace(expr, then=kept, orelse=kept))
            outputs, names = (*outputs, expr.cond), (*names, f"{binding.name}\0taken")
        body.append(binding)
    changed = replace(main, body=tuple(body), outputs=outputs, output_names=names)
    whole = program.with_function(changed)
    reached = {*_reached(whole, main.name, set())}
    return replace(whole, functions=tuple(f for f in whole.functions if f.name in reached))
