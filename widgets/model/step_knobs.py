"""A switch and a place for each step of the pipeline: knobs of the switchboard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.compilation import Compilation
from explorer.compiler import pipeline
from explorer.passes.pipeline.pipeline import Step
from explorer.passes.pipeline.user_pass import UserPass
from explorer.passes.switches.arrangement import Options
from widgets.model.compiled import Compiled
from widgets.model.knob import Knob

HIDDEN = "hidden"
SWITCH, PLACE = "step ", "place "
AS_IT_IS, FIRST = "as it is", "first of its stage"


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
