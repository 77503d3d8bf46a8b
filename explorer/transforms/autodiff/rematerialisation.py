"""Rematerialisation: which values a function stores, and which it recomputes.

    a = f(x); b = g(a); ...; d = h(c, a)   ->   a = f(x); b = g(a); ...; a2 = f(x) after c;
                                                d = h(c, a2)

It works on kernels as they will run. A recomputed kernel has the same tiling, so its bits are the
same, and a value that Welder keeps inside of a kernel is never stored.

The choice is among points between the fastest run and the one of least memory. A function is cut
where the fewest bytes cross before its peak (Chen et al. 2016, Training deep nets with sublinear
memory cost). Crossing values are stored, and the segments between them are recomputed: the first
few, or all. Other points recompute only values that are cheap for their bytes (Korthikanti et al.
2022, Reducing activation recomputation in large transformer models).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.ir.calls import KernelCall, Var
from explorer.ir.decisions.candidate import Candidate, Refusal
from explorer.ir.decisions.decided import Recomputation, Rematerialisation
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.program import Binding, Function, Program, fresh
from explorer.passes.registry import compiler_pass
from explorer.transforms.autodiff.function_steps import Copy, RunCost, Steps, steps_of
from explorer.transforms.autodiff.options import Options
from explorer.transforms.loop_dataflow import order_groups
from explorer.transforms.simplify.substitution import with_reads

SEGMENTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)  # numbers of segments that are tried
PARTS = 6  # points that are tried of each series
Stored = frozenset[int]


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


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One choice: the recomputed steps and the run that results."""

    label: str
    copies: tuple[Copy, ...]
    run: RunCost


def front(steps: Steps) -> tuple[FrontierPoint, ...]:
    """Return the Pareto front in time and memory, the fastest first.

    The first point is the run without recomputation.
    """
    plain = FrontierPoint("nothing recomputed", (), steps.plain)
    points: dict[tuple[Copy, ...], FrontierPoint] = {(): plain}
    for label, stored in choices(steps):
        copies = tuple(steps.copies(stored))
        if copies not in points:
            points[copies] = FrontierPoint(label, copies, steps.run(copies))
    ranked = sorted(points.values(), key=lambda p: (p.run.us, p.run.peak_bytes, len(p.copies)))
    out: list[FrontierPoint] = []
    for point in ranked:
        if not out or point.run.peak_bytes < out[-1].run.peak_bytes:
            out.append(point)
    return tuple(out)


def choices(steps: Steps) -> Iterator[tuple[str, Stored]]:
    """Yield the sets of values that could be stored, with a label for each."""
    saved = frozenset(steps.saved)
    if not saved:
        return
    rates = sorted(saved, key=lambda n: steps.all[n].us / steps.all[n].bytes)
    for count in _spread(len(rates)):
        yield f"recompute the {count} cheapest", saved - {*rates[:count]}
    seen: set[Stored] = set()
    for most in SEGMENTS:
        cuts = _cuts(steps, most)
        crossing = _crossing(steps, cuts)
        if not cuts or crossing in seen:
            continue
        seen.add(crossing)
        for count in _spread(len(cuts)):
            saved_after_cut = frozenset(n for n in saved if steps.level[n] > cuts[count - 1])
            yield f"recompute {count} of {len(cuts) + 1} segments", crossing | saved_after_cut


def _cuts(steps: Steps, most: int) -> tuple[int, ...]:
    """Return the levels that cut a function into about `most` segments of equal bytes.

    Each cut is at the narrowest level of the second half of its segment.
    """
    crossing = {
        level: sum(steps.all[n].bytes for n in places) for level, places in steps.crossing().items()
    }
    saved_bytes = dict.fromkeys(range(steps.peak_level), 0)
    for n in steps.saved:
        saved_bytes[steps.level[n]] += steps.all[n].bytes
    limit, cuts, begin = sum(saved_bytes.values()) / most, list[int](), 0
    for level in sorted(crossing):
        segment_bytes = sum(saved_bytes[n] for n in range(begin + 1, level + 1))
        if segment_bytes < limit:
            continue
        half = [
            n
            for n in range(begin + 1, level + 1)
            if n in crossing and _is_second_half(saved_bytes, begin, n, segment_bytes)
        ]
        begin = min(half, key=lambda n: (crossing[n], -n))
        cuts.append(begin)
    return tuple(cuts)


def _is_second_half(
    saved_bytes: dict[int, int], begin: int, level: int, segment_bytes: int
) -> bool:
    return 2 * sum(saved_bytes[n] for n in range(begin + 1, level + 1)) >= segment_bytes


def _crossing(steps: Steps, cuts: tuple[int, ...]) -> Stored:
    crossing = steps.crossing()
    return frozenset(n for level in cuts for n in crossing[level])


def _spread(count: int) -> list[int]:
    """Return some numbers from 1 to `count`, the last included."""
    return sorted({-(-count * part // PARTS) for part in range(1, PARTS + 1)} - {0})


def rank_points(points: tuple[FrontierPoint, ...], limit_bytes: int) -> tuple[FrontierPoint, ...]:
    """Sort the points, best first.

    The fastest that fits into `limit_bytes` comes first, then slower ones, then those that do not
    fit, the smallest first.
    """
    return tuple(sorted(points, key=lambda p: (max(0, p.run.peak_bytes - limit_bytes), p.run.us)))


def to_candidate(steps: Steps, point: FrontierPoint, limit_bytes: int) -> Candidate[Recomputation]:
    """Return a point as the candidate of a decision, refused if it does not fit."""
    names = tuple(steps.all[c.place].name for c in point.copies)
    peak = point.run.peak_bytes
    recomputation = Recomputation(names, peak, point.run.us)
    terms = (("before", steps.plain.us), ("recomputed", point.run.us - steps.plain.us))
    if peak <= limit_bytes:
        return Candidate(point.label, recomputation, terms)
    text = f"it needs {peak:,} bytes, and only {limit_bytes:,} are available"
    why = Refusal("room", float(peak), float(limit_bytes), text)
    return Candidate(point.label, recomputation, terms, text, why)
