"""Recomputation of values where they are needed next, instead of storing them until then.

a = f(x); b = g(a); ...; d = h(c, a)   ->   a = f(x); b = g(a); ...; a2 = f(x) after c; d = h(c, a2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.autodiff.rematerialisation.function_steps import steps_of
from explorer.autodiff.rematerialisation.model import Copy, Steps
from explorer.autodiff.rematerialisation.options import Options
from explorer.autodiff.rematerialisation.policy import (
    FrontierPoint,
    front,
    rank_points,
    to_candidate,
)
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.rematerialisation import Rematerialisation
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.program import Binding, Function, Program
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.recurrent.dataflow import order_groups
from explorer.passes.simplify.substitution import with_reads


@compiler_pass(
    "rematerialise", paper="Chen et al. 2016, Training deep nets with sublinear memory cost"
)
@dataclass(frozen=True, slots=True)
class Rematerialise:
    """Recomputed values within a memory bound.

    After: intermediates are predicted to need no more bytes at once than the options allow, or else
    as few as any choice needs. Kernels and their bits are unchanged.
    """

    options: Options = Options(share=0.0)

    def __call__(self, program: Program) -> Program:
        """Add the recomputed bindings and the decisions with all points."""
        rows: list[Rematerialisation] = []
        tilings = {t.binding: t for t in program.decisions.tilings}
        taken = {v.name for f in program.functions for v in f.params} | program.constants.keys()
        taken |= {v.name for _, b in program.bindings() for v in b.vars}
        for function in program.functions:
            steps = steps_of(program, function)
            limit_bytes = self.options.limit_bytes(steps.plain.peak_bytes)
            points = rank_points(front(steps), limit_bytes)
            if len(points) < 2:
                continue
            candidates = tuple(to_candidate(steps, p, limit_bytes) for p in points)
            rows.append(
                Rematerialisation(function.name, limit_bytes, candidates[0].value, candidates)
            )
            recomputed = _Recomputation(function, steps, points[0], taken)
            program = program.with_function(recomputed.rewrite())
            tilings |= recomputed.tilings(tilings)
        decisions = replace(
            program.decisions, rematerialisation=tuple(rows), tilings=tuple(tilings.values())
        )
        return replace(program, decisions=decisions)


class _Recomputation:
    """A function with a point's steps recomputed."""

    def __init__(
        self, function: Function, steps: Steps, point: FrontierPoint, taken: set[str]
    ) -> None:
        """Copy the bindings that are recomputed."""
        self.function, self.steps, self.copies = function, steps, point.copies
        self.values: dict[str, Var] = {}  # by name, the copy that late readers read
        self.copies_by_place = {copy.place: self.copy(copy, taken) for copy in point.copies}

    def copy(self, copy: Copy, taken: set[str]) -> Binding:
        """Return a copy of a binding with fresh names that reads recomputed values."""
        old = self.function.body[copy.place]
        vars = tuple(replace(v, name=fresh(f"{v.name}.again", taken)) for v in old.vars)
        taken.update(v.name for v in vars)
        expr = with_reads(old.expr, self.values)
        if isinstance(expr, KernelCall) and copy.after >= 0:
            expr = replace(expr, after=self.function.body[copy.after].vars[0])
        self.values |= {v.name: new for v, new in zip(old.vars, vars, strict=True)}
        return Binding(vars, expr, old.origin)

    def rewrite(self) -> Function:
        """Return the function with each copy before its first reader and after its anchor."""
        late = set(self.steps.late)
        before = self._before()
        body: list[Binding] = []
        place: dict[int, int] = {}  # of each step as it was
        for n, binding in enumerate(self.function.body):
            body += [self.copies_by_place[m] for m in before.get(n, ())]
            if n in late:
                binding = replace(binding, expr=with_reads(binding.expr, self.values))
            place[n] = len(body)
            body.append(binding)
        needs = {place[n]: [place[m] for m in s.needs] for n, s in enumerate(self.steps.all)}
        return replace(self.function, body=_in_order(body, needs))

    def _before(self) -> Mapping[int, Sequence[int]]:
        """Return the copies to insert before each late step.

        It is the first step that reads them, directly or through a copy.
        """
        first: dict[int, int] = {}
        for n in sorted(self.steps.late, reverse=True):
            first |= {m: n for m in self.steps.all[n].needs if m in self.copies_by_place}
        for place in sorted(self.copies_by_place, reverse=True):
            for m in self.steps.all[place].needs:
                if m in self.copies_by_place:
                    first[m] = min(first.get(m, first[place]), first[place])
        copies_before: dict[int, list[int]] = {}
        for place in sorted(first):
            copies_before.setdefault(first[place], []).append(place)
        return copies_before

    def tilings(self, decisions: Mapping[str, TilingDecision]) -> dict[str, TilingDecision]:
        """Return Roller's decisions for the copies: those of the originals."""
        pairs = (
            (self.function.body[place].name, copy.name)
            for place, copy in self.copies_by_place.items()
        )
        return {new: replace(decisions[old], binding=new) for old, new in pairs if old in decisions}


def _in_order(body: Sequence[Binding], needed: Mapping[int, Sequence[int]]) -> tuple[Binding, ...]:
    """Sort the bindings after all that they read and that is `needed`, otherwise stable."""
    place = {v.name: n for n, b in enumerate(body) for v in b.vars}
    reads = [{place[v.name] for v in b.reads if v.name in place} for b in body]
    needs = [sorted({*reads[n], *needed.get(n, ())}) for n in range(len(body))]
    order, _ = order_groups(needs, ())
    return tuple(body[n] for places in order for n in places)
