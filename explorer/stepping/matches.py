"""Matches of a step's rules: the rule, the place, and the bindings before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.compilation import Compilation
from explorer.compiler import pipeline
from explorer.differences.changes import difference
from explorer.errors import BadOption, IronworksError
from explorer.ir.program import Binding
from explorer.passes.pipeline.former_names import current_name
from explorer.passes.pipeline.pipeline import Snapshot, Step
from explorer.passes.rewrite_trace import recording
from explorer.stepping.regions import regions
from explorer.stepping.rule import Rule, rule_of

LONGEST_SECONDS = 2.0  # that a step took and is still run again for its matches; chosen


@dataclass(frozen=True, slots=True)
class StepMatch:
    """One application of a rule: the matched bindings and their replacement.

    `title` is its name for readers. `traced` is True if the rule reported the match; otherwise this
    is a part of the program that differs after the step.
    """

    rule: Rule
    before: tuple[Binding, ...]
    after: tuple[Binding, ...]
    traced: bool
    title: str

    @property
    def ops(self) -> frozenset[str]:
        """The source operators of these bindings."""
        return frozenset[str]().union(*(b.origin for b in (*self.before, *self.after)))


def step_of(c: Compilation, name: str) -> Step:
    """Return the step of that name in the compilation's pipeline, or raise BadOption."""
    steps = pipeline(c.options, c.device)
    for step in steps:
        if step.name == name:
            return step
    step_names = ", ".join(s.name for s in steps)
    raise BadOption(f"there is no step {name[:40]!r}", where=name[:40], expected=step_names)


def matches(c: Compilation, step: str) -> tuple[StepMatch, ...]:
    """Return the matches of a step's rules in order, by running the step again.

    After them come the parts that differ and that no rule reported. A step that takes long, or now
    gives another result, has such parts only.

    Raises:
        BadOption: There is no such step.
    """
    step = current_name(step)
    run = step_of(c, step)
    snapshot = next((s for s in c.snapshots if s.name == step), None)
    if snapshot is None:
        raise BadOption(f"the step {step!r} was not run", where=step, try_="compile further")
    rule = rule_of(run.run)
    if snapshot.before is snapshot.after:
        return ()
    traced = _traced_matches(run, snapshot) if snapshot.seconds <= LONGEST_SECONDS else ()
    traced_names = {b.name for m in traced for b in (*m.before, *m.after)}
    parts = regions(snapshot.before, snapshot.after)
    others = (both for both in parts if not traced_names or _names(both) - traced_names)
    return (*traced, *(StepMatch(rule, old, new, False, step) for old, new in others))


def _names(both: tuple[tuple[Binding, ...], ...]) -> set[str]:
    """Return the names of all bindings of a part."""
    return {b.name for part in both for b in part}


def _traced_matches(step: Step, snapshot: Snapshot) -> Sequence[StepMatch]:
    """Return the matches that the rules report, or none if the step now gives another result."""
    try:
        with recording() as records:
            after = step.run(snapshot.before)
    except IronworksError:  # a user's pass may fail the second time
        return ()
    if difference(snapshot.after, after):
        return ()
    with_rules = [(m, rule_of(m.rule)) for m in records]
    return [StepMatch(r, m.before, m.after, True, m.title or r.title) for m, r in with_rules]
