"""Values that are computed again where they are needed next, instead of kept until then.

a = f(x); b = g(a); ...; d = h(c, a)   ->   a = f(x); b = g(a); ...; a2 = f(x) after c; d = h(c, a2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.autodiff.rematerialisation.facts import steps_of
from explorer.autodiff.rematerialisation.model import Copy, Steps
from explorer.autodiff.rematerialisation.options import Options
from explorer.autodiff.rematerialisation.policy import Point, chosen, front, weighed
from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.rematerialisation import Rematerialisation
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.program import Binding, Function, Program
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.recurrent.dataflow import in_turn
from explorer.passes.simplify.substitution import with_reads


@compiler_pass(
    "rematerialise", paper="Chen et al. 2016, Training deep nets with sublinear memory cost"
)
@dataclass(frozen=True, slots=True)
class Rematerialise:
    """After: intermediates need no more bytes at once than the options allow, as predicted, or as
    few as any choice makes them need. Kernels are those that there were, so every bit is.
    """

    options: Options = Options(share=0.0)

    def __call__(self, program: Program) -> Program:
        """The program with bindings computed a second time, and the points that were weighed."""
        rows: list[Rematerialisation] = []
        tilings = {t.binding: t for t in program.decisions.tilings}
        taken = {v.name for f in program.functions for v in f.params} | program.constants.keys()
        taken |= {v.name for _, b in program.bindings() for v in b.vars}
        for function in program.functions:
            steps = steps_of(program, function)
            room = self.options.room(steps.plain.peak_bytes)
            points = chosen(front(steps), room)
            if len(points) < 2:
                continue
            found = tuple(weighed(steps, p, room) for p in points)
            rows.append(Rematerialisation(function.name, room, found[0].value, found))
            again = _Again(function, steps, points[0], taken)
            program = program.with_function(again.written())
            tilings |= again.tilings(tilings)
        decisions = replace(
            program.decisions, rematerialisation=tuple(rows), tilings=tuple(tilings.values())
        )
        return replace(program, decisions=decisions)


class _Again:
    """A function with a point's steps computed again."""

    def __init__(self, function: Function, steps: Steps, point: Point, taken: set[str]) -> None:
        self.function, self.steps, self.copies = function, steps, point.copies
        self.values: dict[str, Var] = {}  # by name, what late readers read instead
        self.made = {copy.place: self.copy(copy, taken) for copy in point.copies}

    def copy(self, copy: Copy, taken: set[str]) -> Binding:
        """A binding of other names, of what is computed again where that is."""
        old = self.function.body[copy.place]
        vars = tuple(replace(v, name=fresh(f"{v.name}.again", taken)) for v in old.vars)
        taken.update(v.name for v in vars)
        expr = with_reads(old.expr, self.values)
        if isinstance(expr, KernelCall) and copy.after >= 0:
            expr = replace(expr, after=self.function.body[copy.after].vars[0])
        self.values |= {v.name: new for v, new in zip(old.vars, vars, strict=True)}
        return Binding(vars, expr, old.origin)

    def written(self) -> Function:
        """Each copy stands before what reads it, and behind what it comes after."""
        late = set(self.steps.late)
        before = self._before()
        body: list[Binding] = []
        place: dict[int, int] = {}  # of each step as it was
        for n, binding in enumerate(self.function.body):
            body += [self.made[m] for m in before.get(n, ())]
            if n in late:
                binding = replace(binding, expr=with_reads(binding.expr, self.values))
            place[n] = len(body)
            body.append(binding)
        needs = {place[n]: [place[m] for m in s.needs] for n, s in enumerate(self.steps.all)}
        return replace(self.function, body=_in_order(body, needs))

    def _before(self) -> Mapping[int, Sequence[int]]:
        """By late step the copies that it, or one of these, is the first to read."""
        first: dict[int, int] = {}
        for n in sorted(self.steps.late, reverse=True):
            first |= {m: n for m in self.steps.all[n].needs if m in self.made}
        for place in sorted(self.made, reverse=True):
            for m in self.steps.all[place].needs:
                if m in self.made:
                    first[m] = min(first.get(m, first[place]), first[place])
        found: dict[int, list[int]] = {}
        for place in sorted(first):
            found.setdefault(first[place], []).append(place)
        return found

    def tilings(self, known: Mapping[str, TilingDecision]) -> dict[str, TilingDecision]:
        """What Roller decided of the copies: the same as of what they are copies of."""
        pairs = ((self.function.body[place].name, made.name) for place, made in self.made.items())
        return {new: replace(known[old], binding=new) for old, new in pairs if old in known}


def _in_order(body: Sequence[Binding], needed: Mapping[int, Sequence[int]]) -> tuple[Binding, ...]:
    """The bindings, each behind all that it reads and that is `needed`, else as they stand."""
    place = {v.name: n for n, b in enumerate(body) for v in b.vars}
    reads = [{place[v.name] for v in b.reads if v.name in place} for b in body]
    needs = [sorted({*reads[n], *needed.get(n, ())}) for n in range(len(body))]
    order, _ = in_turn(needs, ())
    return tuple(body[n] for places in order for n in places)
