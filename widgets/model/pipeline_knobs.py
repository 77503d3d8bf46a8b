"""Knobs of the pipeline: the user's passes, and a switch and a place for each step.

A user's pass is on or off, and its options that declare legal values have a knob each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import pipeline
from explorer.extend import passes
from explorer.passes import policy_call
from explorer.passes.arrangement import Options
from explorer.passes.registry import Passes
from explorer.passes.snapshots import Step
from explorer.passes.user_pass import UserPass
from widgets.model.compiled import Compiled
from widgets.model.knob import Knob

if TYPE_CHECKING:
    from widgets.model.compiled import Compiled

PREFIX = "pass "
HIDDEN = "hidden"
SWITCH, PLACE = "step ", "place "
AS_IT_IS, FIRST = "as it is", "first of its stage"
SLOW = ("fusion", "control")  # they reprice every kernel


def own_knobs(now: Compiled, pinned: Compiled) -> Iterator[Knob]:
    """Yield a knob for each user pass of this compilation or A, and one for each of its options.

    Only options with legal values have a knob. A knob's values are the complete lists of passes.
    """
    mine, theirs = _of(now), _of(pinned)
    for after, run in {r.name: (a, r) for a, r in (*theirs, *mine)}.values():
        have = next(((a, r) for a, r in mine if r.name == run.name), None)
        others = tuple(entry for entry in mine if entry[1].name != run.name)
        on: Passes = mine if have else _in_order((*others, (after, run)), theirs)
        yield Knob(
            f"{PREFIX}{run.name}",
            run.name,
            "segments",
            (others, on),
            ("off", "on"),
            int(have is not None),
            int(run.name in [r.name for _, r in theirs]),
            run.promise or f"after {after}",
        )
        if have:
            yield from _options(have[1], mine, theirs)


def _of(c: Compiled) -> tuple[tuple[str, UserPass], ...]:
    return tuple(passes.typed_passes(getattr(c.options, "passes", ())))


def _in_order(
    entries: tuple[tuple[str, UserPass], ...], like: tuple[tuple[str, UserPass], ...]
) -> Passes:
    """Sort passes as in A, with the others behind them."""
    names = [r.name for _, r in like]
    return tuple(
        sorted(entries, key=lambda e: names.index(e[1].name) if e[1].name in names else len(names))
    )


def _options(
    run: UserPass,
    mine: tuple[tuple[str, UserPass], ...],
    theirs: tuple[tuple[str, UserPass], ...],
) -> Iterator[Knob]:
    base = next((r for _, r in theirs if r.name == run.name), None)
    for name, values in passes.legal_values(run.run):

        def with_value(value: Any, name: str = name) -> Passes:
            changed_pass: Any = replace(run.run, **{name: value})  # type: ignore[type-var]
            return tuple(
                (a, replace(r, run=changed_pass) if r.name == run.name else r) for a, r in mine
            )

        was = getattr(base.run, name, None) if base else None
        yield Knob(
            f"{PREFIX}{run.name}.{name}",
            f"{run.name} {name}",
            "segments" if len(values) <= 4 else "choice",
            tuple(map(with_value, values)),
            tuple(map(_value_label, values)),
            values.index(getattr(run.run, name)),
            values.index(was) if was in values else None,
            run.promise,
        )


def _value_label(value: object) -> str:
    return (
        {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


def all_steps(c: Compiled) -> tuple[Step, ...]:
    """Return every step in its place, including those that are off.

    Empty for a compilation that is not Ironworks' own.
    """
    if not isinstance(c, Compilation):
        return ()
    on = replace(c.options, steps=replace(c.options.steps, off=()))
    return pipeline(on, c.device)


def step_knobs(now: Compiled, pinned: Compiled) -> Iterator[Knob]:
    """Yield for each step its switch and its place among the steps of its stage."""
    steps = all_steps(now)
    if not steps:
        return
    mine: Options = now.options.steps
    theirs: Options = pinned.options.steps
    for step in steps:
        if not isinstance(step.run, UserPass):
            yield _switch(step.name, mine, theirs)
        yield _place(step, steps, mine)


def _switch(name: str, mine: Options, theirs: Options) -> Knob:
    others = tuple(n for n in mine.off if n != name)
    values = (replace(mine, off=(*others, name)), replace(mine, off=others))
    on, pinned = int(name not in mine.off), int(name not in theirs.off)
    return Knob(f"{SWITCH}{name}", name, HIDDEN, values, ("off", "on"), on, pinned)


def _place(step: Step, steps: tuple[Step, ...], mine: Options) -> Knob:
    others = tuple(m for m in mine.moved if m[0] != step.name)
    beside = [s.name for s in steps if s.stage == step.stage and s is not step]
    places = ("", *beside)
    values = [replace(mine, moved=others)]
    values += [replace(mine, moved=(*others, (step.name, after))) for after in places]
    labels = (AS_IT_IS, FIRST, *(f"after {name}" for name in beside))
    after_name = next((after for name, after in mine.moved if name == step.name), None)
    now = 0 if after_name is None or after_name not in places else 1 + places.index(after_name)
    name = f"{PLACE}{step.name}"
    return Knob(name, step.name, HIDDEN, tuple(values), labels, now, None)


def is_default(knob: Knob) -> bool:
    """Return True if a switch is on, or a step is in its default place."""
    return knob.labels[knob.now] in ("on", AS_IT_IS)


def precompiled_knobs(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """Return the knobs whose other values are compiled in advance."""
    passes = any(k.name.startswith(PREFIX) for k in knobs)
    policies = any(not isinstance(v, str) for k in knobs if k.name in SLOW for v in k.values)
    if passes or policies or policy_call.all_policies():
        return ()
    return tuple(k for k in knobs if k.name in SLOW)
