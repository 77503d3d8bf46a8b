"""Every single match of a step's rules, one after the other: which rule, where, and what that part
was before and is after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.compilation import Compilation
from explorer.compiler import pipeline
from explorer.differences.changes import difference
from explorer.errors import BadOption, IronworksError
from explorer.ir.program import Binding
from explorer.passes.pipeline.pipeline import Snapshot, Step
from explorer.passes.rewrite_trace import recording
from explorer.stepping.regions import regions
from explorer.stepping.rule import Rule, rule_of

LONGEST_SECONDS = 2.0  # that a step took and is still run again for its matches; chosen


@dataclass(frozen=True, slots=True)
class StepMatch:
    """One application of a rule: the bindings where it matched, and those in their place, under
    the `title` that readers know. `told`: the rule said so; else it is a part of the program that
    is another one after the step.
    """

    rule: Rule
    before: tuple[Binding, ...]
    after: tuple[Binding, ...]
    told: bool
    title: str

    @property
    def ops(self) -> frozenset[str]:
        """The source operators that it is about."""
        return frozenset[str]().union(*(b.origin for b in (*self.before, *self.after)))


def step_of(c: Compilation, name: str) -> Step:
    """The step of that name in the compilation's pipeline. BadOption where there is none."""
    steps = pipeline(c.options, c.device)
    for step in steps:
        if step.name == name:
            return step
    known = ", ".join(s.name for s in steps)
    raise BadOption(f"there is no step {name[:40]!r}", where=name[:40], expected=known)


def matches(c: Compilation, step: str) -> tuple[StepMatch, ...]:
    """The matches of a step's rules in the order in which they were made, by running the step again
    on the program that it was given. Behind them stand the parts that are different and that no
    rule told of: all of them, of a step that takes long, or that does something else now.

    Raises BadOption where there is no such step.
    """
    run = step_of(c, step)
    snapshot = next((s for s in c.snapshots if s.name == step), None)
    if snapshot is None:
        raise BadOption(f"the step {step!r} was not run", where=step, try_="compile further")
    rule = rule_of(run.run)
    if snapshot.before is snapshot.after:
        return ()
    told = _again(run, snapshot) if snapshot.seconds <= LONGEST_SECONDS else ()
    known = {b.name for m in told for b in (*m.before, *m.after)}
    parts = regions(snapshot.before, snapshot.after)
    rest = (both for both in parts if not known or _names(both) - known)
    return (*told, *(StepMatch(rule, old, new, False, step) for old, new in rest))


def _names(both: tuple[tuple[Binding, ...], ...]) -> set[str]:
    return {b.name for part in both for b in part}


def _again(step: Step, snapshot: Snapshot) -> Sequence[StepMatch]:
    """What the rules tell of; nothing where the step does not do now what it did then."""
    try:
        with recording() as found:
            after = step.run(snapshot.before)
    except IronworksError:  # a pass of somebody's own may end otherwise the second time
        return ()
    if difference(snapshot.after, after):
        return ()
    told = [(m, rule_of(m.rule)) for m in found]
    return [StepMatch(r, m.before, m.after, True, m.title or r.title) for m, r in told]
